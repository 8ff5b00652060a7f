"""Sorting by whole numbers in counting passes: time linear in rows, no comparison of two rows.

The work is done by native/bind_sorting.cpp, or by its twin where there is none, or 2^31 rows.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.native import kernels
from apportion.threads import row_blocks
from apportion.twins import sorting as twin
from apportion.twins.sorting import index_type

Integers = NDArray[np.integer[Any]]
Values = NDArray[np.float32]

__all__ = [
    "ascends",
    "counting_sort",
    "group",
    "group_twice",
    "index_type",
    "number_rows",
    "starts",
    "turn",
]


def counting_sort(key: Integers, keys: int) -> tuple[Integers, Integers]:
    """Where each key's rows begin [keys + 1], and the rows in the order of their keys [rows].

    Rows of one key keep their order.
    """
    key, sort, threads = _ready(key, keys)
    start, order, _ = sort.group(key, keys, None, None, threads)
    return start, order


def group(
    key: Integers, keys: int, other: Integers, value: Values | None
) -> tuple[Integers, Integers, Values | None]:
    """Bring two columns into the order of their keys; also where each key's rows begin.

    Args:
        key: numbers from 0 to keys - 1, [rows].
        keys: how many keys there are.
        other, value: the columns, [rows]; ``value`` may be None, and stays so.

    Rows of one key keep their order. Shapes [keys + 1], [rows], [rows].
    """
    if other.dtype != np.int32:
        start, order = counting_sort(key, keys)
        return start, other[order], None if value is None else value[order]
    key, sort, threads = _ready(key, keys)
    grouped: tuple[Integers, Integers, Values | None] = sort.group(
        key, keys, np.ascontiguousarray(other), _values(value), threads
    )
    return grouped


def group_twice(
    first: Integers,
    firsts: int,
    second: Integers,
    seconds: int,
    value: Values | None,
) -> tuple[Integers, Integers, Values | None]:
    """By the second key, and where that is the same, by the first, which goes with it.

    The same as to ``turn`` the ``group`` of (first, firsts, second, value).
    """
    if value is None or second.dtype != np.int32:
        start, other, value = group(first, firsts, second, value)
        return turn(start, other, seconds, value)
    first, sort, threads = _ready(first, firsts, seconds)
    grouped: tuple[Integers, Integers, Values | None] = sort.group_twice(
        first, firsts, np.ascontiguousarray(second), seconds, _values(value), threads
    )
    return grouped


def turn(
    start: Integers, key: Integers, keys: int, value: Values | None
) -> tuple[Integers, Integers, Values | None]:
    """Group by key what is grouped already: the same as ``group(key, keys, number_rows(start), value)``.

    Rows of one key are then in the order of the groups that they were in.
    """
    key, sort, threads = _ready(key, keys, len(start))
    turned: tuple[Integers, Integers, Values | None] = sort.turn(
        np.ascontiguousarray(start, dtype=np.int64), key, keys, _values(value), threads
    )
    return turned


def number_rows(start: Integers) -> Integers:
    """The group of each row, group i having the rows start[i] : start[i + 1], [rows]."""
    start = np.ascontiguousarray(start, dtype=np.int64)
    rows = int(start[-1])
    groups: Integers = _sort(rows, len(start)).number_rows(start, len(row_blocks(rows)))
    return groups


def starts(key: Integers, keys: int) -> Integers:
    """Where each key's rows begin, if they are in the order of their keys, [keys + 1]."""
    key, sort, threads = _ready(key, keys)
    begins: Integers = sort.starts(key, keys, threads)
    return begins


def ascends(values: Integers, start: Integers | None = None) -> bool:
    """Whether no number is below the one before it; or, in each group, all are above it."""
    values = np.ascontiguousarray(values)
    sort = _sort() if values.dtype in (np.int32, np.int64) else twin
    threads = len(row_blocks(len(values)))
    if start is None:
        return bool(sort.never_falls(values, threads))
    start = np.ascontiguousarray(start, dtype=np.int64)
    return bool(sort.rises_in_groups(values, start, threads))


def _ready(key: Integers, keys: int, *sizes: int) -> tuple[Integers, Any, int]:
    """The keys as they are compiled for, what sorts them, and in how many threads."""
    key = np.ascontiguousarray(key, dtype=index_type(keys))
    return key, _sort(len(key), keys, *sizes), len(row_blocks(len(key)))


def _sort(*sizes: int) -> Any:
    """What is compiled, if there is something and 32 bits hold these sizes; else the twin."""
    return twin if kernels is None or max(sizes, default=0) >= 2**31 else kernels


def _values(value: Values | None) -> Values | None:
    return None if value is None else np.ascontiguousarray(value, dtype=np.float32)
