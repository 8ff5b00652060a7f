"""Scores of rows and columns, and the columns with the highest ones (native/topk.cpp)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.native import kernels
from apportion.threads import threads_for
from apportion.twins import topk as twin

Integers = NDArray[np.integer[Any]]
Scores = NDArray[np.float32]

_topk = twin if kernels is None else kernels


def top(scores: Scores, k: int, start: Integers, skip: Integers) -> tuple[Integers, Scores]:
    """See ``Engine.top``. One pass over the scores of each row."""
    columns = (np.ascontiguousarray(each, dtype=np.int64) for each in (start, skip))
    scores = np.ascontiguousarray(scores, dtype=np.float32)
    places, best = _topk.top(scores, k, *columns, threads_for(scores.size))
    return places, best


class ItemScores:
    """Scores of the same items for any users: the items are laid out for it once.

    No score depends on how many rows or items there are: a user alone gets the same bits as among many.
    """

    def __init__(self, items: Scores) -> None:
        self._count = len(items)
        items = np.ascontiguousarray(items, dtype=np.float32)
        self._turned: Scores = _topk.turn_items(items, threads_for(items.size))

    def of(self, vectors: Scores) -> Scores:
        """The product of each row's vector [rows, d] with each item's, [rows, items]."""
        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        threads = threads_for(vectors.size * self._count)
        scores: Scores = _topk.score(vectors, self._turned, self._count, threads)
        return scores
