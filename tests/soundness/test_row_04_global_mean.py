"""Row 4: a mean for all users is released with its true sensitivity, or not at all."""

from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.recommend.recommender import UserStep
from tests.soundness.harness import check, notices
from tests.soundness.test_recommender import RANGE, neighbours, training, worst_users

TOP = worst_users()["everything at the top"]


def test_the_mean_is_a_release_with_the_sensitivity_of_one_user() -> None:
    model = training(centring="global")(neighbours(TOP)[0])
    [record] = [record for record in model.privacy.ledger if record.name == "mean"]
    assert record.sensitivity == pytest.approx(np.sqrt(2))
    [change] = [
        change
        for change in check(training(centring="global"), *neighbours(TOP))
        if change.name == "mean"
    ]
    assert change.ratio > 0.99999  # reached, and not passed, by whoever rates everything at the top


def test_own_means_are_no_release() -> None:
    model = training(centring="user")(neighbours(TOP)[0])
    assert "mean" not in [record.name for record in model.privacy.ledger]


def test_the_range_is_a_public_input() -> None:
    model = training(centring="global")(neighbours(TOP)[0])
    assert model.privacy.public_inputs["rating_range"] == RANGE
    with pytest.raises(ap.DataError, match="rating_range"):
        training(centring="global", label_bound=1.0)(neighbours(TOP, rating_range=None)[0])


def test_a_sum_over_ratings_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    # As in the released code: a user of k ratings adds k of them, at the sensitivity of few.
    def sums(self: UserStep, start: Any, rating: Any) -> Any:
        return np.add.reduceat(np.append(rating.astype(float), 0.0), start[:-1])

    monkeypatch.setattr(UserStep, "means", sums)
    monkeypatch.setattr(np, "clip", lambda values, low, high: values)
    assert notices(training(centring="global"), *neighbours(TOP))


def test_everybody_s_exact_mean_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def everybody(self: UserStep, start: Any, rating: Any) -> Any:
        return np.full(len(start) - 1, rating.mean())

    monkeypatch.setattr(UserStep, "means", everybody)
    assert notices(training(), *neighbours(TOP))
