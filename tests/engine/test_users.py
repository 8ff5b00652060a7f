"""Users' vectors outside a session, compiled and in NumPy, against LAPACK."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from apportion.engine.users import UserSolver
from apportion.native import kernels
from tests.machines import nothing_compiled
from tests.threads import this_many_threads


def solve_users(
    start: np.ndarray,
    item: np.ndarray,
    label: np.ndarray,
    items: np.ndarray,
    ridge: np.ndarray,
    shared: np.ndarray,
) -> np.ndarray:
    return UserSolver(items, shared).solve(start, item, label, ridge)


SIZES = [1, 3, 16, 17, 32, 64, 100, 128]
ITEMS = 300


@pytest.fixture(params=["compiled", "twin"], autouse=True)
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """With compiled kernels, and as where there are none."""
    if request.param == "compiled" and kernels is None:
        pytest.skip("no compiled kernels")
    with nothing_compiled() if request.param == "twin" else nullcontext():
        yield str(request.param)


@pytest.fixture(autouse=True)
def one_thread_for_lapack() -> Iterator[None]:
    """Systems are small: threads would only wait for one another."""
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    with this_many_threads(request.param):
        yield request.param


def reference(
    start: np.ndarray,
    item: np.ndarray,
    label: np.ndarray,
    items: np.ndarray,
    ridge: np.ndarray,
    shared: np.ndarray,
) -> np.ndarray:
    """Every user's system, solved in float64; the shortest solution if there are many."""
    vectors = np.zeros((len(start) - 1, items.shape[1]))
    for user in range(len(vectors)):
        own = slice(start[user], start[user + 1])
        X = items[item[own]]
        A = X.T @ X + shared + ridge[user] * np.eye(items.shape[1])
        if len(X):
            vectors[user] = np.linalg.lstsq(A, X.T @ label[own], rcond=None)[0]
    return vectors


