"""The k best of every row of scores."""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from apportion.engine.cpu.gram import take_next
from apportion.threads import side_by_side, threads_for

Integers = NDArray[np.integer[Any]]


def top(
    scores: NDArray[np.float32], k: int, start: Integers, skip: Integers
) -> tuple[Integers, NDArray[np.float32]]:
    """The k columns with the highest scores of every row, best first, and their scores, [rows, k].

    Args:
        scores: [rows, columns].
        k: how many; a row with fewer columns left is filled up with column -1, score -inf.
        start, skip: row r leaves out the columns ``skip[start[r]:start[r + 1]]``.

    Equal scores come in the order of their columns.
    """
    places = np.full((len(scores), k), -1, dtype=np.int64)
    best = np.full((len(scores), k), -np.inf, dtype=np.float32)
    counter = np.zeros(1, dtype=np.int64)
    side_by_side(
        lambda _: _top(scores, start, skip, counter, places, best),
        range(threads_for(scores.size)),
    )
    return places, best


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _top(
    scores: NDArray[np.float32],
    start: Integers,
    skip: Integers,
    counter: Integers,
    places: Integers,
    best: NDArray[np.float32],
) -> None:
    rows, columns = scores.shape
    k = places.shape[1]
    while True:
        row = take_next(counter)
        if row >= rows:
            break
        left_out = np.zeros(columns, dtype=np.bool_)
        for entry in range(start[row], start[row + 1]):
            left_out[skip[entry]] = True
        place, score = places[row], best[row]
        # A sorted list of the best: nearly all columns fail the first comparison.
        for column in range(columns):
            value = scores[row, column]
            if value > score[k - 1] and not left_out[column]:
                at = k - 1
                while at > 0 and value > score[at - 1]:
                    score[at] = score[at - 1]
                    place[at] = place[at - 1]
                    at -= 1
                score[at] = value
                place[at] = column
