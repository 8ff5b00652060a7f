"""Exact sums, against their twins, to the bit."""

import itertools
from typing import Any

import numpy as np
import pytest

from apportion.native import kernels
from apportion.privacy import UserBound
from apportion.privacy.rounding import LONGEST
from apportion.twins import sums as twins
from apportion.twins.users import short_rows

pytestmark = pytest.mark.skipif(kernels is None, reason="no compiled kernels")
USERS = 500
SIZES = [0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 700, 0]
DIMENSIONS = [*range(1, 71), 127, 128, 129]


def rows_of(d: int, seed: int = 0, bound: float = 2.0, sizes: Any = SIZES) -> Any:
    """Features, d, user, label, share, weight, start, unit, and grids."""
    rng = np.random.default_rng(seed)
    start = np.concatenate([[0], np.cumsum(sizes)])
    features = short_rows(rng.normal(size=(USERS, d)), bound, stretch=True)
    user = rng.integers(0, USERS, start[-1]).astype(np.int32)
    label = rng.normal(size=len(user))
    weight = rng.uniform(0, 1, len(user)) ** 2
    weight[::7], weight[::11] = 1.0, 0.0
    share = rng.uniform(0, 1, USERS)
    unit = bound / LONGEST
    grids = UserBound(bound**2, "").grid(1.0), UserBound(3 * bound, "").grid(1.0)
    return features, d, user, label, share, weight, start, unit, *grids


def assert_equal(found: Any, expected: Any) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_gram_sums(d: int, isa: str) -> None:
    rows = rows_of(d)
    expected = twins.gram_sums(*rows)
    for threads in (1, 3):
        assert_equal(kernels.gram_sums(*rows, threads), expected)
    assert expected[0].any()


@pytest.mark.parametrize("mu", [8.0, 1e-90])
@pytest.mark.parametrize("bound", [1e-100, 1e100])
def test_bounds_as_small_and_as_large_as_they_may_be(bound: float, mu: float, isa: str) -> None:
    rows = rows_of(9, bound=bound)[:-2]
    grid = UserBound(bound**2, "").grid(mu)
    rows[3][:] *= bound  # labels
    found = kernels.gram_sums(*rows, grid, grid, 2)
    assert_equal(found, twins.gram_sums(*(*rows, grid, grid)))
    assert all(each.any() == (mu > 1) for each in found)
    found = kernels.label_sums(*rows, grid, 2)
    assert_equal([found], [twins.label_sums(*(*rows, grid))])
    values = rows[3] * bound
    found = kernels.number_sums(rows[2], values, USERS, grid, 2)
    assert_equal([found], [twins.number_sums(rows[2], values, USERS, grid)])


@pytest.mark.parametrize("d", [256, 512])
def test_gram_sums_of_many_factors(d: int, isa: str) -> None:
    rows = rows_of(d)
    assert_equal(kernels.gram_sums(*rows, 2), twins.gram_sums(*rows))


@pytest.mark.parametrize("d", [*DIMENSIONS, 256, 512])
def test_label_sums(d: int, isa: str) -> None:
    rows: Any
    *rows, _, grid = rows_of(d)
    expected = twins.label_sums(*(*rows, grid))
    for threads in (1, 3):
        assert_equal([kernels.label_sums(*rows, grid, threads)], [expected])
    assert expected.any()


def test_label_sums_of_more_users_than_a_cache_holds(isa: str) -> None:
    # Tasks are gone through once for every 2048 users of this width: each row must count once.
    rng = np.random.default_rng(4)
    d, users = 1024, 5000
    features = rng.integers(-900, 900, (users, d)).astype(np.int16)
    start = np.array([0, 300, 300, 700])
    user = np.concatenate([np.sort(rng.integers(0, users, size)) for size in (300, 400)])
    label, weight = rng.normal(size=700), rng.uniform(size=700)
    rows: Any = (features, d, user.astype(np.int32), label, None, weight, start, 2.0**-15, 2.0**-20)
    assert_equal([kernels.label_sums(*rows, 2)], [twins.label_sums(*rows)])