def histories(d: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Start, item and label of users with 0, 1, d - 1, d, ... rows, and items [300, d]."""
    rng = np.random.default_rng(seed)
    size = np.array([0, 1, d - 1, d, d + 1, 2, 15, 16, 17, 40, 64, 65, 129, 1000, 0, *[7] * 40])
    start = np.concatenate([[0], np.cumsum(size)])
    item = rng.integers(0, ITEMS, start[-1])
    return start, item, rng.normal(size=start[-1]), rng.normal(size=(ITEMS, d)) / np.sqrt(d)


def assert_close(found: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    """Every user's vector, relative to its length."""
    error = np.linalg.norm(found - expected, axis=1)
    assert (error <= tolerance * np.linalg.norm(expected, axis=1)).all()


@pytest.mark.parametrize("d", [1, 3, 17, 32, 100])
@pytest.mark.parametrize("shares", [False, True], ids=["explicit", "implicit"])
@pytest.mark.parametrize("even", [False, True], ids=["ridge n", "ridge 1"])
def test_users(d: int, shares: bool, even: bool, threads: int) -> None:
    start, item, label, items = histories(d)
    ridge = np.ones(len(start) - 1) if even else 0.1 * np.maximum(1.0, np.diff(start))
    shared = 0.1 * items.T @ items if shares else np.zeros((d, d))
    found = solve_users(start, item, label, items, ridge, shared)
    assert_close(found, reference(start, item, label, items, ridge, shared), 3e-5)


@pytest.mark.parametrize("d", SIZES)
def test_users_without_a_ridge(d: int) -> None:
    start, item, label, items = histories(d)
    nothing, zero = np.zeros(len(start) - 1), np.zeros((d, d))
    found = solve_users(start, item, label, items, nothing, zero)
    expected = reference(start, item, label, items, nothing, zero)
    assert np.isfinite(found).all()
    size = np.diff(start)
    assert_close(found[size > 3 * d], expected[size > 3 * d], 1e-4)
    # Some directions are left out of the others: still a solution, so the errors are the least possible.
    for user in np.flatnonzero((size > 0) & (size <= 3 * d)):
        own = slice(start[user], start[user + 1])
        X, y = items[item[own]], label[own]
        least = np.linalg.norm(y - X @ expected[user])
        assert np.linalg.norm(y - X @ found[user]) <= least + 1e-4 * np.linalg.norm(y)


@pytest.mark.parametrize("items_scale", [1e-200, 1e-25, 1e-16, 1e-11, 1e-8, 1e8, 1e16, 1e25, 1e120])
@pytest.mark.parametrize("label_scale", [1e-60, 1e-20, 1e-11, 1e-6, 1.0, 1e11, 1e20, 1e60])
@pytest.mark.parametrize("weight", [0.0, 0.3], ids=["explicit", "implicit"])
def test_users_of_any_scale(items_scale: float, label_scale: float, weight: float) -> None:
    d = 17  # in whole vectors 32
    start, item, label, items = histories(d)
    ridge, shared = 0.1 * np.maximum(1.0, np.diff(start)), weight * items.T @ items
    expected = reference(start, item, label, items, ridge, shared) * (label_scale / items_scale)
    with np.errstate(under="ignore"):
        ridge, shared = ridge * items_scale**2, shared * items_scale**2
        found = solve_users(start, item, label * label_scale, items * items_scale, ridge, shared)
    assert np.isfinite(found).all()
    if items_scale**2 > 1e-280:
        assert_close(found, expected, 3e-5)


def test_users_beyond_float32_and_within() -> None:
    # The same numbers for a user, whatever those of others are.
    start, item, label, items = histories(32)
    ridge, zero = np.ones(len(start) - 1), np.zeros((32, 32))
    expected = solve_users(start, item, label, items, ridge, zero)
    large = label.copy()
    large[start[3] : start[4]] *= 1e100
    found = solve_users(start, item, large, items, ridge, zero)
    others = np.arange(len(ridge)) != 3
    np.testing.assert_array_equal(found[others], expected[others])
    np.testing.assert_allclose(found[3], 1e100 * expected[3], rtol=1e-3, atol=1e95)


@pytest.mark.parametrize("d", [17, 64])
@pytest.mark.parametrize("weight", [1e-1, 1e-3, 1e-5, 1e-7])
@pytest.mark.parametrize("least", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("decay", [0.0, 6.0])
def test_users_who_share_little(d: int, weight: float, least: float, decay: float) -> None:
    # Conjugate gradients must not be trusted where they settle on something else.
    start, item, label, items = histories(d, 1)
    items = items * np.exp(-decay * np.arange(d) / d)
    ridge, shared = np.full(len(start) - 1, least), weight * items.T @ items
    found = solve_users(start, item, label, items, ridge, shared)
    assert_close(found, reference(start, item, label, items, ridge, shared), 1e-4)


@pytest.mark.parametrize("d", [32, 128])
@pytest.mark.parametrize("mean", [1.0, 3.0])
@pytest.mark.parametrize("grows", [0.04, 0.1, 0.3])
def test_items_that_have_a_direction_in_common(d: int, mean: float, grows: float) -> None:
    # One large eigenvalue, in which all labels lie: little is left, but not little of v.
    rng = np.random.default_rng(0)
    items = (mean + rng.normal(size=(ITEMS, d))) / np.sqrt(d)
    size = np.array([3, 20, 100, 300])
    start = np.concatenate([[0], np.cumsum(size)])
    item, label = rng.integers(0, ITEMS, start[-1]), np.ones(start[-1])
    ridge, zero = grows * size, np.zeros((d, d))
    found = solve_users(start, item, label, items, ridge, zero)
    assert_close(found, reference(start, item, label, items, ridge, zero), 1e-4)


def test_users_rows_in_any_layout() -> None:
    start, item, label, items = histories(32)
    ridge, shared = np.ones(len(start) - 1), items.T @ items
    expected = solve_users(start, item, label, items, ridge, shared)
    start, item, label = (np.repeat(each, 2)[::2] for each in (start, item.astype(np.int32), label))
    found = solve_users(start, item, label, np.asfortranarray(items), ridge, shared.T)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("weight", [0.0, 0.3], ids=["explicit", "implicit"])
@pytest.mark.parametrize("d", [16, 32])
def test_users_with_wrong_numbers_do_not_touch_others(wrong: float, weight: float, d: int) -> None:
    start, item, label, items = histories(d)
    ridge, shared = np.ones(len(start) - 1), weight * items.T @ items
    expected = solve_users(start, item, label, items, ridge, shared)
    label[start[13]] = wrong
    found = solve_users(start, item, label, items, ridge, shared)
    others = np.arange(len(ridge)) != 13
    np.testing.assert_array_equal(found[others], expected[others])
    assert not np.isfinite(found[13]).all()


def test_nearly_equal_items() -> None:
    # Float32 cannot tell them apart: the system is solved in float64.
    d = 8
    rng = np.random.default_rng(1)
    items = np.ones((ITEMS, d)) + 1e-5 * rng.normal(size=(ITEMS, d))
    start, item = np.array([0, 200]), rng.integers(0, ITEMS, 200)
    label = items[item] @ rng.normal(size=d)
    ridge, zero = np.zeros(1), np.zeros((d, d))
    found = solve_users(start, item, label, items, ridge, zero)
    np.testing.assert_allclose(items[item] @ found[0], label, atol=1e-8)


def test_no_users_and_no_rows() -> None:
    none, zero = np.zeros(0, dtype=np.int64), np.zeros((3, 3))
    found = solve_users(
        np.zeros(1, np.int64), none, np.zeros(0), np.ones((4, 3)), np.zeros(0), zero
    )
    assert found.shape == (0, 3)
    found = solve_users(
        np.zeros(3, np.int64), none, np.zeros(0), np.ones((4, 3)), np.zeros(2), zero
    )
    np.testing.assert_array_equal(found, np.zeros((2, 3)))


def test_a_users_vector_does_not_depend_on_who_else_is_there() -> None:
    rng = np.random.default_rng(3)
    items = rng.normal(size=(50, 19))
    shared = 0.3 * items.T @ items
    rows = [rng.choice(50, size, replace=False) for size in rng.integers(1, 40, 200)]
    labels = [rng.normal(size=len(row)) for row in rows]

    def solve(users: list[int]) -> Any:
        start = np.concatenate([[0], np.cumsum([len(rows[user]) for user in users])])
        item = np.concatenate([rows[user] for user in users])
        label = np.concatenate([labels[user] for user in users])
        ridge = np.full(len(users), 0.5)
        return solve_users(start, item, label, items, ridge, shared)

    everybody = solve(list(range(200)))
    for left_out in (0, 7, 100, 199):
        others = [user for user in range(200) if user != left_out]
        np.testing.assert_array_equal(solve(others), everybody[others])
    np.testing.assert_array_equal(solve([13]), everybody[[13]])
