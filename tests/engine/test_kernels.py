"""The compiled inner loops, against plain NumPy."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from apportion.engine.cpu.conjugate import ROWS, VECTORS, solve_by_steps
from apportion.engine.cpu.gram import add_upper, aligned, cholesky, padded, substitute

from apportion.engine import CpuEngine, TaskRows, sums, users
from apportion.privacy import UserBound, short_rows, unpack
from apportion.privacy.bounds import ROUNDING
from tests.threads import this_many_threads

SIZES = [1, 3, 16, 17, 32, 64, 100, 128]
ITEMS = 300


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
@pytest.mark.parametrize("steps", [False, True], ids=["factors", "steps"])
def test_users(
    d: int, shares: bool, even: bool, steps: bool, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not steps:
        monkeypatch.setattr(users, "_WIDE", 1000)
    start, item, label, items = histories(d)
    ridge = np.ones(len(start) - 1) if even else 0.1 * np.maximum(1.0, np.diff(start))
    shared = 0.1 * items.T @ items if shares else np.zeros((d, d))
    found = CpuEngine().solve_users(start, item, label, items, ridge, shared)
    expected = reference(start, item, label, items, ridge, shared)
    assert_close(found, expected, 3e-5 if steps else 1e-5)


@pytest.mark.parametrize("d", SIZES)
def test_users_without_a_ridge(d: int) -> None:
    start, item, label, items = histories(d)
    nothing, zero = np.zeros(len(start) - 1), np.zeros((d, d))
    found = CpuEngine().solve_users(start, item, label, items, nothing, zero)
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
        found = CpuEngine().solve_users(
            start, item, label * label_scale, items * items_scale, ridge, shared
        )
    assert np.isfinite(found).all()
    if items_scale**2 > 1e-280:
        assert_close(found, expected, 3e-5)


def test_users_beyond_float32_and_within() -> None:
    # The same numbers for a user, whatever those of others are.
    start, item, label, items = histories(32)
    ridge, zero = np.ones(len(start) - 1), np.zeros((32, 32))
    expected = CpuEngine().solve_users(start, item, label, items, ridge, zero)
    large = label.copy()
    large[start[3] : start[4]] *= 1e100
    found = CpuEngine().solve_users(start, item, large, items, ridge, zero)
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
    found = CpuEngine().solve_users(start, item, label, items, ridge, shared)
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
    found = CpuEngine().solve_users(start, item, label, items, ridge, zero)
    assert_close(found, reference(start, item, label, items, ridge, zero), 1e-4)


def test_users_rows_in_any_layout() -> None:
    start, item, label, items = histories(32)
    ridge, shared = np.ones(len(start) - 1), items.T @ items
    expected = CpuEngine().solve_users(start, item, label, items, ridge, shared)
    start, item, label = (np.repeat(each, 2)[::2] for each in (start, item.astype(np.int32), label))
    found = CpuEngine().solve_users(start, item, label, np.asfortranarray(items), ridge, shared.T)
    np.testing.assert_array_equal(found, expected)


def a_system(d: int, rows: int) -> tuple[Any, ...]:
    """Items and labels, all of which one user has, as ``solve_by_steps`` takes them, and room."""
    rng = np.random.default_rng(rows)
    width = padded(d, np.float32)
    items = aligned((rows + 1, width), np.float32)
    items[:-1, :d] = rng.normal(size=(rows, d)) / np.sqrt(d)
    item, label = np.arange(rows, dtype=np.int32)[None], rng.normal(size=(1, rows))
    return item, label, items, aligned((width * (rows + ROWS + VECTORS),), np.float32)


@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize("rows", [1, 7, 8, 9, 200])
def test_conjugate_gradients(d: int, rows: int) -> None:
    item, label, items, room = a_system(d, rows)
    v = np.empty((1, items.shape[1]), dtype=np.float32)
    for first, stop in ((0, rows), (rows // 2, rows)):
        diagonal = np.full_like(v, 0.5 + len(items) / d)
        assert solve_by_steps(item, label, items, first, stop, diagonal, room, v)
        X = items[first:stop].astype(np.float64)
        expected = np.linalg.solve(X.T @ X + np.diag(diagonal[0]), X.T @ label[0, first:stop])
        assert_close(v, expected[None], 1e-5)


@pytest.mark.parametrize("diagonal", [1e-4, 0.0, -1.0, np.nan])
@pytest.mark.parametrize("rows", [1, 40])
def test_conjugate_gradients_leave_hard_systems_to_others(diagonal: float, rows: int) -> None:
    item, label, items, room = a_system(32, rows)
    v = np.empty((1, 32), dtype=np.float32)
    assert not solve_by_steps(item, label, items, 0, rows, np.full_like(v, diagonal), room, v)


def test_users_of_more_rows_than_are_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    d = 32
    start, item, label, items = histories(d)
    ridge, shared = np.ones(len(start) - 1), items.T @ items
    expected = CpuEngine().solve_users(start, item, label, items, ridge, shared)
    monkeypatch.setattr(users, "_GATHERED", 64 * d)
    found = CpuEngine().solve_users(start, item, label, items, ridge, shared)
    few = np.diff(start) <= 64
    np.testing.assert_array_equal(found[few], expected[few])
    assert (found[~few] != expected[~few]).any()
    assert_close(found, expected, 1e-5)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("weight", [0.0, 0.3], ids=["explicit", "implicit"])
@pytest.mark.parametrize("d", [16, 32])
def test_users_with_wrong_numbers_do_not_touch_others(wrong: float, weight: float, d: int) -> None:
    start, item, label, items = histories(d)
    ridge, shared = np.ones(len(start) - 1), weight * items.T @ items
    expected = CpuEngine().solve_users(start, item, label, items, ridge, shared)
    label[start[13]] = wrong
    found = CpuEngine().solve_users(start, item, label, items, ridge, shared)
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
    found = CpuEngine().solve_users(start, item, label, items, ridge, zero)
    np.testing.assert_allclose(items[item] @ found[0], label, atol=1e-8)


def test_no_users_and_no_rows() -> None:
    none, zero = np.zeros(0, dtype=np.int64), np.zeros((3, 3))
    found = CpuEngine().solve_users(
        np.zeros(1, np.int64), none, np.zeros(0), np.ones((4, 3)), np.zeros(0), zero
    )
    assert found.shape == (0, 3)
    found = CpuEngine().solve_users(
        np.zeros(3, np.int64), none, np.zeros(0), np.ones((4, 3)), np.zeros(2), zero
    )
    np.testing.assert_array_equal(found, np.zeros((2, 3)))


def test_no_factors() -> None:
    start, item, label = np.array([0, 2, 2]), np.array([0, 3]), np.ones(2)
    found = CpuEngine().solve_users(
        start, item, label, np.zeros((4, 0)), np.ones(2), np.zeros((0, 0))
    )
    assert found.shape == (2, 0)


def examples(d: int) -> tuple[TaskRows, np.ndarray]:
    rng = np.random.default_rng(d)
    size = np.array([0, 1, d, 31, 32, 33, 500, 0, 2, 1])
    task = rng.permutation(np.repeat(np.arange(len(size)), size))
    rows, features = len(task), rng.normal(size=(40, d))
    columns = (rng.integers(0, 40, rows), rng.normal(size=rows), rng.random(rows))
    sorted_rows = TaskRows.sort(features, *columns, np.zeros(rows, int), task, len(size))
    return sorted_rows, np.repeat(np.arange(len(size)), size)


@pytest.mark.parametrize("d", SIZES)
def test_statistics(d: int) -> None:
    rows, task = examples(d)
    second, first = CpuEngine().statistics(rows, 0, rows.tasks)
    for i in range(rows.tasks):
        X, w, y = rows.features[rows.feature_row], rows.weight, rows.label
        X, w, y = X[task == i], w[task == i], y[task == i]
        np.testing.assert_allclose(unpack(second, d)[i], X.T @ (w[:, None] * X), atol=1e-11)
        np.testing.assert_allclose(first[i], X.T @ (w * y), atol=1e-11)


BOUND, GRIDS = 3.0, (2.0**-22, 2.0**-24)


def short_examples(d: int) -> tuple[TaskRows, np.ndarray]:
    """The same, with features of 16 bits within a bound; some as long as can be."""
    rows, task = examples(d)
    short, unit = short_rows(rows.features, BOUND)
    return replace(rows, features=short, unit=unit), task


def exact_statistics(rows: TaskRows, task: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, b with the weights of A, and b with the rows' own: sums of whole numbers, row by row."""
    d = rows.features.shape[1]
    A, b, plain = (np.zeros((rows.tasks, *shape)) for shape in ((d, d), (d,), (d,)))
    longest = BOUND / np.sqrt(GRIDS[0])
    for row, place in enumerate(rows.feature_row):
        x = rows.features[place].astype(np.float32)
        r = max(np.sqrt(rows.weight[row]) * longest - np.sqrt(d) / 2, 0.0)
        z = np.rint(np.float32(r * (1.0 / (2**15 - 1))) * x).astype(np.float64)
        weight = (r / longest) ** 2
        in_grid = rows.label[row] * rows.unit / GRIDS[1]
        A[task[row]] += GRIDS[0] * np.outer(z, z)
        b[task[row]] += GRIDS[1] * np.trunc(np.float32(weight * in_grid) * x).astype(float)
        plain[task[row]] += GRIDS[1] * np.trunc(np.float32(rows.weight[row] * in_grid) * x)
    return A, b, plain


