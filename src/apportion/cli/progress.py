"""How long it will take: bars for what is counted in steps."""

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


def progress_bar(console: Console, *, counted: bool = True, in_bytes: bool = False) -> Progress:
    """A bar with the number of steps or bytes done; or, if that is not for all eyes, with the share only."""
    columns: tuple[ProgressColumn, ...] = (
        MofNCompleteColumn() if counted else TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    if in_bytes:
        columns = DownloadColumn(), TransferSpeedColumn()
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *columns,
        console=console,
        disable=console.quiet,
    )
