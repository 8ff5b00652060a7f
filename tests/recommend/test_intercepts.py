"""Items' intercepts: what is released, and what is made of it."""

import math
from typing import Any

import numpy as np
import pytest

from apportion.privacy import Curator, NoiseSource, PrivacyTarget, UserWeights
from apportion.privacy.bounds import ROUNDING
from apportion.recommend.intercepts import estimate, release_intercepts
from tests.soundness.harness import Tape, recording


def drawn(
    items: int, noise: float, around: float, seed: int = 0, scale: float = 0.2
) -> tuple[Any, Any, Any, Any]:
    """True intercepts about a line, their line, noisy sums, and counts."""
    rng = np.random.default_rng(seed)
    counts = np.round(rng.pareto(1.0, items) * 20 + 1)
    line = -0.4 + 0.15 * np.log(counts)
    truth = line + around * rng.normal(size=items)
    mass = scale * counts
    deviation = np.sqrt(noise**2 + scale * mass)
    return truth, line, mass * truth + deviation * rng.normal(size=items), counts


class TestEstimate:
    def test_many_ratings_without_noise_give_their_means(self) -> None:
        means = np.array([-1.5, -0.2, 0.0, 0.3, 0.9, 1.9])
        counts, scale = np.array([1e9, 3e9, 2e9, 1e10, 5e9, 1e9]), np.full(6, 0.1)
        found = estimate(scale * counts * means, 0.0, scale, counts)
        np.testing.assert_allclose(found, means, atol=1e-6)

    def test_nothing_but_noise_gives_the_line(self) -> None:
        truth, line, sums, counts = drawn(20_000, noise=20.0, around=0.0)
        found = estimate(sums, 20.0, np.full(len(counts), 0.2), counts)
        np.testing.assert_array_equal(truth, line)
        # The sums alone are off by 20 / (0.2 * 1) = 100 where there is one user.
        assert np.sqrt(np.mean((found - line) ** 2)) < 0.1

    def test_rare_items_are_drawn_to_the_line_and_frequent_ones_hardly(self) -> None:
        truth, line, sums, counts = drawn(4000, noise=5.0, around=0.3)
        scale = np.full(len(counts), 0.2)
        found = estimate(sums, 5.0, scale, counts)
        raw = sums / (scale * counts)
        kept = (found - line) / (raw - line)
        assert np.median(np.abs(kept[counts < 5])) < 0.1
        assert np.median(np.abs(kept[counts > 1000])) > 0.9
        errors = [np.mean((each - truth) ** 2) for each in (found, line, np.clip(raw, -2, 2))]
        assert errors[0] < 0.95 * min(errors[1:])

    def test_it_is_the_posterior_mean(self) -> None:
        # Not much worse than somebody who knows the line and the variance around it.
        truth, line, sums, counts = drawn(4000, noise=5.0, around=0.3, seed=1)
        scale = np.full(len(counts), 0.2)
        mass = scale * counts
        precision = mass**2 / (25.0 + scale * mass)
        best = line + (sums / mass - line) * precision / (precision + 1 / 0.3**2)
        errors = [
            np.mean((each - truth) ** 2) for each in (estimate(sums, 5.0, scale, counts), best)
        ]
        assert errors[0] < 1.2 * errors[1]

    @pytest.mark.parametrize("scale", [1.0, 0.25])
    def test_the_scatter_of_labels_counts_as_noise(self, scale: float) -> None:
        # No release's noise at all: what one rating says is still halfway between it and nothing.
        counts = np.ones(4000)
        truth = np.random.default_rng(0).normal(size=4000)
        rating = truth + np.random.default_rng(1).normal(size=4000)
        found = estimate(scale * rating, 0.0, scale * counts, counts)
        inside = np.abs(found) < 1.9
        slope = np.polyfit(rating[inside], found[inside], 1)[0]
        assert slope == pytest.approx(0.5, abs=0.05)

    def test_the_line_ends_where_intercepts_do(self) -> None:
        # From frequent items, -1 to 1, it would go on to -5 for an item of one user, who likes it.
        counts = np.append(np.geomspace(1e4, 1e6, 50), 1.0)
        means = np.linspace(-1, 1, 50) + 0.9 * np.where(np.arange(50) % 2, 1, -1)
        sums = np.append(counts[:-1] * means, 2.0)
        found = estimate(sums, 1.0, np.ones(51), counts)
        assert -1.5 < found[-1] < 0

    def test_known_answer(self) -> None:
        # Two items lie on their line exactly: nothing is left to shrink.
        counts, scale = np.array([4.0, 100.0]), np.array([0.5, 0.1])
        found = estimate(scale * counts * [-0.5, 0.7], 3.0, scale, counts)
        np.testing.assert_allclose(found, [-0.5, 0.7])

    @pytest.mark.parametrize("noise", [0.0, 1.0, 1e6])
    @pytest.mark.parametrize("counts", [[7.0], [7.0, 7.0, 7.0], [1.0, 1.0], [0.5, 2.0, 1e9]])
    @pytest.mark.parametrize("size", [0.0, 1.0, -1e6, 1e100])
    def test_degenerate_sums(self, noise: float, counts: list[float], size: float) -> None:
        each = np.array(counts)
        found = estimate(np.full(len(each), size), noise, np.full(len(each), 0.3), each)
        assert np.isfinite(found).all()
        assert np.abs(found).max() <= 2
        assert (np.sign(found) == np.sign(size)).all() or len(each) > 1
        if size == 0:
            np.testing.assert_array_equal(found, 0.0)

    def test_one_item(self) -> None:
        [found] = estimate(np.array([3.0]), 0.0, np.array([1.0]), np.array([10.0]))
        assert found == pytest.approx(0.3)

    def test_equal_counts(self) -> None:
        # The line has no slope then: what is common is the mean.
        sums = np.random.default_rng(0).normal(50.0, 30.0, 2000)
        found = estimate(sums, 30.0, np.full(2000, 1.0), np.full(2000, 100.0))
        np.testing.assert_allclose(found, 0.5, atol=0.1)
        assert np.mean(found) == pytest.approx(np.mean(sums) / 100)

    def test_nobody_is_far_from_zero(self) -> None:
        counts = np.array([5.0, 50.0, 5e6])
        found = estimate(np.array([-500.0, 0.0, 5e8]), 1.0, np.ones(3), counts)
        assert found[[0, 2]].tolist() == [-2.0, 2.0]


