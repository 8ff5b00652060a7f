"""Items' intercepts: what is released, and what is made of it."""

import math
from typing import Any
from unittest import mock

import numpy as np
import pytest

import apportion as ap
from apportion.audit.observer import observed
from apportion.data.centering import Centering
from apportion.engine import queries
from apportion.privacy import UserBound, UserWeights
from apportion.privacy.bounds import ROUNDING
from apportion.recommend import intercepts, offsets
from apportion.recommend.intercepts import estimate


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

    def test_the_noisier_the_release_the_more_they_are_what_is_expected_anyway(self) -> None:
        counts, scale = np.array([4.0, 100.0]), np.array([0.5, 0.1])
        sums = scale * counts * [-0.5, 0.7]
        sizes = [np.abs(estimate(sums, noise, scale, counts)) for noise in (0.0, 3.0, 30.0, 1e6)]
        assert (np.diff(sizes, axis=0) < 0).all()
        assert sizes[-1].max() < 1e-6

    def test_with_nothing_to_go_by_they_are_drawn_as_items_usually_differ(self) -> None:
        # Noise of 2 beside masses of 1: of the variance to expect, .1, nothing but noise is known.
        counts = np.full(5, 10.0)
        found = estimate(np.array([2.0, -2.0, 0.0, 1.0, -1.0]), 2.0, np.full(5, 0.1), counts, 0.0)
        assert found[0] == pytest.approx(2 * 0.1 / (4 + 0.1), rel=0.2)

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
        assert 0.05 < found < 0.3  # ten ratings that scatter

    def test_equal_counts(self) -> None:
        # The line has no slope then: what is common is the mean.
        sums = np.random.default_rng(0).normal(50.0, 30.0, 2000)
        found = estimate(sums, 30.0, np.full(2000, 1.0), np.full(2000, 100.0))
        np.testing.assert_allclose(found, 0.5, atol=0.1)
        assert np.mean(found) == pytest.approx(np.mean(sums) / 100, rel=0.02)

    def test_nobody_is_far_from_zero(self) -> None:
        counts = np.array([5.0, 50.0, 5e6])
        found = estimate(np.array([-500.0, 0.0, 5e8]), 1.0, np.ones(3), counts)
        assert found[[0, 2]].tolist() == [-2.0, 2.0]


class Given(ap.Allocation):
    """Weights as they are given, in the order of the pairs."""

    def __init__(self, values: Any) -> None:
        self._values = np.array(values) * (1 - 1e-9)

    def weigh(self, graph: Any, sizes: Any, key: int) -> UserWeights:
        del sizes, key
        return UserWeights(graph.user, graph.task, self._values)


def summed(
    ratings: Any, bound: float, engine: ap.Engine, values: Any = (0.6, 0.8, 1.0)
) -> tuple[Any, float]:
    """Of two users and three items: both users have the second item. Sums, and their grid."""
    data = ap.Interactions([0, 0, 1], [0, 1, 1], np.array(ratings), items=3)
    session = engine.load(data.rows())
    session.weigh(Given(values).rule(3, None, 0, lambda: data.graph))
    session.center(Centering())
    grid = UserBound(bound, "for example").grid(1.0)
    [(_, (units,))] = session.sums(queries.Intercepts(bound), (grid,))
    return units[:, 0], grid


@pytest.mark.parametrize("engine", [ap.CpuEngine(), ap.ReferenceEngine()], ids=repr)
class TestSums:
    def test_what_is_summed(self, engine: ap.Engine) -> None:
        # The first user's part is (0.6 * 5, 0.8 * 5), of norm 5: scaled down to 2.
        units, grid = summed([5.0, 5.0, -1.5], 2.0, engine)
        np.testing.assert_allclose(units * grid, [0.6 * 2, 0.8 * 2 - 1.5, 0.0], atol=1e-6)

    @pytest.mark.parametrize("unit", [2.0**-100, 0.125, 32.0, 2.0**100])
    def test_they_do_not_depend_on_units(self, engine: ap.Engine, unit: float) -> None:
        ratings = np.array([1.0, -1.0, 0.5])
        one, _ = summed(ratings, 0.7, engine)
        other, _ = summed(unit * ratings, unit * 0.7, engine)
        np.testing.assert_array_equal(other, one)

    def test_without_privacy_nothing_is_scaled(self, engine: ap.Engine) -> None:
        data = ap.Interactions([0, 0, 1], [0, 1, 1], [100.0, 3.0, 5.0], items=3)
        session = engine.load(data.rows())
        session.center(Centering())
        [(_, (sums,))] = session.exact_sums(queries.Intercepts(0.1))
        np.testing.assert_array_equal(sums[:, 0], [100.0, 8.0, 0.0])


DATA = ap.simulate_interactions(users=80, items=6, rows=300)


class TestRelease:
    def trained(self, **settings: Any) -> ap.MatrixFactorization:
        given = {"epsilon": 5.0, "offsets": ap.Offsets(intercept_share=0.5), **settings}
        return ap.MatrixFactorization(2, 1, **given, noise_seed=1).fit(DATA)

    def test_it_is_recorded(self) -> None:
        model = self.trained(bounds=ap.Bounds(label=0.7))
        [record] = [record for record in model.privacy.ledger if record.name == "intercepts"]
        assert record.shape == (6, 1)
        assert record.sensitivity == 0.7 * (1 + ROUNDING)
        assert record.noise_scale == pytest.approx(record.sensitivity / record.mu)
        assert "scaled down to the label bound" in record.because

    def test_what_is_made_of_it(self) -> None:
        # Sums in units of the label bound, with their noise, and back again.
        seen: dict[str, Any] = {}

        def spying(sums: Any, noise: float, scale: Any, counts: Any, scatter: float) -> Any:
            assert 0 < scatter <= 1
            seen.update(sums=sums, noise=noise, scale=scale, counts=counts)
            return np.linspace(0.1, 0.6, 6)

        with observed() as released, mock.patch.object(intercepts, "estimate", spying):
            model = self.trained(bounds=ap.Bounds(label=0.5))
        [record] = [record for record in model.privacy.ledger if record.name == "intercepts"]
        np.testing.assert_array_equal(seen["sums"], released.rows("intercepts")[:, 0] / 0.5)
        assert seen["noise"] == pytest.approx(record.noise_scale / 0.5)
        assert model.released.intercepts is not None
        np.testing.assert_allclose(model.released.intercepts, 0.5 * np.linspace(0.1, 0.6, 6), 1e-6)

    def test_without_privacy_they_are_estimated_from_exact_sums(self) -> None:
        model = self.trained(epsilon=math.inf, regularization=1e9)
        rating = np.asarray(DATA.by_user.rating, dtype=float)
        user, item = DATA.user_of_row, DATA.by_user.other
        drawn, more = model.released.fold_in.mean, model.released.fold_in.shrinkage
        labels = (
            rating - ((np.bincount(user, rating) + more * drawn) / (np.bincount(user) + more))[user]
        )
        counts = np.bincount(item, minlength=6).astype(float)
        sums = np.bincount(item, labels, minlength=6)
        within = offsets.compute(
            ap.MatrixFactorization(epsilon=math.inf)._settings(DATA),
            ap.ReferenceEngine().load(DATA.rows()),
        ).within
        assert within is not None
        # The label bound is one.
        expected = estimate(sums, 0.0, np.ones(6), counts, min(within, 1.0))
        np.testing.assert_allclose(model.released.intercepts, expected, rtol=1e-5)
