"""Who listens to releases: audits do. They are told released values, never sums, keys or noise."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from apportion.privacy.ledger import Record


class Listener(Protocol):
    """Who listens to what is released, as an audit does. It is told released values, never sums or keys.

    ``replaces`` says whether it may answer with other values than it was told: the training then goes on
    with those, and its report says NOT PRIVATE.
    """

    replaces: bool

    def released(
        self, records: Sequence[Record], parts: Sequence[Any], values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Told the noisy values of a block of tasks; returns those that the training shall see."""

    def selected(self, name: str, ids: Any, counts: Any) -> tuple[Any, Any]:
        """Told a selection; returns the one that the training shall see."""


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
