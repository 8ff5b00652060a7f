"""Many positive definite systems at once, by Cholesky factors, against NumPy."""

import numpy as np
import pytest

from apportion.engine.cpu.definite import solve_positive
from apportion.engine.cpu.lanes import LANES
from apportion.privacy import pack
from tests.engine.test_spectral import (
    DIMENSIONS,
    assert_near,
    by_eigenvectors,
    check_layouts,
    noisy,
)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_is_the_solution(d: int) -> None:
    A, b, alpha = noisy(2 * LANES + 1, d, 0.0)
    mine = solve_positive(pack(A), b, alpha + 0.1)
    regular = A + (alpha + 0.1)[:, None, None] * np.eye(d)
    assert_near(mine, np.linalg.solve(regular, b[:, :, None])[:, :, 0])


def test_a_shared_matrix_is_added() -> None:
    A, b, alpha = noisy(10, 5, 0.0)
    shared, scale = noisy(1, 5, 0.0, seed=4)[0], np.linspace(0.0, 3.0, 10)
    mine = solve_positive(pack(A), b, alpha + 1, scale, pack(shared)[0])
    regular = A + scale[:, None, None] * shared + (alpha + 1)[:, None, None] * np.eye(5)
    assert_near(mine, np.linalg.solve(regular, b[:, :, None])[:, :, 0])


def test_where_nothing_is_left_of_a_pivot_directions_are_left_out() -> None:
    A, b, _ = noisy(10, 6, 0.0)
    A[::2] = np.outer(np.arange(6.0), np.arange(6.0))
    alpha = np.full(10, 1e-30)
    alpha[1::2] = 1.0
    shared, scale = pack(np.eye(6)[None])[0], np.zeros(10)
    mine = solve_positive(pack(A), b, alpha, scale, shared)
    assert_near(mine, by_eigenvectors(A, b, alpha, 0.0))


@pytest.mark.parametrize("power", [-140, 140])
def test_any_scale(power: int) -> None:
    A, b, alpha = noisy(11, 13, 0.0)
    unit = 10.0**power
    reference = solve_positive(pack(A), b, alpha + 1)
    assert_near(solve_positive(pack(A * unit), b, (alpha + 1) * unit) * unit, reference)
    assert_near(solve_positive(pack(A), b * unit, alpha + 1) / unit, reference)


def test_a_ridge_far_beyond_the_matrix() -> None:
    theta = solve_positive(np.zeros((1, 3)), np.ones((1, 2)), np.array([1e100]))
    np.testing.assert_allclose(theta, 1e-100, rtol=1e-12)


def test_any_layout_will_do() -> None:
    A, b, alpha = noisy(2 * LANES + 3, 12, 0.0)
    check_layouts(lambda A, b: solve_positive(A, b, alpha + 1), pack(A), b)
