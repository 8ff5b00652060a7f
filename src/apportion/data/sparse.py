"""Users x items in both orientations, by counting sort: time linear in rows, no comparison."""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Integers = NDArray[np.integer[Any]]


def counting_sort(key: Integers, keys: int) -> tuple[Integers, Integers]:
    """Where each key's rows begin [keys + 1], and the rows in the order of their keys [rows].

    Rows of one key keep their order.
    """
    start = np.zeros(keys + 1, dtype=np.int64)
    np.cumsum(np.bincount(key, minlength=keys), out=start[1:])
    order: Integers = np.empty(len(key), dtype=np.int32 if len(key) < 2**31 else np.int64)
    _place(np.ascontiguousarray(key), start[:-1].copy(), order)
    return start, order


@njit(cache=True)  # type: ignore[untyped-decorator]
def _place(key: Integers, following: Integers, order: Integers) -> None:
    for row in range(len(key)):
        order[following[key[row]]] = row
        following[key[row]] += 1
