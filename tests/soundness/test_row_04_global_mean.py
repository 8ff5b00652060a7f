"""Row 4: a mean for all users is released with its true sensitivity, or not at all."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.data.centering import Centering, rating_moments
from apportion.engine.queries import Means, RatingMoments
from apportion.privacy import scale_down, truncated
from apportion.privacy.bounds import row_norms
from apportion.recommend import offsets
from tests.soundness.harness import astray, check, notices, plant
from tests.soundness.test_recommender import RANGE, neighbors, training, worst_users

GLOBAL = {"offsets__center": "global"}
TOP = worst_users()["everything at the top"]


def test_the_mean_is_a_release_with_the_sensitivity_of_one_user() -> None:
    model = training(**GLOBAL)(neighbors(TOP)[0])
    [record] = [record for record in model.privacy.ledger if record.name == "mean"]
    assert record.sensitivity == pytest.approx(np.sqrt(2))
    [change] = [
        change for change in check(training(**GLOBAL), *neighbors(TOP)) if change.name == "mean"
    ]
    assert change.ratio > 0.99999  # reached, and not passed, by whoever rates everything at the top


def test_of_own_means_only_moments_of_all_users_are_released() -> None:
    model = training(offsets__center="user")(neighbors(TOP)[0])
    assert "mean" not in [record.name for record in model.privacy.ledger]
    [record] = [record for record in model.privacy.ledger if record.name == "rating moments"]
    assert record.sensitivity == pytest.approx(2.0)
    assert record.shape == (1, 5)


@pytest.mark.parametrize("name", worst_users())
def test_no_user_moves_the_moments_by_more_than_their_sensitivity(name: str) -> None:
    changes = check(training(), *neighbors(worst_users()[name]))
    [change] = [change for change in changes if change.name == "rating moments"]
    assert change.ratio <= 1
    if name == "everything at the top":
        assert change.ratio > 0.99999


def test_the_largest_part_of_any_two_to_nine_ratings_is_two() -> None:
    # The corners, and whatever else the range has: the bound is reached and never passed before rounding.
    rng = np.random.default_rng(0)
    largest = 0.0
    for n in range(1, 10):
        choices = [np.ones(n), -np.ones(n), np.where(np.arange(n) % 2, 1.0, -1.0)]
        choices += list(rng.choice([-1.0, 0.0, 1.0], (50, n))) + list(rng.uniform(-1, 1, (50, n)))
        for ratings in choices:
            rows = ap.Interactions(np.zeros(n, int), np.arange(n), ratings, items=n).rows()
            [part] = rating_moments(rows.start, rows.label, 0.0, 1.0)
            largest = max(largest, float(part @ part))
    assert largest == pytest.approx(4.0)
    assert largest <= 4.0 + 1e-12


def test_moments_of_ratings_instead_of_users_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(honest: Any) -> Any:
        def rows_not_users(self: Any, query: RatingMoments, grid: float) -> Any:
            scaled = (self._given.label.astype(float) - query.middle) / query.half
            ones = np.ones(len(scaled))
            parts = np.stack([ones, scaled, ones, scaled**2, 0.5 * (1 - scaled**2)], axis=1)
            return truncated(parts, grid).sum(axis=0, keepdims=True)

        return rows_not_users

    plant(monkeypatch, "_rating_moments", fault)
    assert notices(training(), *neighbors(TOP))


def test_variances_that_are_not_halved_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    # A user with two ratings at both ends has a sample variance of 2: with its other parts a norm of sqrt(7).
    def fault(honest: Any) -> Any:
        def doubled(self: Any, query: RatingMoments, grid: float) -> Any:
            given = self._given
            parts = rating_moments(given.start, given.label, query.middle, query.half)
            parts *= [1, 1, 1, 1, 2]
            if scaled:
                parts *= scale_down(row_norms(parts), 2.0)[:, None]
            return truncated(parts, grid).sum(axis=0, keepdims=True)

        return doubled

    two = (np.array([0, 1]), np.array([1.0, 5.0]))
    plant(monkeypatch, "_rating_moments", fault)
    scaled = True
    assert not notices(training(), *neighbors(two))  # scaled down, whatever they are
    scaled = False
    assert notices(training(), *neighbors(two))


def test_exact_moments_are_caught() -> None:
    def unreleased(run: Any, plan: Any) -> Any:
        noisy = real(run, plan)
        return replace(noisy, mean=offsets.compute(run.settings, run.session).mean)

    real = offsets.release
    fit = astray(training(), offsets, "release", lambda data: unreleased)
    assert notices(fit, *neighbors(TOP))


def test_the_range_is_a_public_input() -> None:
    model = training(**GLOBAL)(neighbors(TOP)[0])
    assert model.privacy.public_inputs["rating_range"] == RANGE
    with pytest.raises(ap.DataError, match="rating_range"):
        training(**GLOBAL, bounds__label=1.0)(neighbors(TOP, rating_range=None)[0])


def test_a_sum_over_ratings_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    # As in the released code: a user of k ratings adds k of them, at the sensitivity of few.
    def fault(honest: Any) -> Any:
        def rows_not_means(self: Any, query: Means, grid: float) -> Any:
            scaled = (self._given.label.astype(float) - query.middle) / query.half
            return truncated(np.array([[scaled.sum(), float(len(scaled))]]), grid)

        return rows_not_means

    plant(monkeypatch, "_means", fault)
    assert notices(training(**GLOBAL), *neighbors(TOP))


def test_means_beyond_their_range_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    # Ratings are within the public range; if they are not, means are clipped all the same.
    def far_off(honest: Any) -> Any:
        def shifted(self: Any, query: Means, grid: float) -> Any:
            query = replace(query, middle=query.middle - 2 * query.half)
            if clipped:
                return honest(self, query, grid)
            centers = Centering("user", query.middle).centers(self._given.start, self._given.label)
            parts = np.stack([(centers - query.middle) / query.half, np.ones(len(centers))], axis=1)
            return truncated(parts, grid).sum(axis=0, keepdims=True)

        return shifted

    plant(monkeypatch, "_means", far_off)
    clipped = True
    assert not notices(training(**GLOBAL), *neighbors(TOP))
    clipped = False
    assert notices(training(**GLOBAL), *neighbors(TOP))


def test_everybody_s_exact_mean_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(honest: Any) -> Any:
        def everybody(self: Any) -> Any:
            return self._chosen.label.astype(float) - self._given.label.mean()

        return everybody

    plant(monkeypatch, "_centered", fault)
    assert notices(training(), *neighbors(TOP))
