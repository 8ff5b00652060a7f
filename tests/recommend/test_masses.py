"""Sums of weights, averaged over all releases that tell them."""

from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.recommend.masses import Masses

RNG = np.random.default_rng(3)
TRUE = RNG.gamma(2.0, 400.0, 2000)
MEAN = np.array([0.6, -0.3, 0.2, 0.0])
LENGTH = float(np.linalg.norm(MEAN))


def known(noise: float) -> Masses:
    return Masses(TRUE + RNG.normal(0, noise, len(TRUE)), np.full(len(TRUE), noise**-2))


def off(masses: Masses) -> float:
    return float(np.std(masses.noisy - TRUE))


def test_the_more_precise_counts_more() -> None:
    both = known(10.0).joined(TRUE + RNG.normal(0, 20.0, len(TRUE)), 20.0**-2)
    assert off(both) == pytest.approx((10.0**-2 + 20.0**-2) ** -0.5, rel=0.05)
    assert both.precision == pytest.approx(10.0**-2 + 20.0**-2)


def test_right_hand_sides_tell_sums_along_their_mean() -> None:
    masses, noise = known(10.0), 8.0
    for sweep in range(1, 6):
        b = np.outer(TRUE, MEAN) + RNG.normal(0, noise, (len(TRUE), 4))
        masses = masses.after(b, noise)
        expected = (10.0**-2 + sweep * (LENGTH / noise) ** 2) ** -0.5
        assert off(masses) == pytest.approx(expected, rel=0.05)
        assert np.median(masses.precision) == pytest.approx(expected**-2, rel=0.05)


def test_tastes_across_the_mean_change_nothing() -> None:
    across = np.array([0.3, 0.6, 0.0, 0.5])
    assert across @ MEAN == 0
    tastes = np.sqrt(TRUE) * RNG.normal(0, 1.0, len(TRUE))
    b = np.outer(TRUE, MEAN) + np.outer(tastes, across)
    found = known(10.0).after(b + RNG.normal(0, 8.0, b.shape), 8.0)
    assert off(found) == pytest.approx((10.0**-2 + (LENGTH / 8.0) ** 2) ** -0.5, rel=0.1)


def test_users_who_are_unlike_others_count_less() -> None:
    # Those of an item are all a tenth more, or less, alike than usual: that says nothing of their number.
    unlike = TRUE * (1 + RNG.normal(0, 0.1, len(TRUE)))
    before = known(10.0)
    found = before.after(np.outer(unlike, MEAN) + RNG.normal(0, 8.0, (len(TRUE), 4)), 8.0)
    assert off(found) < off(before)
    many = TRUE > 800.0
    gained = found.precision[many] / before.precision[many]
    np.testing.assert_allclose(gained, 1 + (10.0 / (0.1 * TRUE[many])) ** 2, rtol=0.05)


def test_noise_tells_nothing() -> None:
    before = known(10.0)
    for seed in range(20):
        b = np.random.default_rng(seed).normal(0, 8.0, (len(TRUE), 4))
        assert before.after(b, 8.0).precision == pytest.approx(before.precision, rel=0.01)


def test_exact_ones_stay() -> None:
    exact = Masses(TRUE, np.full(len(TRUE), 1e24))
    b = np.outer(TRUE, MEAN) + RNG.normal(0, 8.0, (len(TRUE), 4))
    np.testing.assert_allclose(exact.after(b, 8.0).expected, TRUE, rtol=1e-9)


def test_columns_hold_everything() -> None:
    masses = known(10.0)
    again = Masses.from_columns(masses.columns)
    np.testing.assert_array_equal(again.noisy, masses.noisy)
    np.testing.assert_array_equal(again.precision, masses.precision)


def test_a_model_knows_counts_better_than_its_release_of_counts() -> None:
    data = ap.simulate_interactions(users=3000, items=300, rows=60_000, rating_range=None, seed=1)
    true = data.graph.task_sizes()
    model = ap.MatrixFactorization(
        feedback="implicit", epsilon=1.0, factors=6, sweeps=6, noise_seed=0
    )
    before: Any = model.prepare(data).sizes
    found: Any = model.fit(data).released.counts
    assert np.std(found - true) < 0.7 * np.std(before - true)
