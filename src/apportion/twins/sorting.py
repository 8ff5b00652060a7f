"""Counting sorts: the twin of native/bind_sorting.cpp. ``threads`` is for the compiled ones."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.integer[Any]]
Values = NDArray[np.float32]


def index_type(size: int) -> Any:
    """The smaller type that holds positions below this size."""
    return np.int32 if size < 2**31 else np.int64


def starts(key: Integers, keys: int, threads: int) -> Integers:
    """Where each key's rows begin once they are in the order of their keys, [keys + 1]."""
    if len(key) and not 0 <= int(key.min()) <= int(key.max()) < keys:
        raise ValueError("key holds numbers that are not in 0 to keys - 1")
    return np.concatenate([[0], np.cumsum(np.bincount(key, minlength=keys))])


def group(
    key: Integers, keys: int, other: Integers | None, value: Values | None, threads: int
) -> tuple[Integers, Integers, Values | None]:
    """Where each key's rows begin, and two columns in the order of their keys.

    Rows of one key keep their order. ``other`` may be None: the numbers of the rows.
    """
    start, order = starts(key, keys, threads), np.argsort(key, kind="stable")
    placed = order.astype(index_type(len(key))) if other is None else other[order]
    return start, placed, None if value is None else value[order]


def turn(
    start: Integers, key: Integers, keys: int, value: Values | None, threads: int
) -> tuple[Integers, Integers, Values | None]:
    """Group by key what is grouped already, group i having the rows start[i] : start[i + 1]."""
    return group(key, keys, number_rows(start, threads), value, threads)


def group_twice(
    first: Integers, firsts: int, second: Integers, seconds: int, value: Values | None, threads: int
) -> tuple[Integers, Integers, Values | None]:
    """By the second key, and where that is the same, by the first, which goes with it."""
    start, other, value = group(first, firsts, second, value, threads)
    return turn(start, other, seconds, value, threads)


def number_rows(start: Integers, threads: int) -> Integers:
    """The group of each row, [rows]."""
    return np.repeat(np.arange(len(start) - 1, dtype=index_type(len(start))), np.diff(start))


def never_falls(values: Integers, threads: int) -> bool:
    """Whether no number is below the one before it."""
    return bool((values[1:] >= values[:-1]).all())


def rises_in_groups(values: Integers, start: Integers, threads: int) -> bool:
    """Whether in each group all numbers are above the one before."""
    first = np.zeros(len(values) + 1, dtype=np.bool_)
    first[start] = True
    return bool(((values[1:] > values[:-1]) | first[1:-1]).all())
