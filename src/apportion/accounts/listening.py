"""Who listens to the trainings of this thread: audits do."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from apportion.privacy import Listener, Record

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
    """Who listens in this thread now."""
    return _current.get()


def told_listener() -> "Told | None":
    """Whom a training that begins now shall tell."""
    listener = current_listener()
    return None if listener is None else Told(listener)


class Told:
    """A listener that is told copies, and whose answers count only if it said so when the training began."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.replaces = bool(listener.replaces)

    def released(
        self, records: Sequence[Record], parts: Sequence[Any], values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """See ``Listener.released``."""
        answer = self._listener.released(records, parts, tuple(each.copy() for each in values))
        return answer if self.replaces else values

    def selected(self, name: str, ids: Any, counts: Any) -> tuple[Any, Any]:
        """See ``Listener.selected``."""
        answer = self._listener.selected(name, ids.copy(), counts.copy())
        return answer if self.replaces else (ids, counts)