@pytest.mark.parametrize("d", SIZES)
def test_sums_on_a_grid(d: int) -> None:
    # Bit for bit what whole numbers give, and near to what the data gives.
    rows, task = short_examples(d)
    second, first = CpuEngine().statistics(rows, 0, rows.tasks, GRIDS)
    A, b, plain = exact_statistics(rows, task)
    np.testing.assert_array_equal(unpack(second, d), A)
    # The last digit of a factor may differ, and so one unit for every row.
    np.testing.assert_allclose(first, b, atol=20 * GRIDS[1])
    np.testing.assert_allclose(CpuEngine().moments(rows, GRIDS[1]), plain, atol=20 * GRIDS[1])
    X = rows.features * rows.unit
    close = replace(rows, features=X, unit=1.0)
    scale = np.sqrt(d) / (BOUND / np.sqrt(GRIDS[0]))  # relative to the sums of 570 rows
    expected, moments = CpuEngine().statistics(close, 0, rows.tasks)
    np.testing.assert_allclose(second, expected, atol=600 * BOUND**2 * scale)
    np.testing.assert_allclose(CpuEngine().moments(rows, GRIDS[1]), moments, atol=1e-3)


def test_shares_of_labels_are_labels_multiplied() -> None:
    rows, _ = short_examples(12)
    share = np.random.default_rng(3).uniform(0.0, 1.0, len(rows.features))
    shared, multiplied = (
        replace(rows, share=share),
        replace(rows, label=rows.label * share[rows.feature_row]),
    )
    close = [
        replace(each, features=rows.features * rows.unit, unit=1.0) for each in (shared, multiplied)
    ]
    for both in (
        [CpuEngine().statistics(each, 0, rows.tasks, GRIDS) for each in (shared, multiplied)],
        [CpuEngine().statistics(each, 0, rows.tasks) for each in close],
        [(CpuEngine().moments(each, GRIDS[1]),) for each in (shared, multiplied)],
    ):
        for found, expected in zip(*both, strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 63, 64, 65, 1000])
