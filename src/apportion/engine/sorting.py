"""Sorting by whole numbers in counting passes: time linear in rows, no comparison of two rows."""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from apportion.engine.threads import row_blocks, side_by_side

Integers = NDArray[np.integer[Any]]

_NOTHING = np.zeros(0, dtype=np.float32)


def counting_sort(key: Integers, keys: int) -> tuple[Integers, Integers]:
    """Where each key's rows begin [keys + 1], and the rows in the order of their keys [rows].

    Rows of one key keep their order.
    """
    row = np.arange(len(key), dtype=index_type(len(key)))
    start, order, _ = group(key, keys, row, None)
    return start, order


def group(
    key: Integers, keys: int, other: Integers, value: NDArray[np.float32] | None
) -> tuple[Integers, Integers, NDArray[np.float32] | None]:
    """Bring two columns into the order of their keys; also where each key's rows begin.

    Args:
        key: numbers from 0 to keys - 1, [rows].
        keys: how many keys there are.
        other, value: the columns, [rows]; ``value`` may be None, and stays so.

    Rows of one key keep their order. Shapes [keys + 1], [rows], [rows].
    """
    key = np.ascontiguousarray(key, dtype=index_type(keys))
    column = _NOTHING if value is None else value
    blocks = list(row_blocks(len(key)))
    counts = np.stack(side_by_side(lambda rows: _count(key[rows], keys), blocks))
    start = np.zeros(keys + 1, dtype=np.int64)
    np.cumsum(counts.sum(axis=0), out=start[1:])
    # Where the rows of each block go: after those of the same key in the blocks before it.
    following = start[:-1] + np.cumsum(counts, axis=0) - counts
    others, values = np.empty_like(other), np.empty_like(column)
    side_by_side(
        lambda rows, following: _place(
            key[rows], other[rows], column[rows], following, others, values
        ),
        blocks,
        following,
    )
    return start, others, None if value is None else values


def index_type(size: int) -> Any:
    """The smaller type that holds positions below this size."""
    return np.int32 if size < 2**31 else np.int64


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _count(key: Integers, keys: int) -> Integers:
    counts = np.zeros(keys, dtype=np.int64)
    for row in range(len(key)):
        counts[key[row]] += 1
    return counts


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _place(
    key: Integers,
    other: Integers,
    value: NDArray[np.float32],
    following: Integers,
    others: Integers,
    values: NDArray[np.float32],
) -> None:
    has_values = len(value) > 0
    for row in range(len(key)):
        place = following[key[row]]
        following[key[row]] = place + 1
        others[place] = other[row]
        if has_values:
            values[place] = value[row]