def test_large_sums_are_shared_by_threads_in_any_order(isa: str) -> None:
    rows: Any
    *rows, grid, grid_of_b = rows_of(64, sizes=[5, 70_000, 2**15, 0, 40_000])
    expected = twins.gram_sums(*(*rows, grid, grid_of_b))
    label_sums = twins.label_sums(*(*rows, grid_of_b))
    rng = np.random.default_rng(1)
    features, d, user, label, share, weight, start, unit = rows
    for threads in (1, 2, 5):
        assert_equal(kernels.gram_sums(*rows, grid, grid_of_b, threads), expected)
        assert_equal([kernels.label_sums(*rows, grid_of_b, threads)], [label_sums])
        order = np.concatenate(
            [first + rng.permutation(stop - first) for first, stop in itertools.pairwise(start)]
        )
        user, label, weight = user[order], label[order], weight[order]
        rows = [features, d, user, label, share, weight, start, unit]


@pytest.mark.parametrize("sizes", [[70_000, 3], [3, 70_000], [70_000]])
def test_a_task_that_threads_share_may_be_the_first_or_the_last(sizes: list[int]) -> None:
    rows: Any
    *rows, _, grid = rows_of(64, sizes=sizes)
    expected = twins.label_sums(*(*rows, grid))
    for threads in (2, 5):
        assert_equal([kernels.label_sums(*rows, grid, threads)], [expected])


def test_no_sum_overflows_at_the_limit(isa: str) -> None:
    # Every number is as large as it may be, and has the same sign: 32 bits would be passed at once.
    d, rows = 16, 40_000
    for value in (32767, -32767, -32768):  # the norm of these is beyond what was promised
        features = np.full((1, d), value, dtype=np.int16)
        user, ones = np.zeros(rows, np.int32), np.ones(rows)
        start = np.array([0, rows])
        unit = 1.0
        for grid in (2.0**4, 2.0**3.001, 2.0**30):
            args = (features, d, user, ones, None, ones, start, unit, grid)
            for grid_of_b in (1.0, 2.0**-16, 2.0**-17, 2.0**-40, 2.0**40):
                assert_equal(
                    kernels.gram_sums(*args, grid_of_b, 2), twins.gram_sums(*(*args, grid_of_b))
                )
                one = (*args[:-1], grid_of_b)
                assert_equal([kernels.label_sums(*one, 2)], [twins.label_sums(*one)])
    with pytest.raises(ValueError, match="grid must not be below"):
        kernels.gram_sums(features, d, user, ones, None, ones, start, unit, 2.0**2, 1.0, 2)


@pytest.mark.parametrize("label", [np.inf, -np.inf, np.nan, 1e308, 1e-308, 2.0**60])
def test_labels_without_bound_give_nothing(label: float, isa: str) -> None:
    rows: Any
    *rows, grid, grid_of_b = rows_of(17)
    rows[3][10:20] = label
    features = rows[0]
    features[3] = 0
    expected = twins.gram_sums(*(*rows, grid, grid_of_b))
    assert_equal(kernels.gram_sums(*rows, grid, grid_of_b, 2), expected)
    assert_equal([kernels.label_sums(*rows, grid_of_b, 2)], [twins.label_sums(*(*rows, grid_of_b))])
    assert np.abs(expected[1]).max() < 2.0**33


@pytest.mark.parametrize("d", [1, 2, 16, 17, 40, 100])
@pytest.mark.parametrize("weight", [1.0, 0.3, 1e-3, 1e-7])
def test_a_part_stays_within_its_bound(d: int, weight: float) -> None:
    bound, label_bound = 2.0, 3.0
    features, _, user, _, _, _, _, unit, grid, grid_of_b = rows_of(d, bound=bound, sizes=[USERS])
    user = np.arange(USERS, dtype=np.int32)
    ones = np.ones(USERS)
    args = (features, d, user, label_bound * ones, None, weight * ones, np.arange(USERS + 1), unit)
    second, moments = kernels.gram_sums(*args, grid, grid_of_b, 2)
    sizes = np.ones(second.shape[1]) + 1
    sizes[np.concatenate([[0], np.cumsum(np.arange(d, 1, -1))])] = 1  # the diagonal counts once
    most = 1 + 2.0**-20
    assert (np.sqrt(second.astype(float) ** 2 @ sizes) * grid <= weight * bound**2 * most).all()
    for found in (moments, kernels.label_sums(*args, grid_of_b, 2)):
        norms = np.linalg.norm(found.astype(float), axis=1) * grid_of_b
        assert (norms <= weight * bound * label_bound * most).all()


