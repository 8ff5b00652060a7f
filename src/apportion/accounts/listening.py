"""Who listens to the trainings of this thread: audits do."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from apportion.privacy import Listener

_current: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Trainings that are begun in this block, in this thread, tell the listener what they release."""
    before = _current.set(listener)
    try:
        yield
    finally:
        _current.reset(before)


def current_listener() -> Listener | None:
    """Whom a training that begins now shall tell."""
    return _current.get()
