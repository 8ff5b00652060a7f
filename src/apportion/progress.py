"""A bar that shows how far a training is, where a person watches: after a second, and never in a log."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

# Called with the number of steps done, and how many there are.
Step = Callable[[int, int], None]
Wanted = bool | Step | None
# What ends sooner needs no bar.
_PATIENCE = 1.0  # seconds


@contextmanager
def watched(what: str, wanted: Wanted = None) -> Iterator[Step]:
    """Tell how far something is: what it is called, and what to call after each step.

    Shown on the error stream of a terminal, or in a notebook, after a second. ``wanted`` True shows it
    wherever the stream leads, False nowhere; a function is told instead. How many steps are done is public.
    """
    if callable(wanted):
        yield wanted
        return
    if wanted is False or (wanted is None and not _is_watched()):
        yield _tell_nobody
        return
    bar = _Bar(what)
    try:
        yield bar.step
    finally:
        bar.close()


def _tell_nobody(done: int, total: int) -> None:
    del done, total


def _is_watched() -> bool:
    """Whether the error stream is a terminal, or this is a notebook."""
    return _in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


def _in_notebook() -> bool:
    """Whether cells show what is displayed, as in Jupyter."""
    shell = sys.modules.get("IPython")
    found = None if shell is None else shell.get_ipython()
    return type(found).__name__ == "ZMQInteractiveShell"


class _Bar:
    """Begins by itself once patience is over."""

    def __init__(self, what: str) -> None:
        self._what, self._done, self._total = what, 0, 0
        self._shown: tuple[Progress, TaskID] | None = None
        self._lock, self._closed = threading.Lock(), False
        self._timer = threading.Timer(_PATIENCE, self._begin)
        self._timer.daemon = True
        self._timer.start()

    def step(self, done: int, total: int) -> None:
        """So many steps are done."""
        with self._lock:
            self._done, self._total = done, total
            if self._shown is not None:
                progress, task = self._shown
                progress.update(task, completed=done, total=total)

    def close(self) -> None:
        """Nothing is shown any more."""
        self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._shown is not None:
                self._shown[0].stop()

    def _begin(self) -> None:
        from rich.console import Console  # slow to load
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        with self._lock:
            if self._closed:
                return
            progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            task = progress.add_task(self._what, total=self._total or None, completed=self._done)
            progress.start()
            self._shown = progress, task
