"""Sorting by whole numbers in counting passes: time linear in rows, no comparison of two rows."""

import sys
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from apportion.threads import row_blocks, side_by_side

Integers = NDArray[np.integer[Any]]

# Rows that are compared before it is looked whether any was out of order.
_AT_ONCE = 2**12


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
    key, blocks, start, following = _places(key, keys)

    def placed(column: NDArray[Any]) -> NDArray[Any]:
        out = np.empty_like(column)
        side_by_side(
            lambda rows, next_place: _place(key[rows], column[rows], next_place, out),
            blocks,
            following.copy(),
        )
        return out

    if value is None or other.dtype != np.int32:
        return start, placed(other), None if value is None else placed(value)
    # Both in one number: what takes long is to reach a place far away, and not to write there.
    return start, *_split(_placed_pairs(key, other, value, blocks, following), blocks)


def group_twice(
    first: Integers,
    firsts: int,
    second: Integers,
    seconds: int,
    value: NDArray[np.float32] | None,
) -> tuple[Integers, Integers, NDArray[np.float32] | None]:
    """By the second key, and where that is the same, by the first, which goes with it.

    The same as to ``turn`` the ``group`` of (first, firsts, second, value).
    """
    if value is None or index_type(max(firsts, seconds)) != np.int32:
        start, other, value = group(first, firsts, second, value)
        return turn(start, other, seconds, value)
    first, blocks, start, following = _places(first, firsts)
    # As they lie in the pairs: columns of their own would be two more copies.
    second, value = _halves(_placed_pairs(first, second, value, blocks, following))
    return turn(start, second, seconds, value)


def turn(
    start: Integers, key: Integers, keys: int, value: NDArray[np.float32] | None
) -> tuple[Integers, Integers, NDArray[np.float32] | None]:
    """Group by key what is grouped already: the same as ``group(key, keys, number_rows(start), value)``.

    Rows of one key are then in the order of the groups that they were in.
    """
    if value is not None and index_type(len(start)) != np.int32:
        return group(key, keys, number_rows(start), value)
    key, blocks, new_start, following = _places(key, keys)
    turned = np.empty(len(key), dtype=index_type(len(start)) if value is None else np.uint64)
    side_by_side(
        lambda rows, next_place: _turn(
            start,
            rows.start,
            key[rows],
            None if value is None else value[rows].view(np.uint32),
            next_place,
            turned,
        ),
        blocks,
        following,
    )
    return (new_start, turned, None) if value is None else (new_start, *_split(turned, blocks))


def number_rows(start: Integers) -> Integers:
    """The group of each row, group i having the rows start[i] : start[i + 1], [rows]."""
    groups = np.empty(int(start[-1]), dtype=index_type(len(start)))
    side_by_side(lambda rows: _number(start, rows.start, groups[rows]), row_blocks(len(groups)))
    return groups


def starts(key: Integers, keys: int) -> Integers:
    """Where each key's rows begin, if they are in the order of their keys, [keys + 1]."""
    return _places(key, keys)[2]


def ascends(values: Integers, start: Integers | None = None) -> bool:
    """Whether no number is below the one before it; or, in each group, all are above it."""
    if start is not None:
        return bool(_ascends_in_groups(values, start))
    blocks = row_blocks(len(values))
    return all(
        side_by_side(lambda rows: _ascends(values[max(0, rows.start - 1) : rows.stop]), blocks)
    )


def _places(key: Integers, keys: int) -> tuple[Integers, list[slice], Integers, Integers]:
    """The keys, blocks of rows, where each key begins, and where it goes on with each block's rows."""
    key = np.asarray(key, dtype=index_type(keys))
    blocks = row_blocks(len(key))
    return key, blocks, *_starts(side_by_side(lambda rows: _count(key[rows], keys), blocks))


def _starts(counted: list[Integers]) -> tuple[Integers, Integers]:
    """Where each key begins, and where it goes on with each block's rows, of which there are so many."""
    counts = np.stack(counted)
    start = np.zeros(counts.shape[1] + 1, dtype=np.int64)
    np.cumsum(counts.sum(axis=0), out=start[1:])
    # After those of the same key in the blocks before.
    return start, start[:-1] + np.cumsum(counts, axis=0) - counts


def _placed_pairs(
    key: Integers,
    low: Integers,
    high: NDArray[np.float32],
    blocks: list[slice],
    following: Integers,
) -> NDArray[np.uint64]:
    """Two columns in the order of their keys, as one number: the second above the first."""
    pairs = np.empty(len(key), dtype=np.uint64)
    side_by_side(
        lambda rows, next_place: _place_pairs(
            key[rows], low[rows], high[rows].view(np.uint32), next_place, pairs
        ),
        blocks,
        following,
    )
    return pairs


def _halves(pairs: NDArray[np.uint64]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The two columns that pairs are made of, where they lie."""
    low, high = pairs.view(np.int32).reshape(-1, 2).T[:: 1 if sys.byteorder == "little" else -1]
    return low, high.view(np.float32)


def _split(
    pairs: NDArray[np.uint64], blocks: list[slice]
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    low, high = np.empty(len(pairs), dtype=np.int32), np.empty(len(pairs), dtype=np.float32)
    side_by_side(
        lambda rows: _split_pairs(pairs[rows], low[rows], high[rows].view(np.uint32)), blocks
    )
    return low, high


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
def _place(key: Integers, column: NDArray[Any], next_place: Integers, out: NDArray[Any]) -> None:
    for row in range(len(key)):
        place = next_place[key[row]]
        next_place[key[row]] = place + 1
        out[place] = column[row]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _place_pairs(
    key: Integers,
    low: Integers,
    high: NDArray[np.uint32],
    next_place: Integers,
    pairs: NDArray[np.uint64],
) -> None:
    for row in range(len(key)):
        place = next_place[key[row]]
        next_place[key[row]] = place + 1
        pairs[place] = np.uint64(np.uint32(low[row])) | np.uint64(high[row]) << np.uint64(32)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _split_pairs(pairs: NDArray[np.uint64], low: Integers, high: NDArray[np.uint32]) -> None:
    for row in range(len(pairs)):
        low[row] = np.int32(pairs[row])
        high[row] = np.uint32(pairs[row] >> np.uint64(32))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _number(start: Integers, first: int, groups: Integers) -> None:
    """Of the rows from the first on."""
    group = np.searchsorted(start, first, side="right") - 1
    for row in range(len(groups)):
        while start[group + 1] <= first + row:
            group += 1
        groups[row] = group


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _turn(
    start: Integers,
    first: int,
    key: Integers,
    value: NDArray[np.uint32] | None,
    next_place: Integers,
    out: NDArray[Any],
) -> None:
    """Of the rows from the first on: their groups, below their values if there are any."""
    group = np.searchsorted(start, first, side="right") - 1
    for row in range(len(key)):
        while start[group + 1] <= first + row:
            group += 1
        place = next_place[key[row]]
        next_place[key[row]] = place + 1
        if value is None:
            out[place] = group
        else:
            out[place] = np.uint64(group) | np.uint64(value[row]) << np.uint64(32)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _ascends(values: Integers) -> bool:
    for first in range(1, len(values), _AT_ONCE):
        falls = False
        for row in range(first, min(first + _AT_ONCE, len(values))):  # several at once
            falls |= values[row] < values[row - 1]
        if falls:
            return False
    return True


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _ascends_in_groups(values: Integers, start: Integers) -> bool:
    for group in range(len(start) - 1):
        for row in range(start[group] + 1, start[group + 1]):
            if values[row] <= values[row - 1]:
                return False
    return True
