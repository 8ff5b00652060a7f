"""Row 4: a mean for all users is released with its true sensitivity, or not at all."""

from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.data.centering import Centering
from apportion.engine.queries import Means
from apportion.privacy import truncated
from tests.soundness.harness import check, notices, plant
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


def test_own_means_are_no_release() -> None:
    model = training(offsets__center="user")(neighbors(TOP)[0])
    assert "mean" not in [record.name for record in model.privacy.ledger]


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
    real = Centering.centers

    def far_off(self: Centering, start: Any, rating: Any) -> Any:
        return real(self, start, rating) * 3.0

    monkeypatch.setattr(Centering, "centers", far_off)
    assert not notices(training(**GLOBAL), *neighbors(TOP))
    monkeypatch.setattr(np, "clip", lambda values, low, high: values)
    assert notices(training(**GLOBAL), *neighbors(TOP))


def test_everybody_s_exact_mean_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def everybody(self: Centering, start: Any, rating: Any) -> Any:
        return np.full(len(start) - 1, rating.mean())

    monkeypatch.setattr(Centering, "centers", everybody)
    assert notices(training(), *neighbors(TOP))
