"""Users' systems and short vectors, against their twins."""

from typing import Any

import numpy as np
import pytest

from apportion.engine.users import turned_items
from apportion.native import kernels
from apportion.privacy.rounding import LONGEST
from apportion.twins.users import short_rows, solve_users

pytestmark = pytest.mark.skipif(kernels is None, reason="no compiled kernels")
SIZES = [*range(1, 71), 127, 128, 129]
ITEMS = 300


def histories(d: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Start, item and label of users with 0, 1, d - 1, d, ... rows, and items [300, d]."""
    rng = np.random.default_rng(seed)
    size = np.array([0, 1, d - 1, d, d + 1, 2, 7, 8, 9, 15, 16, 17, 40, 64, 65, 129, 1000, 0])
    start = np.concatenate([[0], np.cumsum(size), size.sum() + 3 * np.arange(1, 30)])
    item = rng.integers(0, ITEMS, start[-1]).astype(np.int32)
    return start, item, rng.normal(size=start[-1]), rng.normal(size=(ITEMS, d)) / np.sqrt(d)


def compiled(
    start: Any, item: Any, label: Any, items: Any, ridge: Any, shared: Any, bound: Any = None,
    stretch: bool = False, threads: int = 2, exact: bool = False,
) -> np.ndarray:  # fmt: skip
    with np.errstate(all="ignore"):
        turned = turned_items(items, shared)
    return kernels.solve_users(
        start, item, label, items, ridge, shared, *turned, bound, stretch, threads, exact
    )


def assert_close(found: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    """Every user's vector, relative to its length."""
    error = np.linalg.norm(found - expected, axis=1)
    assert (error <= tolerance * np.linalg.norm(expected, axis=1)).all()


@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize("implicit", [False, True], ids=["explicit", "implicit"])
@pytest.mark.parametrize("strong", [False, True], ids=["ridge 1", "ridge n"])
def test_vectors_solve_their_systems(d: int, implicit: bool, strong: bool) -> None:
    start, item, label, items = histories(d)
    ridge = 0.1 * np.maximum(1.0, np.diff(start)) if strong else np.ones(len(start) - 1)
    shared = 0.1 * items.T @ items if implicit else np.zeros((d, d))
    found = compiled(start, item, label, items, ridge, shared)
    expected = solve_users(start, item, label, items, ridge, shared)
    assert_close(found, expected, 3e-5)
    assert_close(compiled(start, item, label, items, ridge, shared, exact=True), expected, 1e-11)


@pytest.mark.parametrize("d", [256, 512])
def test_vectors_with_many_factors(d: int) -> None:
    start, item, label, items = histories(d)
    ridge, shared = 0.1 * np.maximum(1.0, np.diff(start)), 0.1 * items.T @ items
    found = compiled(start, item, label, items, ridge, shared)
    assert_close(found, solve_users(start, item, label, items, ridge, shared), 3e-5)


@pytest.mark.parametrize("d", [1, 8, 16, 17, 32, 33, 64, 100, 128])
def test_weak_ridges_need_factors_or_float64(d: int) -> None:
    start, item, label, items = histories(d)
    zero = np.zeros((d, d))
    for ridge in (1e-3, 1e-6, 0.0):
        each = np.full(len(start) - 1, ridge)
        found = compiled(start, item, label, items, each, zero)
        expected = solve_users(start, item, label, items, each, zero)
        for user in np.flatnonzero(np.diff(start)):
            # All solutions are as good where several are: compare what is left unexplained.
            own = slice(start[user], start[user + 1])
            X, y = items[item[own]], label[own]
            left = [np.sum((y - X @ v) ** 2) + ridge * v @ v for v in (found[user], expected[user])]
            assert left[0] <= left[1] + 1e-4 * (y @ y)
            if ridge and len(y) > 3 * d:
                assert_close(found[[user]], expected[[user]], 1e-4)


@pytest.mark.parametrize("items_scale", [1e-200, 1e-25, 1e-11, 1e8, 1e16, 1e120])
@pytest.mark.parametrize("label_scale", [1e-60, 1e-11, 1.0, 1e20, 1e60])
@pytest.mark.parametrize("weight", [0.0, 0.3], ids=["explicit", "implicit"])
def test_vectors_of_any_scale(items_scale: float, label_scale: float, weight: float) -> None:
    d = 33
    start, item, label, items = histories(d)
    ridge, shared = 0.1 * np.maximum(1.0, np.diff(start)), weight * items.T @ items
    expected = solve_users(start, item, label, items, ridge, shared) * (label_scale / items_scale)
    with np.errstate(under="ignore"):
        ridge, shared = ridge * items_scale**2, shared * items_scale**2
    items, label = items * items_scale, label * label_scale
    found = compiled(start, item, label, items, ridge, shared)
    assert np.isfinite(found).all()
    if items_scale**2 > 1e-280:
        assert_close(found, expected, 3e-5)


@pytest.mark.parametrize("implicit", [False, True], ids=["explicit", "implicit"])
def test_a_vector_depends_on_its_own_rows_alone(implicit: bool) -> None:
    d = 40
    start, item, label, items = histories(d)
    ridge = np.where(np.arange(len(start) - 1) % 3, 1.0, 1e-5)  # some need factors
    shared = 0.01 * items.T @ items if implicit else np.zeros((d, d))
    together = compiled(start, item, label, items, ridge, shared, threads=3)
    assert (
        compiled(start, item, label, items, ridge, shared, threads=1).tobytes()
        == together.tobytes()
    )
    for user in range(len(start) - 1):
        own = slice(start[user], start[user + 1])
        alone = compiled(
            np.array([0, start[user + 1] - start[user]]), item[own].copy(), label[own].copy(), items,
            ridge[[user]], shared,
        )  # fmt: skip
        assert alone[0].tobytes() == together[user].tobytes()


@pytest.mark.parametrize("d", [1, 7, 16, 17, 33, 64, 129])
def test_the_same_bits_under_every_instruction_set(d: int) -> None:
    start, item, label, items = histories(d)
    shared = 0.05 * items.T @ items
    ridge = 10.0 ** -np.arange(len(start) - 1).astype(float)  # steps, factors, corrections, float64
    found = set()
    for isa in kernels.isas():
        before = kernels.isa()
        kernels.use_isa(isa)
        vectors = [
            compiled(start, item, label, items, ridge, each) for each in (shared, 0 * shared)
        ]
        shorts = compiled(start, item, label, items, ridge, shared, bound=0.1)
        found.add(b"".join(each.tobytes() for each in (*vectors, shorts)))
        kernels.use_isa(before)
    assert len(found) == 1


@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize("stretch", [False, True], ids=["clip", "stretch"])
def test_short_rows(d: int, stretch: bool, isa: str) -> None:
    rng = np.random.default_rng(d)
    rows = rng.normal(size=(1100, d)) * 10.0 ** rng.integers(-5, 5, size=(1100, 1))
    rows[0], rows[1], rows[2], rows[3] = 0.0, np.inf, np.nan, 1e-310
    rows[4] = 1e308
    for bound in (1.0, 3.7, 1e-90, 1e100):
        found = kernels.short_rows(rows, bound, stretch, 2)
        assert np.array_equal(found, short_rows(rows, bound, stretch=stretch))
        assert found.shape == (1100, -(-d // 16) * 16)
        lengths = np.linalg.norm(found.astype(np.float64), axis=1)
        assert lengths.max() <= LONGEST
        assert not found[:3].any()
        if stretch:
            assert lengths[4:].min() >= LONGEST - np.sqrt(d) - 1


@pytest.mark.parametrize("stretch", [False, True], ids=["clip", "stretch"])
def test_solved_vectors_are_shortened_by_the_same_rule(stretch: bool) -> None:
    start, item, label, items = histories(40)
    ridge, shared = np.where(np.arange(len(start) - 1) % 3, 1.0, 0.0), 0.1 * items.T @ items
    label[start[4] : start[5]] = 1e300  # whose vector is not finite
    args = (start, item, label, items, ridge, shared)
    vectors = compiled(*args)
    found = compiled(*args, bound=0.3, stretch=stretch)
    assert np.array_equal(found, short_rows(vectors, 0.3, stretch=stretch))


def test_wrong_arrays_are_refused() -> None:
    start, item, label, items = histories(5)
    ridge, shared = np.ones(len(start) - 1), np.zeros((5, 5))
    good = [start, item, label, items, ridge, shared, *turned_items(items, shared), None, False, 1]
    kernels.solve_users(*good)

    def refused(place: int, value: Any, error: type[Exception], name: str) -> None:
        with pytest.raises(error, match=name):
            kernels.solve_users(*good[:place], value, *good[place + 1 :])

    refused(0, start[:-1], ValueError, "start must have length")
    refused(0, start[::-1].copy(), ValueError, "start must begin with 0")
    refused(0, start.astype(np.int32), TypeError, "start must be of dtype int64")
    refused(0, start.astype(">i8"), TypeError, "start must be of dtype int64")
    refused(1, np.full_like(item, ITEMS), ValueError, "item holds numbers")
    refused(1, np.full_like(item, -1), ValueError, "item holds numbers")
    refused(1, "text", TypeError, "item must be an array")
    refused(2, label[1:], ValueError, "label must have length")
    refused(2, np.repeat(label, 2)[::2], ValueError, "label must be contiguous")
    refused(3, items.T, ValueError, "items must be contiguous")
    refused(3, items[0], ValueError, "items must have 2 dimensions")
    refused(4, ridge[1:], ValueError, "start must have length")
    refused(5, shared[1:], ValueError, "shared must be square")
    refused(6, items[1:], ValueError, "turned must have length")
    refused(7, np.zeros(4), ValueError, "eigenvalues must have length")
    refused(8, np.zeros((3, 3)), ValueError, "turn must be square")
    refused(9, -1.0, ValueError, "bound must be")
    refused(9, np.nan, ValueError, "bound must be")
    refused(11, 0, ValueError, "threads must be")
