"""Denoised sizes: the long tail's total is right, and each is nearer to the truth than its noisy value."""

import numpy as np
import pytest

import apportion as ap
from apportion.allocation.denoising import expected_sizes

NOISE = 80.0


def long_tail(items: int, total: float, steepness: float = 1.0) -> np.ndarray:
    sizes = (np.arange(items) + 5.0) ** -steepness
    return sizes * total / sizes.sum()


@pytest.mark.parametrize(
    ("items", "total", "steepness"),
    [(150_000, 350_000, 1.0), (5_600, 110_000, 0.9), (40_000, 1_000_000, 0.8)],
)
def test_a_long_tail_keeps_its_total(items: int, total: float, steepness: float) -> None:
    true = long_tail(items, total, steepness)
    noisy = true + np.random.default_rng(0).normal(0, NOISE, items)
    found = expected_sizes(noisy, NOISE)
    # The noisy total has a standard deviation of noise * sqrt(items); floored sizes are far off.
    assert abs(found.sum() - total) < 0.1 * total + 3 * NOISE * items**0.5
    assert np.maximum(noisy, NOISE).sum() > 3 * total
    assert np.mean((found - true) ** 2) < 0.15 * NOISE**2


def test_order_is_kept_and_all_are_positive() -> None:
    noisy = np.random.default_rng(0).normal(50, 2 * NOISE, 1000)
    found = expected_sizes(noisy, NOISE)
    assert found.min() > 0
    assert (np.diff(found[np.argsort(noisy)]) >= 0).all()


def test_what_stands_out_is_left_alone() -> None:
    noisy = np.array([*np.random.default_rng(0).normal(0, NOISE, 50), 5000.0, 1e6])
    np.testing.assert_array_equal(expected_sizes(noisy, NOISE)[-2:], [5000.0, 1e6])
    # Nothing is there, and it is seen that the others are noise.
    assert expected_sizes(noisy, NOISE)[:50].max() < NOISE / 2


@pytest.mark.parametrize("sizes", [[], [3.0], [-1e9, -1e9], [1e300, -1e300], [0.0] * 5])
def test_odd_sizes(sizes: list[float]) -> None:
    found = expected_sizes(np.array(sizes), 10.0)
    assert np.isfinite(found).all()
    assert (found > 0).all()
    np.testing.assert_array_equal(
        expected_sizes(np.array(sizes), 0.0), np.maximum(np.array(sizes), 1e-3)
    )


def test_weights_over_a_long_tail_add_up() -> None:
    """The sums of weights that follow from sizes are those that were released, at any length of tail."""
    items, rng = 100_000, np.random.default_rng(1)
    true, noise = long_tail(items, 300_000), 26.0
    noisy = true + rng.normal(0, NOISE, items)
    allocation = ap.AdaptiveWeights(0.25)
    sizes = ap.PrivateCounts().for_weights(noisy, NOISE)
    weights = 0.2 * (sizes / sizes.max()) ** -0.25  # what users' weights are
    sums = weights * true + rng.normal(0, noise, items)
    scale, counts = allocation.typical_weights(sizes, expected_sizes(noisy, NOISE), sums, noise)
    assert (scale * counts).sum() == pytest.approx((weights * true).sum(), rel=0.2)
    np.testing.assert_allclose(scale, weights, rtol=0.1)


def test_sums_lost_in_noise_give_no_negative_weights() -> None:
    scale, counts = ap.AdaptiveWeights(0.25).typical_weights(
        np.full(4, 100.0), np.full(4, 3.0), np.full(4, -50.0), 100.0
    )
    # No user's weights are smaller in all than those of one who spreads its budget over all items.
    np.testing.assert_allclose(scale, 0.5)
    np.testing.assert_array_equal(counts, 3.0)
