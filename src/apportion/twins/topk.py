"""Scores and the columns with the highest ones: the twin of native/topk.cpp."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.integer[Any]]
Scores = NDArray[np.float32]


def top(
    scores: Scores, k: int, start: Integers, skip: Integers, threads: int
) -> tuple[Integers, Scores]:
    """The k columns with the highest scores of every row, best first, and their scores, [rows, k] each.

    Row r leaves out the columns ``skip[start[r]:start[r + 1]]``, and those whose score is NaN or -inf;
    if fewer than k are left, columns of -1 with scores of -inf follow. Equal scores come in the order of
    their columns.
    """
    rows = len(scores)
    left = np.where(np.isnan(scores), np.float32(-np.inf), scores)
    for row in range(rows):
        left[row, skip[start[row] : start[row + 1]]] = -np.inf
    places = np.full((rows, k), -1, dtype=np.int64)
    best = np.full((rows, k), -np.inf, dtype=np.float32)
    order = np.argsort(-left, axis=1, kind="stable")[:, :k]
    best[:, : order.shape[1]] = np.take_along_axis(left, order, axis=1)
    places[:, : order.shape[1]] = order
    places[best == -np.inf] = -1
    return places, best


def turn_items(items: Scores, threads: int) -> Scores:
    """Items as ``score`` reads them: here as they are, [items, d]; compiled, in panels of 32."""
    return items.copy()


def score(vectors: Scores, panels: Scores, columns: int, threads: int) -> Scores:
    """The product of each row's vector with each item's, [rows, items].

    No score depends on how many rows or items there are: a user alone gets the same bits as among many.
    """
    return np.asarray(np.einsum("rk,ik->ri", vectors, panels[:columns], optimize=False))
