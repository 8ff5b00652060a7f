"""Who takes which items, for simulated data: the twin of native/bind_simulate.cpp."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Singles = NDArray[np.float32]

PATIENCE = 60
# Chances are those of agreement LOWEST + k / STEPS.
LOWEST, STEPS = -16.0, 128.0

_ALL = 2**64 - 1


def choose(
    start: NDArray[np.int64],
    cumulative: NDArray[np.float64],
    chance: Singles,
    user_vectors: Singles,
    item_vectors: Singles,
    place: NDArray[np.int32],
    taste: Singles,
    seed: int,
    threads: int,
) -> None:
    """Fill in the item of every row, and how well its vector agrees with the user's, [rows] each.

    Users draw by popularity, and take what they draw with a chance that follows from agreement. After so many
    draws an item, a user goes on with the most popular items left.
    """
    del threads
    items = len(item_vectors)
    guide = np.searchsorted(cumulative, np.arange(items) / items).clip(0, items - 1).tolist()
    ends: list[float] = cumulative.tolist()
    for user in range(len(user_vectors)):
        random = _Uniform((seed + user * 0xD1342543DE82EF95) & _ALL)
        row, end = int(start[user]), int(start[user + 1])
        draws, following = PATIENCE * (end - row), 0
        had: set[int] = set()
        while row < end:
            if draws > 0:
                draws -= 1
                point = random.next()
                item = guide[int(point * items)]
                while item < items - 1 and ends[item] < point:
                    item += 1
            else:
                item, following = following, following + 1
            if item in had:
                continue
            agreement: Any = np.float32(0)
            for one, other in zip(user_vectors[user], item_vectors[item], strict=True):
                agreement += one * other
            step = (agreement - np.float32(LOWEST)) * np.float32(STEPS)
            at = int(min(max(step, np.float32(0)), np.float32(len(chance) - 1)))
            if draws > 0 and random.next() >= float(chance[at]):
                continue
            had.add(item)
            place[row], taste[row] = item, agreement
            row += 1


class _Uniform:
    """SplitMix64, as numbers from 0 to 1."""

    def __init__(self, state: int) -> None:
        self._state = state

    def next(self) -> float:
        self._state = x = (self._state + 0x9E3779B97F4A7C15) & _ALL
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _ALL
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _ALL
        return float((x ^ (x >> 31)) >> 11) * 2.0**-53
