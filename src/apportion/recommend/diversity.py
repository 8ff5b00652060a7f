"""Lists whose items differ: the best item that is least like those before it (maximal marginal relevance)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.integer[Any]]
Scores = NDArray[np.float32]


def diversify(
    places: Integers, scores: Scores, items: Scores, k: int, diversity: float
) -> tuple[Integers, Scores]:
    """k of each row's items, in an order that weighs their scores against their likeness, [rows, k] each.

    Each next item has the largest (1 - diversity) * relevance - diversity * likeness: relevance is the score,
    brought to 0 to 1 in its row; likeness the largest cosine to an item that is in the list already.

    Args:
        places, scores: the best items of each row, best first, more than k of them, [rows, pool]; a
            place of -1 is none.
        items: factors of all items, [items, factors].
        k: how many are wanted.
        diversity: from 0, which changes nothing, to 1.
    """
    chosen_places = np.full((len(places), k), -1, dtype=places.dtype)
    chosen_scores = np.full((len(places), k), -np.inf, dtype=np.float32)
    for row in range(len(places)):
        found = places[row] >= 0
        place, score = places[row][found], scores[row][found]
        order = _order(score.astype(np.float64), items[place].astype(np.float64), k, diversity)
        chosen_places[row, : len(order)] = place[order]
        chosen_scores[row, : len(order)] = score[order]
    return chosen_places, chosen_scores


def _order(
    score: NDArray[np.float64], factors: NDArray[np.float64], k: int, diversity: float
) -> list[int]:
    if len(score) == 0:
        return []
    norm = np.linalg.norm(factors, axis=1, keepdims=True)
    directions = factors / np.maximum(norm, 1e-30)
    span = float(score[0] - score[-1])
    relevance = (
        (score - score[-1]) / span if span > 0 and np.isfinite(span) else np.zeros_like(score)
    )
    likeness = np.full(len(score), -1.0)
    order, left = [0], np.ones(len(score), dtype=bool)  # the best one comes first
    left[0] = False
    while len(order) < min(k, len(score)):
        np.maximum(likeness, directions @ directions[order[-1]], out=likeness)
        value = (1 - diversity) * relevance - diversity * likeness
        best = int(np.argmax(np.where(left, value, -np.inf)))
        order.append(best)
        left[best] = False
    return order
