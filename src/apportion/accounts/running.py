"""Which trainings run: each holds a lock on a file beside the budget, which the system lets go when it dies.

Nothing rests on this but who may end whose training. What a training may release, its budget decides: once a
training is ended there, it can commit nothing more, whether it runs or not.
"""

import errno
import os
import socket
import sys
import weakref
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from apportion.errors import BudgetFileError

with suppress(ImportError):  # a system without
    import fcntl

_LOCKS = "fcntl" in sys.modules
_HELD = (errno.EAGAIN, errno.EACCES)
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)


class State(StrEnum):
    """What is known of a training."""

    ended = "ended"
    running = "running"
    dead = "dead"
    unknown = "unknown"  # counts as running


class Running:
    """Held while a training runs; let go by ``release``, or by the end of the process."""

    def __init__(self, path: Path) -> None:
        """Refuses (``BudgetFileError``) if another process, or another part of this one, holds it."""
        self._path = path
        try:
            self._file = _hold(path)
        except OSError as error:
            raise BudgetFileError(
                f"cannot write {path}: {error.strerror}; trainings need a budget, and its folder, that "
                "they can write"
            ) from error
        self._closed = weakref.finalize(self, _close, self._file)

    def release(self, *, remove: bool) -> None:
        """Let go; ``remove`` the file, too, if the training has ended for good.

        A file that cannot be removed stays: of a training that has ended nobody asks for it.
        """
        if self._closed.alive:
            if remove and self._file is not None:
                with suppress(OSError):
                    self._path.unlink(missing_ok=True)
            self._closed()


def machine() -> str:
    """The name of this machine: of a lock that was taken on another one nothing is known."""
    return socket.gethostname()


def lock_path(budget: Path, token: str) -> Path:
    """The file whose lock a training holds."""
    return budget.with_name(f"{budget.name}-{token}.lock")


def is_lost(path: Path) -> bool:
    """Whether a training that has not ended has no lock file here, as beside a copy of its budget."""
    return _LOCKS and not path.exists()


def state_of(path: Path, on_machine: str) -> State:
    """Whether a training that has not ended runs, by its lock."""
    if not _LOCKS or on_machine != machine():
        return State.unknown
    try:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return State.unknown
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return State.running if error.errno in _HELD else State.unknown
    else:
        return State.dead
    finally:
        os.close(file)


def _hold(path: Path) -> int | None:
    """The locked file; None where there are no locks."""
    if not _LOCKS:
        return None
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(file).st_ino == path.stat().st_ino:
                return file
        except FileNotFoundError:  # somebody has just removed it
            pass
        except OSError as error:
            os.close(file)
            if error.errno in _HELD:
                raise BudgetFileError("this training runs already, in another process") from None
            if error.errno in _NO_LOCKS:
                return None
            raise
        os.close(file)


def _close(file: int | None) -> None:
    if file is not None:
        os.close(file)