def test_32_bits_are_never_passed(count: int) -> None:
    # Rows of full weight along one axis: 31 of them fill a 32-bit number.
    short, unit = short_rows(np.array([[1e3, 0.0], [-1e3, 0.0]]), BOUND)
    everybody = np.zeros(count, int)
    ones = np.ones(count)
    rows = TaskRows(short, everybody % 2, ones, ones, everybody, np.array([0, count]), unit=unit)
    grid = UserBound(BOUND**2, "for example").grid(1.0)
    [[first, second, third]], _ = CpuEngine().statistics(rows, 0, 1, (grid, 1.0))
    assert first == pytest.approx(count * BOUND**2, rel=1e-3)
    assert first <= count * BOUND**2
    assert (second, third) == (0.0, 0.0)


@pytest.mark.parametrize("d", [1, 2, 15, 33, 128])
def test_no_row_passes_its_bound_on_any_grid(d: int) -> None:
    # Features half way between whole numbers, weights at which rounding is all there is, any bound.
    rng = np.random.default_rng(d)
    none = np.zeros(1, int)
    for _ in range(60):
        G, L, mu = 10 ** rng.uniform(-50, 50), 10 ** rng.uniform(-50, 50), 10 ** rng.uniform(-9, 6)
        halves = (rng.integers(0, 40, (1, d)) + 0.5 + rng.choice([-1e-9, 1e-9], (1, d))) * G / 32767
        features = halves if rng.random() < 0.5 else 2 * G * rng.normal(size=(1, d))
        short, unit = short_rows(features, G, stretch=bool(rng.integers(2)))
        w = min(
            1.0, rng.choice([1.0, 10 ** rng.uniform(-8, 0), d * 2.0**-26 * rng.uniform(0.2, 3)])
        )
        y = rng.choice([-L, L])
        rows = TaskRows(
            short, none, np.array([y]), np.array([w]), none, np.array([0, 1]), unit=unit
        )
        grids = UserBound(G * G, "A").grid(mu), UserBound(L * G, "b").grid(mu)
        A, b = CpuEngine().statistics(rows, 0, 1, grids)
        alone = CpuEngine().moments(rows, grids[1])
        # In units of the grid, so that no square is beyond all numbers.
        most = w * np.array([G * G / grids[0], L * G / grids[1]]) * (1 + ROUNDING)
        assert np.linalg.norm(unpack(A / grids[0], d)) <= most[0]
        assert np.linalg.norm(b / grids[1]) <= most[1]
        assert np.linalg.norm(alone / grids[1]) <= most[1]


