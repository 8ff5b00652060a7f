"""Looking at what a training releases, value by value, and showing it other values instead.

What is seen is what ``OpenRelease.feed`` and ``Curator.select`` return: values that may be published.
No raw sum, key or noise is. Nothing is seen of a training in another thread, nor after the block has ended.

Showing every training the same values takes the adaptivity out of it: given what was released before, the
next release must be as private as its record says, and whatever else differs has come past the releases.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.errors import ReleaseError
from apportion.privacy import Curator, OpenRelease

Array = NDArray[np.float64]

_only_one = threading.Lock()


@dataclass
class Transcript:
    """What one training released, in the order of its releases.

    Attributes
        blocks: by name of the record, every block of tasks as it was released.
        symmetric: the dimension of those that are packed symmetric matrices, by name.
        selections: by name, the chosen ids and their noisy counts.
    """

    blocks: dict[str, list[Array]] = field(default_factory=dict)
    symmetric: dict[str, int] = field(default_factory=dict)
    selections: dict[str, tuple[NDArray[Any], Array]] = field(default_factory=dict)

    def rows(self, name: str) -> Array:
        """All blocks of a record, one row per task and step, in units in which noise is alike.

        Off-diagonal entries of a symmetric matrix have half the variance: they are multiplied by sqrt(2).
        """
        rows = np.concatenate(self.blocks[name])
        if name in self.symmetric:
            above = np.not_equal(*np.triu_indices(self.symmetric[name]))
            rows[:, above] *= np.sqrt(2)
        return rows


@contextmanager
def observed(shown: Transcript | None = None) -> Iterator[Transcript]:
    """Write down what trainings in this thread release; if given, show them these values instead."""
    if not _only_one.acquire(blocking=False):
        raise ReleaseError("one training is observed at a time")
    seen, here = Transcript(), threading.get_ident()
    feed, select = OpenRelease.feed, Curator.select

    def watched_feed(self: OpenRelease, first_task: int, *sums: Array) -> tuple[Array, ...]:
        released = feed(self, first_task, *sums)
        if threading.get_ident() != here:
            return released
        answer = []
        for part, record, noisy in zip(self._parts, self.records, released, strict=True):
            blocks = seen.blocks.setdefault(record.name, [])
            blocks.append(noisy.copy())
            if part.symmetric:
                seen.symmetric[record.name] = part.width
            known: Sequence[Array] = [] if shown is None else shown.blocks.get(record.name, [])
            answer.append(known[len(blocks) - 1].copy() if len(blocks) <= len(known) else noisy)
        return tuple(answer)

    def watched_select(self: Curator, name: str, *rest: Any, **more: Any) -> Any:
        released = select(self, name, *rest, **more)
        if threading.get_ident() != here:
            return released
        seen.selections[name] = released
        return released if shown is None else shown.selections.get(name, released)

    usual = OpenRelease.in_one_thread
    try:
        OpenRelease.feed, Curator.select = watched_feed, watched_select  # type: ignore[method-assign]
        OpenRelease.in_one_thread = property(lambda _: True)  # type: ignore[assignment,method-assign]
        yield seen
    finally:
        OpenRelease.feed, Curator.select = feed, select  # type: ignore[method-assign]
        OpenRelease.in_one_thread = usual  # type: ignore[method-assign]
        _only_one.release()
