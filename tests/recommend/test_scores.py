"""Scores by exact products: against plain NumPy, and the same in any company."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from apportion.recommend.scores import ExactScores


def drawn(rows: int, factors: int, seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=(rows, factors))


def close(found: Any, vectors: Any, items: Any) -> None:
    """Within what the module says: d |u| |v| 2^(1 - p / 2), and the rounding to float32."""
    d = items.shape[1]
    largest = np.abs(vectors).max(axis=1)[:, None] * np.abs(items).max(axis=1)
    exact = vectors @ items.T.astype(np.float64)
    bits = (53 - np.ceil(np.log2(d))) // 2
    assert (np.abs(found - exact) <= d * largest * 2.0 ** (1 - bits) + 2.0**-24 * abs(exact)).all()


@pytest.mark.parametrize("factors", [1, 2, 3, 32, 64, 65, 512])
@pytest.mark.parametrize("items", [1, 7, 700])
def test_are_the_products(items: int, factors: int) -> None:
    vectors, known = drawn(9, factors, 0), drawn(items, factors, 1).astype(np.float32)
    found = ExactScores(known)(vectors)
    assert found.dtype == np.float32
    close(found, vectors, known)


def test_nothing_is_rounded_before_the_end() -> None:
    # Large numbers cancel: only exact sums leave what is small. All fit into the bits of one row.
    vectors = np.array([[2.0**20, 1.0, -(2.0**20)]])
    items = np.array([[1.0, 2.0**-20, 1.0], [1.0, 0.5, 1.0]], dtype=np.float32)
    expected = [[2.0**-20, 0.5]]
    assert ExactScores(items)(vectors).tolist() == expected
    exact = [
        [float(sum(Fraction(a) * Fraction(float(b)) for a, b in zip(u, v, strict=True)))
         for v in items] for u in vectors.tolist()
    ]  # fmt: skip
    assert exact == expected


@pytest.mark.parametrize("items", [5, 64, 1001])
@pytest.mark.parametrize("factors", [3, 16, 48, 128])
def test_a_row_s_bits_depend_on_that_row_alone(items: int, factors: int) -> None:
    known = drawn(items, factors, 1).astype(np.float32)
    score, vectors = ExactScores(known), drawn(37, factors, 2)
    alone = np.concatenate([score(vector[None]) for vector in vectors])
    for threads in (1, 2, 3):
        with threadpool_limits(threads):
            for first in (0, 1, 30, 36):
                found = score(vectors[first:])
                np.testing.assert_array_equal(found, alone[first:])
    # Nor does an item's column on the others.
    np.testing.assert_array_equal(ExactScores(known[2:4])(vectors), alone[:, 2:4])


@pytest.mark.parametrize("power", [-1000, -140, -30, 30, 120, 1000])
def test_any_scale(power: int) -> None:
    vectors, known = drawn(4, 8, 0), drawn(6, 8, 1).astype(np.float32)
    found, scaled = (ExactScores(known)(each) for each in (vectors, np.ldexp(vectors, power)))
    with np.errstate(all="ignore"):
        expected = np.ldexp(found.astype(np.float64), power).astype(np.float32)
    if abs(power) < 100:
        np.testing.assert_array_equal(scaled, expected)
    else:  # infinite, or nothing: never undefined
        assert not np.isnan(scaled).any()
        np.testing.assert_allclose(scaled, expected, atol=1e-40)


def test_zeros_and_nobody() -> None:
    known = drawn(6, 8, 1).astype(np.float32)
    known[2] = 0
    found = ExactScores(known)(np.zeros((3, 8)))
    np.testing.assert_array_equal(found, np.zeros((3, 6)))
    assert ExactScores(known)(np.zeros((0, 8))).shape == (0, 6)
    assert ExactScores(known[:0])(np.zeros((3, 8))).shape == (3, 0)