@pytest.mark.parametrize("d", [3, 16, 33])
def test_sums_do_not_depend_on_threads_pieces_or_order(
    d: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, task = short_examples(d)
    expected = (*CpuEngine().statistics(rows, 0, rows.tasks, GRIDS), *moments_of(rows))
    # Long tasks in pieces, and users in many groups: as in large data.
    monkeypatch.setattr(sums, "_PIECE", 100)
    monkeypatch.setattr(sums, "_NEAR", 1000)
    mixed = np.lexsort((np.random.default_rng(0).random(len(task)), task))
    shuffled = replace(
        rows,
        **{name: getattr(rows, name)[mixed] for name in ("feature_row", "label", "weight", "user")},
    )
    for threads, these in product((1, 3), (rows, shuffled)):
        with this_many_threads(threads):
            parts = [CpuEngine().statistics(these, i, i + 1, GRIDS) for i in range(rows.tasks)]
            for found in (
                (*CpuEngine().statistics(these, 0, rows.tasks, GRIDS), *moments_of(these)),
                (*map(np.concatenate, zip(*parts, strict=True)), *moments_of(these)),
            ):
                for one, another in zip(found, expected, strict=True):
                    np.testing.assert_array_equal(one, another)


@pytest.mark.parametrize("d", [1, 16, 17, 100])
def test_prepared_rows_have_the_same_sums_and_are_not_copied_again(
    d: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, _ = short_examples(d)
    rows = replace(rows, feature_row=rows.feature_row.astype(np.int64))
    ready = CpuEngine().prepare(rows)
    assert ready.dimension == d
    expected = (*CpuEngine().statistics(rows, 0, rows.tasks, GRIDS), *moments_of(rows))
    monkeypatch.delattr(np, "pad")
    found = (*CpuEngine().statistics(ready, 0, rows.tasks, GRIDS), *moments_of(ready))
    for one, another in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, another)
    assert CpuEngine().prepare(ready).feature_row is ready.feature_row


@pytest.mark.parametrize("labels", [1.0, -1.0])
def test_sums_of_labels_at_the_bound_do_not_overflow(labels: float) -> None:
    # One user's part alone may be 2^26 units: 32 bits do not hold the sum of a hundred.
    users, d = 100, 3
    features, unit = short_rows(np.tile([1.0, 0.0, 0.0], (users, 1)), 1.0)
    everybody, ones = np.arange(users), np.ones(users)
    start = np.array([0, users])
    rows = TaskRows(features, everybody, labels * ones, ones, everybody, start, unit=unit)
    grid = UserBound(1.0, "all at their bound").grid(0.1)
    (one,), (other,) = (
        CpuEngine().moments(rows, grid),
        CpuEngine().statistics(rows, 0, 1, (grid, grid))[1],
    )
    largest = labels * features[0, 0] * unit * users
    assert one[0] == pytest.approx(largest, rel=1e-6)
    assert other[0] == pytest.approx(largest, rel=2e-3)  # of a weight that is a little less
    assert not one[1:].any()
    assert d == len(one)


def moments_of(rows: TaskRows) -> tuple[np.ndarray]:
    return (CpuEngine().moments(rows, GRIDS[1]),)


def test_one_task_is_shared_by_all_threads() -> None:
    rows, task = short_examples(16)
    one = replace(rows, start=np.array([0, 0, len(task), len(task)]))
    expected = CpuEngine().moments(rows, GRIDS[1]).sum(axis=0)
    [nobody, found, none] = CpuEngine().moments(one, GRIDS[1])
    np.testing.assert_array_equal(found, expected)
    assert not nobody.any()
    assert not none.any()


@pytest.mark.parametrize("label", [np.nan, np.inf, 1e300])
def test_features_of_zero_add_nothing_whatever_the_label(label: float) -> None:
    rows, _ = short_examples(16)
    nothing = replace(rows, features=np.zeros_like(rows.features))
    nothing = replace(nothing, label=np.full(len(rows.label), label))
    second, first = CpuEngine().statistics(nothing, 0, rows.tasks, GRIDS)
    assert not second.any()
    assert not first.any()
    assert not CpuEngine().moments(nothing, GRIDS[1]).any()


def test_exact_sums_want_16_bits_and_others_do_not() -> None:
    rows, _ = examples(16)
    short, _ = short_examples(16)
    with pytest.raises(TypeError, match="int16"):
        CpuEngine().statistics(rows, 0, 1, GRIDS)
    with pytest.raises(TypeError, match="float64"):
        CpuEngine().statistics(short, 0, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize("rows", [0, 1, 33])
def test_blocks(dtype: type, d: int, rows: int) -> None:
    n = padded(d, dtype)
    rng = np.random.default_rng(0)
    left, right, total = (aligned((size, n), dtype) for size in (max(1, rows), max(1, rows), n))
    left[:], right[:], total[:] = (rng.normal(size=a.shape) for a in (left, right, total))
    expected = total + left[:rows].T @ right[:rows]
    add_upper(left, right, rows, total)
    np.testing.assert_allclose(np.triu(total), np.triu(expected), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", SIZES)
def test_factor_and_substitute(dtype: type, d: int) -> None:
    n = padded(d, dtype)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2 * n, n)) / np.sqrt(n)
    A, b, small = aligned((n, n), dtype), aligned((1, n), dtype), aligned((8, 8), dtype)
    A[:], b[0] = X.T @ X + np.eye(n), rng.normal(size=n)
    expected = np.linalg.solve(A.astype(np.float64), b[0].astype(np.float64))
    A[np.tril_indices(n, -1)] = np.nan  # is not read
    assert cholesky(A, small) > 0
    substitute(A, b)
    np.testing.assert_allclose(b[0], expected, atol=2e-6)


@pytest.mark.parametrize("diagonal", [-1.0, 0.0, np.nan])
def test_a_lost_pivot_is_noticed(diagonal: float) -> None:
    A = aligned((32, 32), np.float32)
    A[:] = np.eye(32)
    A[20, 20] = diagonal
    assert not cholesky(A, aligned((8, 8), np.float32)) > 0


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
        return CpuEngine().solve_users(start, item, label, items, ridge, shared)

    everybody = solve(list(range(200)))
    for left_out in (0, 7, 100, 199):
        others = [user for user in range(200) if user != left_out]
        np.testing.assert_array_equal(solve(others), everybody[others])
    np.testing.assert_array_equal(solve([13]), everybody[[13]])
