"""Looking at what a training releases, value by value, and showing it other values instead.

A listener is told what ``OpenRelease.feed`` and ``Curator.select`` return: values that may be published.
No raw sum, key or noise is. Nothing is seen of a training in another thread, nor after the block has ended.
A training that is shown other values says NOT PRIVATE.

Showing every training the same values takes the adaptivity out of it: given what was released before, the
next release must be as private as its record says, and whatever else differs has come past the releases.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.accounts.listening import listening
from apportion.privacy import Record

Array = NDArray[np.float64]


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


class _Observer:
    """Writes down what is released; shows what it was given instead, if it was given something."""

    def __init__(self, shown: Transcript | None) -> None:
        self.seen = Transcript()
        self._shown = shown
        self.replaces = shown is not None

    def released(
        self, records: Sequence[Record], parts: Sequence[Any], values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """See ``Listener.released``."""
        answer = []
        for part, record, noisy in zip(parts, records, values, strict=True):
            blocks = self.seen.blocks.setdefault(record.name, [])
            blocks.append(noisy.copy())
            if part.symmetric:
                self.seen.symmetric[record.name] = part.width
            known = [] if self._shown is None else self._shown.blocks.get(record.name, [])
            answer.append(known[len(blocks) - 1].copy() if len(blocks) <= len(known) else noisy)
        return tuple(answer)

    def selected(self, name: str, ids: Any, counts: Any) -> tuple[Any, Any]:
        """See ``Listener.selected``."""
        self.seen.selections[name] = ids, counts
        if self._shown is None:
            return ids, counts
        return self._shown.selections.get(name, (ids, counts))


@contextmanager
def observed(shown: Transcript | None = None) -> Iterator[Transcript]:
    """Write down what trainings in this thread release; if given, show them these values instead."""
    observer = _Observer(shown)
    with listening(observer):
        yield observer.seen
