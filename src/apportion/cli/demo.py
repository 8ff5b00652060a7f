"""``apportion demo``: what the library does, in a minute, on data that comes with it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from apportion.studies.demo import DemoResult

RESULTS = Path("apportion-results")


def demo(
    epsilon: Annotated[float, typer.Option(help="Privacy budget of each model.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Probability that the guarantee may fail.")] = 1e-5,
    out: Annotated[Path, typer.Option(help="Folder for the picture and the report.")] = RESULTS
    / "demo",
) -> None:
    """Train privately on simulated data with uniform and with adaptive budgets, side by side.

    A hundred regression tasks, ten thousand users, one model per task. Both runs have the same epsilon;
    the adaptive one also pays for its private task counts out of it.

    [bold]Examples[/bold]

      apportion demo

      apportion demo --epsilon 0.5 --out /tmp/demo
    """
    console = Console()
    with console.status("training 2 x 100 private models (the first run compiles its loops) ..."):
        # Imported here so that `apportion --help` answers at once.
        from apportion.data.files import check_folder
        from apportion.studies import demo as study
        from apportion.studies.output import write_figure, write_text

        check_folder(out)
        result = study.run(epsilon=epsilon, delta=delta)
        picture = out / "demo.png"
        write_figure(picture, study.figure(result))
        report = out / "privacy.json"
        write_text(report, result.report.to_json())
    console.print(_table(result))
    console.print(result.report)
    console.print(f"picture: {picture}\nreport:  {report}", highlight=False, soft_wrap=True)


def _table(result: "DemoResult") -> Table:
    table = Table(
        title=f"test RMSE at epsilon = {result.report.ledger.target.epsilon:g} (lower is better)",
        title_justify="left",
    )
    table.add_column("tasks")
    table.add_column("users a task", justify="right")
    for name in result.by_size:
        table.add_column(name, justify="right")
    table.add_column("change", justify="right")
    names = ["smallest (tail)", "second fifth", "third fifth", "fourth fifth", "largest (head)"]
    for name, size, uniform, adaptive in zip(
        names, result.bucket_sizes, *result.by_size.values(), strict=True
    ):
        table.add_row(
            name, f"{size:,.0f}", f"{uniform:.3f}", f"{adaptive:.3f}", _change(uniform, adaptive)
        )
    table.add_section()
    uniform, adaptive = result.overall.values()
    table.add_row("all", "", f"{uniform:.3f}", f"{adaptive:.3f}", _change(uniform, adaptive))
    return table


def _change(before: float, after: float) -> str:
    change = after / before - 1
    colour = "green" if change < 0 else "red"
    return f"[{colour}]{change:+.0%}[/{colour}]"