def released(
    labels: Any, bound: float, mu: float = 1.0, values: Any = (0.6, 0.8, 1.0)
) -> tuple[Any, Curator]:
    """Of two users and three items: both users have the second item."""
    weights = UserWeights(np.array([0, 0, 1]), np.array([0, 1, 1]), np.array(values) * (1 - 1e-9))
    curator = Curator(PrivacyTarget(60.0, 1e-5), NoiseSource.from_seed(0))
    scale, counts = np.array([0.6, 0.9, 1.0]), np.array([1.0, 2.0, 1.0])
    found = release_intercepts(np.array(labels), weights, bound, scale, counts, curator, mu)
    return found, curator


class TestRelease:
    def test_it_is_recorded(self) -> None:
        _, curator = released([1.0, -1.0, 0.5], 0.7)
        [record] = curator.ledger
        assert record.name == "intercepts"
        assert record.shape == (3, 1)
        assert record.sensitivity == 0.7 * (1 + ROUNDING)
        assert record.noise_scale == pytest.approx(0.7)
        assert "scaled down to label_bound" in record.because

    def test_what_is_summed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: dict[str, Any] = {}

        def spying(sums: Any, noise: float, scale: Any, counts: Any) -> Any:
            seen.update(sums=sums, noise=noise)
            return np.array([0.1, 0.2, 0.3])

        monkeypatch.setattr("apportion.recommend.intercepts.estimate", spying)
        # The first user's part is (0.6 * 5, 0.8 * 5), of norm 5.
        tape = Tape()
        with recording(tape):
            found, _ = released([5.0, 5.0, -1.5], 2.0, mu=5.0)
        monkeypatch.undo()
        np.testing.assert_allclose(found, [0.2, 0.4, 0.6])
        assert seen["noise"] == pytest.approx(0.2)
        expected = np.array([0.6 * 2, 0.8 * 2 - 1.5, 0.0]) / 2
        np.testing.assert_allclose(tape.raw["intercepts"][0, 0][:, 0] / 2, expected, atol=1e-6)
        np.testing.assert_allclose(seen["sums"], expected, atol=6 * 0.2)

    @pytest.mark.parametrize("unit", [2.0**-100, 0.125, 32.0, 2.0**100])
    def test_it_does_not_depend_on_units(self, unit: float) -> None:
        labels = np.array([1.0, -1.0, 0.5])
        one, _ = released(labels, 0.7)
        other, _ = released(unit * labels, unit * 0.7)
        np.testing.assert_array_equal(other, unit * one)

    def test_without_privacy_nothing_is_scaled(self) -> None:
        weights = UserWeights.unbounded(np.array([0, 0, 1]), np.array([0, 1, 1]))
        curator = Curator(PrivacyTarget(math.inf, 1e-5), NoiseSource.from_seed(0))
        counts = np.array([1.0, 2.0, 1.0])
        labels = np.array([100.0, 3.0, 5.0])
        found = release_intercepts(labels, weights, 100.0, np.ones(3), counts, curator, math.inf)
        expected = 100 * estimate(np.array([1.0, 0.08, 0.0]), 0.0, np.ones(3), counts)
        np.testing.assert_allclose(found, expected)
