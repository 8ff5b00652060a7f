"""Models from right-hand sides and one second moment: the filter, and what it is made of."""

import numpy as np
import pytest

from apportion.tasks.shared import shrink

C = np.cov(np.random.default_rng(0).normal(size=(3, 50)))
RNG = np.random.default_rng(1)


@pytest.fixture(autouse=True)
def _fresh_numbers() -> None:
    """Of every test's own: what is drawn must not depend on which tests were run before."""
    global RNG
    RNG = np.random.default_rng(1)


def test_without_noise_it_is_the_exact_solution() -> None:
    mass, ridge, b = RNG.random(5) + 1, RNG.random(5), RNG.normal(size=(5, 3))
    expected = [
        np.linalg.solve(m * C + r * np.eye(3), y) for m, r, y in zip(mass, ridge, b, strict=True)
    ]
    np.testing.assert_allclose(shrink(b, 0.0, mass, C, ridge), expected)


def test_it_minimizes_the_expected_error() -> None:
    # Among all strengths of the penalty, the one chosen is within a few percent of the best.
    tasks, noise, spread = 4000, 3.0, np.array([2.0, 0.5, 0.05])
    mass = RNG.pareto(1.0, tasks) + 0.5
    values, basis = np.linalg.eigh(C)
    truth = RNG.normal(size=(tasks, 3)) * spread @ basis.T
    b = np.einsum("t,ij,tj->ti", mass, C, truth) + noise * RNG.normal(size=(tasks, 3))
    found = shrink(b, noise, mass, C, np.zeros(tasks))
    a = np.outer(mass, values)
    best = np.zeros(3)
    for k in range(3):
        rotated = (b @ basis)[:, k]
        errors = [
            np.mean((a[:, k] * rotated / (a[:, k] ** 2 + r) - (truth @ basis)[:, k]) ** 2)
            for r in np.geomspace(1e-3, 1e6, 200)
        ]
        best[k] = min(errors)
    assert np.mean((found - truth) ** 2) * 3 < 1.2 * best.sum()


def test_a_guess_is_as_good_as_one_more_release() -> None:
    # Two views of the same models with the same noise: half the noise variance in all.
    tasks, noise = 4000, 2.0
    truth, mass = RNG.normal(size=(tasks, 3)), np.ones(tasks)
    views = [truth + noise * RNG.normal(size=(tasks, 3)) for _ in range(2)]
    zero = np.zeros(tasks)
    first = shrink(views[0], noise, mass, np.eye(3), zero)
    second = shrink(views[1], noise, mass, np.eye(3), zero, guess=first)
    both = shrink(np.mean(views, axis=0), noise / 2**0.5, mass, np.eye(3), zero)
    errors = [np.mean((found - truth) ** 2) for found in (first, second, both)]
    assert errors[1] < 0.95 * errors[0]
    assert errors[1] < 1.05 * errors[2]


def test_a_guess_of_noise_does_no_harm() -> None:
    truth = RNG.normal(size=(4000, 3))
    b, zero = truth + RNG.normal(size=(4000, 3)), np.zeros(4000)
    plain = shrink(b, 1.0, zero + 1, np.eye(3), zero)
    misled = shrink(b, 1.0, zero + 1, np.eye(3), zero, guess=5 * RNG.normal(size=(4000, 3)))
    errors = [np.mean((found - truth) ** 2) for found in (plain, misled)]
    assert errors[1] < 1.02 * errors[0]


def test_spread_is_noise_of_its_own() -> None:
    # Small tasks are known worse than the release's noise says: allowing for it is better.
    tasks, noise = 4000, 0.5
    mass = RNG.pareto(1.0, tasks) + 0.5
    truth = RNG.normal(size=(tasks, 3))
    spread = 2.0 * mass
    b = mass[:, None] * truth + np.sqrt(noise**2 + spread)[:, None] * RNG.normal(size=(tasks, 3))
    zero = np.zeros(tasks)
    errors = [
        np.mean((shrink(b, noise, mass, np.eye(3), zero, None, allowed) - truth) ** 2)
        for allowed in (None, spread)
    ]
    assert errors[1] < 0.95 * errors[0]
    none = shrink(b, noise, mass, np.eye(3), zero, None, zero)
    np.testing.assert_allclose(none, shrink(b, noise, mass, np.eye(3), zero))


def test_pure_noise_is_suppressed() -> None:
    b = RNG.normal(size=(10_000, 3))
    size = np.abs(shrink(b, 1.0, np.ones(10_000), np.eye(3), np.zeros(10_000)))
    assert size.max() < 0.2


def test_a_direction_without_data_gets_no_coefficient() -> None:
    # An eigenvalue of zero is not exactly that after rounding.
    axis = np.array([1.0, 2.0, 3.0]) / 14**0.5
    flat = (
        C
        - np.outer(C @ axis, axis)
        - np.outer(axis, C @ axis)
        + (axis @ C @ axis) * np.outer(axis, axis)
    )
    models = shrink(RNG.normal(size=(50, 3)), 1.0, np.ones(50), flat, np.zeros(50))
    assert np.abs(models @ axis).max() < 1e-9


@pytest.mark.parametrize("noise", [1.0, 1e200])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e3])
@pytest.mark.parametrize("matrix", [np.zeros((3, 3)), np.eye(3), 1e200 * np.eye(3)])
def test_nothing_becomes_infinite(size: float, noise: float, matrix: np.ndarray) -> None:
    b = np.full((4, 3), size * noise)
    with np.errstate(over="ignore"):
        models = shrink(b, noise, np.ones(4), matrix, np.zeros(4), spread=np.ones(4))
        centered = shrink(b, noise, np.ones(4), matrix, np.zeros(4), np.ones((4, 3)))
    assert np.isfinite(models).all()
    assert np.isfinite(centered).all()


def test_what_is_too_large_to_be_squared_gets_no_coefficient() -> None:
    with np.errstate(over="ignore"):
        models = shrink(np.ones((2, 1)), 0.0, np.ones(2), np.array([[1e200]]), np.zeros(2))
    np.testing.assert_array_equal(models, 0.0)


@pytest.mark.parametrize("equal", [0.0, 0.7])
def test_directions_of_one_eigenvalue_have_no_basis_of_their_own(equal: float) -> None:
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    matrix = (turn * np.array([equal, equal, equal, 1.0, 2.0, 3.0])) @ turn.T
    b, guess = rng.normal(size=(2, 40, 6))
    mass, ridge, spread = rng.uniform(1, 5, (3, 40))
    # Rounding decides which basis a library finds.
    rounding = 1e-16 * rng.normal(size=(6, 6))
    one, two = (
        shrink(b, 0.5, mass, m, ridge, guess, spread)
        for m in (matrix, matrix + rounding + rounding.T)
    )
    np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)
