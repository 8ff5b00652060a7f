"""A bar that shows how far a training is, where a person watches: after a second, and never in a log."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from apportion.errors import ParameterError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

# Called with the number of steps done, and how many there are.
Step = Callable[[int, int], None]
Wanted = bool | Step | None
# What ends sooner needs no bar.
_PATIENCE = 1.0  # seconds
# A notebook is told at most as often.
_REST = 0.2


@contextmanager
def watched(what: str, wanted: Wanted = None) -> Iterator[Step]:
    """Tell how far something is: what it is called, and what to call after each step.

    Shown on the error stream of a terminal, or in a notebook, after a second. ``wanted`` True shows it
    wherever the stream leads, False nowhere; a function is told instead. How many steps are done is public.
    """
    if callable(wanted):
        yield wanted
        return
    if wanted not in (None, True, False):
        raise ParameterError(f"progress must be True, False or a function, got {wanted!r}")
    in_notebook = _in_notebook()
    if wanted is False or not (wanted or in_notebook or _is_terminal()):
        yield _tell_nobody
        return
    bar = _Cell(what) if in_notebook else _Bar(what)
    try:
        yield bar.step
    finally:
        bar.close()


def both(one: Step, other: Callable[[int, int], object]) -> Step:
    """Tells both."""

    def tell(done: int, total: int) -> None:
        one(done, total)
        other(done, total)

    return tell


def _tell_nobody(done: int, total: int) -> None:
    del done, total


def _is_terminal() -> bool:
    """Whether somebody sees the error stream, on a terminal that can move its cursor."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _in_notebook() -> bool:
    """Whether cells show what is displayed, as in Jupyter."""
    shell = sys.modules.get("IPython")
    found = None if shell is None else shell.get_ipython()
    return type(found).__name__ == "ZMQInteractiveShell"


class _Cell:
    """In a notebook: an element of the page, shown with the first step after a second."""

    def __init__(self, what: str) -> None:
        self._what, self._since = what, time.monotonic()
        self._handle: Any = None

    def step(self, done: int, total: int) -> None:
        """So many steps are done."""
        now = time.monotonic()
        if now - self._since < (_PATIENCE if self._handle is None else _REST):
            return
        self._since = now
        shown = {
            "text/plain": f"{self._what} {done}/{total}",
            "text/html": f'{self._what} <progress value="{done}" max="{total}"></progress> {done}/{total}',
        }
        if self._handle is None:
            self._handle = sys.modules["IPython"].display.display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def close(self) -> None:
        """Nothing is shown any more."""
        if self._handle is not None:
            self._handle.update({"text/plain": "", "text/html": ""}, raw=True)


class _Bar:
    """On a terminal. Begins by itself once patience is over."""

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
