"""Counting sorts agree with NumPy's stable ones, whatever the number of threads."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from apportion.data.sorting import (
    Integers,
    ascends,
    counting_sort,
    group,
    group_twice,
    number_rows,
    starts,
    turn,
)
from apportion.threads import extremes, row_blocks, side_by_side
from tests.threads import this_many_threads


@pytest.fixture(params=[1, 2, 3])
def blocks(request: pytest.FixtureRequest) -> Iterator[int]:
    """So many blocks of rows, however few the rows and the threads are."""
    with this_many_threads(request.param):
        yield request.param


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
@pytest.mark.parametrize("keys", [1, 3, 100])
def test_rows_are_sorted_and_those_of_one_key_keep_their_order(
    blocks: int, keys: int, dtype: Any
) -> None:
    key: Integers = np.random.default_rng(0).integers(keys, size=500).astype(dtype)
    start, order = counting_sort(key, keys)
    np.testing.assert_array_equal(order, np.argsort(key, kind="stable"))
    np.testing.assert_array_equal(start, np.searchsorted(key[order], np.arange(keys + 1)))
    np.testing.assert_array_equal(starts(key[order], keys), start)
    assert order.dtype == np.int32


def test_columns_go_with_their_keys(blocks: int) -> None:
    rng = np.random.default_rng(1)
    key, other = rng.integers(7, size=200), rng.permutation(200).astype(np.int32)
    value = rng.random(200).astype(np.float32)
    order = np.argsort(key, kind="stable")
    _, others, values = group(key, 7, other, value)
    np.testing.assert_array_equal(others, other[order])
    np.testing.assert_array_equal(values, value[order])
    _, others, nothing = group(key, 7, other, None)
    np.testing.assert_array_equal(others, other[order])
    assert nothing is None
    _, others, values = group(key, 7, other.astype(np.int64), value)
    np.testing.assert_array_equal(others, other[order])
    np.testing.assert_array_equal(values, value[order])


@pytest.mark.parametrize("rated", [False, True])
def test_two_keys(blocks: int, rated: bool) -> None:
    rng = np.random.default_rng(3)
    first, second = rng.integers(7, size=300), rng.integers(11, size=300).astype(np.int32)
    value = rng.random(300).astype(np.float32)
    order = np.lexsort((first, second))
    start, other, values = group_twice(first, 7, second, 12, value if rated else None)
    np.testing.assert_array_equal(start, np.searchsorted(second[order], np.arange(13)))
    np.testing.assert_array_equal(other, first[order])
    assert other.dtype == np.int32
    if rated:
        np.testing.assert_array_equal(values, value[order])
    else:
        assert values is None


@pytest.mark.parametrize("rated", [False, True])
def test_groups_are_turned(blocks: int, rated: bool) -> None:
    rng = np.random.default_rng(2)
    start = np.concatenate([[0, 0], np.cumsum(rng.integers(4, size=90)), [200, 200]])
    key, value = rng.integers(7, size=200), rng.random(200).astype(np.float32) if rated else None
    expected = group(key, 7, number_rows(start), value)
    found = turn(start, key, 7, value)
    for column, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(column, other)
        assert (column is None) == (other is None)
        if column is not None and other is not None:
            assert column.dtype == other.dtype


def test_what_ascends(blocks: int) -> None:
    assert ascends(np.array([], dtype=int))
    assert ascends(np.array([3, 3, 5]))
    assert not ascends(np.array([3, 5, 4]))
    for falls in (1, 2, 4095, 4096, 4097, 8192, 9998, 9999):
        long = np.arange(10_000)
        assert ascends(long)
        long[falls] = falls - 2
        assert not ascends(long)
    start = np.array([0, 0, 2, 2, 4])
    assert ascends(np.array([3, 4, 0, 1]), start)
    assert not ascends(np.array([3, 3, 0, 1]), start)
    assert not ascends(np.array([3, 4, 1, 0]), start)


def test_rows_are_numbered_by_their_groups(blocks: int) -> None:
    start = np.array([0, 0, 3, 3, 4, 9, 9])
    assert number_rows(start).tolist() == [1, 1, 1, 3, 4, 4, 4, 4, 4]
    assert number_rows(np.zeros(1, dtype=int)).tolist() == []


@pytest.mark.parametrize("values", [[3, -7, 2**62, 5], [0.5, -0.25, 3.0, 0.0]])
def test_extremes(blocks: int, values: list[float]) -> None:
    pieces = [np.array(some) for some in (values[:1], [], values[1:])]
    assert extremes(pieces) == (min(values), max(values))
    assert all(np.isnan(extremes([*pieces, np.array([np.nan])])))


def test_no_rows_and_every_second_row() -> None:
    start, order = counting_sort(np.zeros(0, dtype=int), 2)
    assert (start.tolist(), order.tolist()) == ([0, 0, 0], [])
    assert counting_sort(np.array([1, 9, 0, 9, 1])[::2], 2)[1].tolist() == [1, 0, 2]


@pytest.mark.parametrize("rows", [0, 1, 2, 7])
def test_blocks_cover_every_row_once(blocks: int, rows: int) -> None:
    found = np.concatenate([np.arange(rows)[block] for block in row_blocks(rows)])
    np.testing.assert_array_equal(found, np.arange(rows))
    assert len(row_blocks(rows)) == max(1, min(blocks, rows))


def test_few_rows_are_one_block() -> None:
    assert row_blocks(1000) == [slice(0, 1000)]


def test_results_come_in_the_order_of_the_arguments() -> None:
    assert side_by_side(lambda x, y: x - y, [3, 5, 7], [1, 1, 2]) == [2, 4, 5]
    with pytest.raises(ZeroDivisionError):
        side_by_side(lambda x: 1 // x, [1, 0])
