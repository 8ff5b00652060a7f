"""Matrices and models shrunk by what is known of their noise: limits, invariance, and the best of both."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apportion.engine.solves import solve_filtered
from apportion.packing import pack, unpack
from apportion.tasks import shrunk
from apportion.tasks.shared import shrink
from apportion.tasks.shrunk import Released, Shrinkage

Array = np.ndarray[Any, np.dtype[np.float64]]

TASKS, D = 400, 4
RNG = np.random.default_rng(0)
C = np.cov(RNG.normal(size=(D, 12))) / D
MASS = 40 * (RNG.pareto(3.0, TASKS) + 1)


def symmetric_noise(rng: np.random.Generator, tasks: int = TASKS) -> Array:
    """One on the diagonal, half that variance off it."""
    noise = rng.normal(size=(tasks, D, D))
    return np.asarray((noise + noise.transpose(0, 2, 1)) / 2)


def simulated(
    seed: int = 0,
    spread: float = 0.0,
    gram_noise: float = 1.0,
    moment_noise: float = 1.0,
    center: float = 0.0,
) -> tuple[Released, Array, Array]:
    """Released statistics, the models and the matrices behind them.

    Matrices scatter around MASS * C, with a standard deviation of ``spread`` relative to C.
    """
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(C)
    grams = MASS[:, None, None] * C + spread * (root @ symmetric_noise(rng) @ root.T)
    models = center + rng.normal(size=(TASKS, D))
    moments = np.einsum("tij,tj->ti", grams, models) + moment_noise * rng.normal(size=(TASKS, D))
    noisy = pack(grams + gram_noise * symmetric_noise(rng))
    mass_noise = 1e-3
    released = Released(noisy, moments, MASS, C, gram_noise, moment_noise, mass_noise)
    return released, models, grams


def error(found: Array, models: Array) -> float:
    """As in a prediction, a direction counts by its second moment."""
    return float(np.sqrt(np.einsum("ti,ij,tj->t", found - models, C, found - models).mean()))


def own_matrix(released: Released) -> Array:
    """Every task by itself."""
    radius = released.gram_noise * np.sqrt(2 * D)
    return solve_filtered(released.gram, released.moment, np.zeros(TASKS), radius)


def one_matrix(released: Released) -> Array:
    """The same matrix for all."""
    zero = np.zeros(TASKS)
    return shrink(released.moment, released.moment_noise, released.mass, C, zero)


def test_without_noise_every_task_has_its_own_solution() -> None:
    released, models, _ = simulated(spread=5.0, gram_noise=1e-7, moment_noise=1e-7)
    found = Shrinkage(released).coef()
    np.testing.assert_allclose(found, models, atol=1e-3)
    np.testing.assert_allclose(found, own_matrix(released), atol=1e-3)
    assert error(one_matrix(released), models) > 0.1  # the differences between tasks do matter here


def test_with_nothing_but_noise_in_the_matrices_it_is_one_matrix_for_all() -> None:
    # Models in pairs of opposite sign have no common center.
    released, _, _ = simulated(gram_noise=1e3)
    half = released.moment[: TASKS // 2]
    mass = np.concatenate([MASS[: TASKS // 2]] * 2)
    released = replace(released, moment=np.concatenate([half, -half]), mass=mass)
    exact = replace(released, gram=pack(mass[:, None, None] * C))  # nothing above the noise
    assert not Shrinkage(exact).spread.any()
    np.testing.assert_allclose(Shrinkage(exact).coef(), one_matrix(exact), rtol=1e-9)
    noisy = Shrinkage(released).coef()
    assert error(noisy, one_matrix(released)) < 0.1 * error(0 * noisy, noisy)


def test_the_spread_is_found() -> None:
    for spread in (5.0, 20.0):
        found = Shrinkage(simulated(spread=spread)[0])
        largest = np.linalg.eigvalsh(C).max()
        # 400 matrices of 10 entries: 2 % for a normal deviate, four times that allowed.
        np.testing.assert_allclose(np.sqrt(found.spread.mean()), spread * largest, rtol=0.1)


def test_differences_that_grow_with_the_task_are_found() -> None:
    # Every task's matrix is off by about a fifth, however large it is.
    released, _, grams = simulated()
    root = np.linalg.cholesky(C)
    off = 0.2 * MASS[:, None, None] * (root @ symmetric_noise(np.random.default_rng(1)) @ root.T)
    found = Shrinkage(replace(released, gram=pack(grams + off))).spread
    relative = np.sqrt(found) / (MASS * np.linalg.eigvalsh(C).max())
    assert relative.min() > 0.1
    assert relative.max() < 0.3


def test_noise_of_the_mass_is_not_taken_for_spread() -> None:
    released, _, _ = simulated(gram_noise=0.1)
    off = 4.0 * np.random.default_rng(1).normal(size=TASKS)
    mass = replace(released, mass=MASS + off, mass_noise=4.0)
    found = [np.mean(Shrinkage(each).spread) for each in (mass, replace(mass, mass_noise=0.0))]
    assert found[0] < 0.2 * found[1]


def test_what_is_left_of_the_noise_of_a_matrix_counts_as_noise() -> None:
    # What b differs from M theta, theta being the true models, has the variance that is allowed for.
    released, models, _ = simulated(spread=5.0, gram_noise=2.0, moment_noise=0.3)
    shrinkage = Shrinkage(released)
    rotated = models @ shrinkage._basis
    residual = [
        moment - np.einsum("tij,tj->ti", matrices, rotated[block])
        for block, matrices, moment in shrinkage._blocks()
    ]
    allowed = shrinkage._noise(shrinkage.spread).mean(axis=0)
    assert allowed.min() > 2 * 0.3**2
    np.testing.assert_allclose(np.mean(np.concatenate(residual) ** 2, axis=0), allowed, rtol=0.3)


def test_a_center_that_is_noise_is_suppressed() -> None:
    # Squared and relative to its variance, a mean of noise is 1 on average, and 0.35 after shrinking.
    sizes = []
    for seed in range(60):
        released, _, _ = simulated()
        noise = np.random.default_rng(seed).normal(size=(TASKS, D))
        center = Shrinkage(replace(released, moment=noise)).center
        sizes.append(np.sum(center**2 * np.linalg.eigvalsh(C) ** 2) * np.sum(MASS**2) / D)
    assert np.mean(sizes) < 0.6


@pytest.mark.parametrize("seed", range(3))
def test_better_than_both_where_both_are_as_good(seed: int) -> None:
    # Measured over six seeds: 0.70 to 0.75 times the better of the two, which are within 6 %.
    released, models, _ = simulated(seed, spread=5.0, gram_noise=0.7, moment_noise=0.5)
    found = error(Shrinkage(released).coef(), models)
    others = [error(solve(released), models) for solve in (own_matrix, one_matrix)]
    assert found < 0.85 * min(others)
    assert max(others) < 1.3 * min(others)


def test_a_common_center_is_used() -> None:
    near, far = (simulated(center=center, moment_noise=20.0) for center in (0.0, 5.0))
    errors = [error(Shrinkage(released).coef(), models) for released, models, _ in (near, far)]
    assert errors[1] < 1.1 * errors[0]
    assert error(one_matrix(far[0]), far[1]) > 1.5 * errors[1]


def test_noise_alone_leaves_nothing() -> None:
    released, models, _ = simulated()
    noise = np.random.default_rng(1).normal(size=(TASKS, D))
    found = Shrinkage(replace(released, moment=noise)).coef()
    assert error(found, 0 * models) < 0.1 * error(
        one_matrix(replace(released, moment=20 * noise)), 0
    )


def test_a_rotation_of_the_features_rotates_the_models() -> None:
    released, _, _ = simulated(spread=10.0, center=1.0)
    Q = np.linalg.qr(np.random.default_rng(1).normal(size=(D, D)))[0]
    turned = replace(
        released,
        gram=pack(Q @ unpack(released.gram, D) @ Q.T),
        moment=released.moment @ Q.T,
        second_moment=Q @ C @ Q.T,
    )
    expected = Shrinkage(released, 0.5).coef() @ Q.T
    np.testing.assert_allclose(Shrinkage(turned, 0.5).coef(), expected, rtol=1e-6, atol=1e-8)


def test_the_order_of_the_tasks_does_not_matter() -> None:
    released, _, _ = simulated(spread=10.0)
    order = np.random.default_rng(1).permutation(TASKS)
    mixed = replace(
        released,
        gram=released.gram[order],
        moment=released.moment[order],
        mass=released.mass[order],
    )
    np.testing.assert_allclose(
        Shrinkage(mixed).coef(), Shrinkage(released).coef()[order], rtol=1e-6
    )


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    released, _, _ = simulated(spread=10.0)
    whole = Shrinkage(released).coef()
    monkeypatch.setattr(shrunk, "_BLOCK_BYTES", 8 * D * D * 7)
    np.testing.assert_allclose(Shrinkage(released).coef(), whole, rtol=1e-9)


def test_a_large_penalty_is_ridge_regression_with_it() -> None:
    released, _, _ = simulated(gram_noise=1e-7, moment_noise=1e-7)
    found = Shrinkage(released, alpha=3.0).coef()
    shifted = unpack(released.gram, D) + 3.0 * np.eye(D)
    expected = np.linalg.solve(shifted, released.moment[:, :, None])[:, :, 0]
    np.testing.assert_allclose(found, expected, atol=1e-5)


class TestTwoReleases:
    def test_their_mean_has_the_noise_it_says(self) -> None:
        rng = np.random.default_rng(0)
        zero = np.zeros((TASKS, D * (D + 1) // 2))
        first, second = (
            Released(
                gram=a * rng.normal(size=zero.shape),
                moment=b * rng.normal(size=(TASKS, D)),
                mass=MASS, second_moment=C, gram_noise=a, moment_noise=b, mass_noise=1.0,
            )
            for a, b in ((3.0, 0.5), (1.0, 2.0))
        )  # fmt: skip
        both = first.averaged(second)
        np.testing.assert_allclose(both.gram_noise**-2, 3.0**-2 + 1.0**-2)
        np.testing.assert_allclose(both.moment_noise**-2, 0.5**-2 + 2.0**-2)
        np.testing.assert_allclose(both.gram.std(), both.gram_noise, rtol=0.05)
        np.testing.assert_allclose(both.moment.std(), both.moment_noise, rtol=0.08)

    @pytest.mark.parametrize("spread", [0.0, 3.0, 30.0])
    def test_the_second_is_split_well(self, spread: float) -> None:
        # A budget of 1 for the pilot, 5 % of it for A, and of 0.6 for the rest; noise is 1 over its root.
        def release(portion: float, seed: int) -> tuple[float, float]:
            a, b = 0.05 + 0.6 * portion, 0.95 + 0.6 * (1 - portion)
            released, models, _ = simulated(seed, spread, a**-0.5, b**-0.5)
            return error(Shrinkage(released).coef(), models), released.gram_noise

        pilot, _, _ = simulated(0, spread, 0.05**-0.5, 0.95**-0.5)
        chosen = Shrinkage(pilot).portion(share=0.05, rest=0.6)
        mean = {
            portion: np.mean([release(portion, seed)[0] for seed in range(3)])
            for portion in (chosen, 0.01, 0.25, 0.5, 0.75, 0.99)
        }
        assert mean[chosen] < 1.03 * min(mean.values())

    def test_more_goes_to_matrices_that_differ_more(self) -> None:
        portions = [
            Shrinkage(simulated(0, spread, 4.0, 1.0)[0]).portion(0.05, 0.6)
            for spread in (0.0, 3.0, 30.0)
        ]
        assert portions == sorted(portions)
        assert portions[0] < 0.05
        assert portions[2] > 0.5