@pytest.mark.parametrize("d", DIMENSIONS)
def test_float_sums(d: int) -> None:
    _, _, user, label, share, weight, start, *_ = rows_of(d)
    features = np.random.default_rng(0).normal(size=(USERS, d))
    rows = (features, user, label, share, weight, start)
    found, expected = kernels.float_sums(*rows, 2), twins.float_sums(*rows)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("d", [1, 9, 64])
def test_float_sums_have_the_same_bits_for_all(d: int) -> None:
    _, _, user, label, _, weight, start, *_ = rows_of(d, sizes=[100, 2**17 + 5, 0, 3])
    features = np.random.default_rng(0).normal(size=(USERS, d))
    found = set()
    before = kernels.isa()
    for isa in kernels.isas():
        kernels.use_isa(isa)
        for threads in (1, 3):
            sums = kernels.float_sums(features, user, label, None, weight, start, threads)
            found.add(b"".join(each.tobytes() for each in sums))
    kernels.use_isa(before)
    assert len(found) == 1
    # The second task is summed in pieces, all of which arrive.
    for one, other in zip(
        sums, twins.float_sums(features, user, label, None, weight, start), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-8)


def test_number_sums() -> None:
    rng = np.random.default_rng(0)
    task = rng.integers(0, 40, 600_000).astype(np.int32)
    value = rng.normal(size=len(task)) * 10.0 ** rng.integers(-3, 9, size=len(task))
    value[:7] = np.nan, np.inf, -np.inf, 2.0**28, 2.0**26, -(2.0**26), 2.0**26 - 0.25
    for threads in (1, 3):
        found = kernels.number_sums(task, value, 41, 0.25, threads)
        assert np.array_equal(found, twins.number_sums(task, value, 41, 0.25))
        counts = kernels.number_sums(task, None, 41, 1.0, threads)
        assert np.array_equal(counts, np.bincount(task, minlength=41))


def test_threads_that_end_at_once_lose_nothing() -> None:
    # Each adds its own sums of a million tasks to those of all: two that do so at once would lose some.
    task = np.random.default_rng(0).integers(0, 2**20, 2**20).astype(np.int32)
    expected = np.bincount(task, minlength=2**20)
    for _ in range(5):
        assert np.array_equal(kernels.number_sums(task, None, 2**20, 1.0, 4), expected)


def test_wrong_arrays_are_refused() -> None:
    good = [*rows_of(5), 1]
    kernels.gram_sums(*good)

    def refused(place: int, value: Any, error: type[Exception], name: str) -> None:
        with pytest.raises(error, match=name):
            kernels.gram_sums(*good[:place], value, *good[place + 1 :])

    features, _, user, label, _, weight, start, *_ = good
    refused(0, features[:, :5].copy(), ValueError, "features must come in whole vectors")
    refused(0, features.astype(np.float64), TypeError, "features must be of dtype int16")
    refused(1, 17, ValueError, "d must be")
    refused(1, 0, ValueError, "d must be")
    refused(2, np.full_like(user, USERS), ValueError, "user holds numbers")
    refused(3, label[1:], ValueError, "label must have length")
    refused(4, np.ones(3), ValueError, "share must have length")
    refused(5, weight + 1.0, ValueError, "weight must be from 0 to 1")
    refused(5, weight * np.nan, ValueError, "weight must be from 0 to 1")
    refused(6, start[:-2], ValueError, "start must begin")
    refused(6, start - 1, ValueError, "start must begin")
    refused(7, np.inf, ValueError, "unit must be")
    refused(8, 0.0, ValueError, "grid must be")
    refused(9, np.nan, ValueError, "grid_of_b must be")
    with pytest.raises(ValueError, match="task holds numbers"):
        kernels.number_sums(user, label, 3, 1.0, 1)
