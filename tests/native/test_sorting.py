"""Compiled sorts and numbering of ids give what their twins give, to the bit, in any number of threads."""

from typing import Any

import numpy as np
import pytest

from apportion.native import kernels
from apportion.twins import ids as ids_twin
from apportion.twins import sorting as twin

pytestmark = pytest.mark.skipif(kernels is None, reason="no compiled kernels")
# One more or less than the rows between two looks for Ctrl-C, and than the pieces that threads take.
ROWS = [0, 1, 2, 7, 8, 9, 100, 2**15 - 1, 2**15, 2**15 + 1, 2**16 - 1, 2**16, 2**16 + 1, 200_001]
THREADS = [1, 2, 3, 7]


def equal(found: Any, expected: Any) -> None:
    """The same arrays, of the same types."""
    if not isinstance(expected, tuple):
        found, expected = (found,), (expected,)
    for mine, reference in zip(found, expected, strict=True):
        assert (mine is None) == (reference is None)
        if reference is not None:
            np.testing.assert_array_equal(mine, reference)
            assert mine.dtype == reference.dtype


def columns(rows: int, keys: int = 50) -> tuple[Any, ...]:
    rng = np.random.default_rng(rows)
    key = rng.integers(keys, size=rows).astype(np.int32)
    other = rng.integers(-(2**31), 2**31, rows).astype(np.int32)
    value = rng.normal(size=rows).astype(np.float32)
    value[::7] = np.nan
    return key, other, value


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("threads", THREADS)
def test_sorts(rows: int, threads: int) -> None:
    key, other, value = columns(rows)
    second = other % 30
    equal(kernels.starts(key, 50, threads), twin.starts(key, 50, threads))
    given: list[tuple[Any, Any]] = [(None, None), (other, None), (None, value), (other, value)]
    for some in given:
        equal(kernels.group(key, 50, *some, threads), twin.group(key, 50, *some, threads))
    start, other, value = twin.group(key, 50, second, value, 1)
    for each in (None, value):
        equal(kernels.turn(start, other, 30, each, threads), twin.turn(start, other, 30, each, 1))
    twice = key, 50, second, 30, value, threads
    equal(kernels.group_twice(*twice), twin.group_twice(*twice))
    equal(kernels.number_rows(start, threads), twin.number_rows(start, threads))


@pytest.mark.parametrize("keys", [1, 2, 1000])
def test_keys_that_nobody_has(keys: int) -> None:
    for key in (np.zeros(5, np.int32), np.full(5, keys - 1, np.int32), np.zeros(0, np.int32)):
        equal(kernels.group(key, keys, None, None, 2), twin.group(key, keys, None, None, 2))
    start = np.array([0, 0, 0, 3, 3, 5, 5])
    equal(kernels.number_rows(start, 2), twin.number_rows(start, 2))


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_order_is_noticed(rows: int, dtype: Any) -> None:
    start = np.array([0, rows // 3, rows // 3, rows])
    for values in (np.arange(rows), np.zeros(rows), np.arange(rows) % max(1, rows // 3)):
        values = values.astype(dtype)
        for place in (None, 1, rows // 2, rows - 1):
            if place is not None and 0 <= place < rows:
                values = values.copy()
                values[place] -= 1
            for threads in (1, 3):
                falls = twin.never_falls(values, 1)
                assert kernels.never_falls(values, threads) == falls
                rises = twin.rises_in_groups(values, start, 1)
                assert kernels.rises_in_groups(values, start, threads) == rises


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize(
    ("low", "kind"), [(-5, np.int32), (2**63 - 9, np.uint64), (-(2**63), np.int64)]
)
def test_ids_of_a_span(rows: int, threads: int, low: int, kind: Any) -> None:
    place = np.random.default_rng(rows).integers(1000, size=rows).astype(np.uint64)
    ids = place + np.uint64(low % 2**64)
    ids = ids.view(np.int64).astype(np.int32) if kind == np.int32 else ids
    call = [ids[: rows // 3], ids[rows // 3 :]], low % 2**64, 1000, threads
    equal(kernels.number_span(*call), ids_twin.number_span(*call))


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("names", [1, 2, 3, 4, 5, 1000])
def test_ids_by_hashes(rows: int, names: int) -> None:
    rng = np.random.default_rng(rows)
    distinct = rng.integers(0, 2**64, names, dtype=np.uint64)
    distinct[names // 2] = 0
    # Beginning at the same slot: multiples of 2^32 that the hash maps there.
    distinct[: names // 4] = np.arange(1, names // 4 + 1, dtype=np.uint64) << np.uint64(63 - 16)
    ids = distinct[rng.integers(names, size=rows)]
    for threads in THREADS:
        equal(
            kernels.find_hashed(ids, distinct, threads),
            ids_twin.find_hashed(ids, distinct, threads),
        )


def test_wrong_calls_are_refused() -> None:
    key, other, value = columns(100)
    start = np.array([0, 40, 100])
    unknown = np.array([1, 2], np.uint64)
    for call in (
        lambda: kernels.starts(key, 49, 1), lambda: kernels.starts(-key, 50, 1),
        lambda: kernels.starts(key, -1, 1), lambda: kernels.starts(key, 2**31, 1),
        lambda: kernels.starts(key, 50, 0), lambda: kernels.starts(key, 50, 10_000),
        lambda: kernels.group(key, 50, other[1:], None, 1),
        lambda: kernels.group(key, 50, None, value[1:], 1),
        lambda: kernels.turn(start[:2], key, 50, None, 1),
        lambda: kernels.turn(start[1:], key, 50, None, 1),
        lambda: kernels.turn(np.array([0, 60, 40, 100]), key, 50, None, 1),
        lambda: kernels.group_twice(key, 50, other, 30, value, 1),
        lambda: kernels.group_twice(key, 50, key[1:], 50, value, 1),
        lambda: kernels.number_rows(start[:0], 1),
        lambda: kernels.number_rows(np.array([0, -1]), 1),
        lambda: kernels.rises_in_groups(key, start[:2], 1),
        lambda: kernels.never_falls(key[::2], 1),
        lambda: kernels.number_span([key], 1, 50, 1), lambda: kernels.number_span([key], 0, 49, 1),
        lambda: kernels.number_span([key], 0, -1, 1),
        lambda: kernels.number_span([key], 0, 2**40, 1),
        lambda: kernels.find_hashed(unknown, unknown[:1], 1),
        lambda: kernels.find_hashed(unknown, unknown[:0], 1),
    ):  # fmt: skip
        with pytest.raises((ValueError, MemoryError)):
            call()
    for call in (
        lambda: kernels.starts(key.astype(np.int64), 50, 1), lambda: kernels.starts([1, 2], 50, 1),
        lambda: kernels.group(key, 50, None, value.astype(np.float64), 1),
        lambda: kernels.group_twice(key, 50, key, 50, None, 1),
        lambda: kernels.number_span([key, value.astype(np.float64)], 0, 50, 1),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError)):
            call()
