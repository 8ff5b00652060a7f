"""Without privacy the settings of a model of events follow from rows that are kept out."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.recommend.exact_events import FEW
from apportion.recommend.metrics import ranking_metrics
from apportion.recommend.verify import verify


def communities(users: int, items: int, own: float, seed: int = 0) -> ap.Interactions:
    """Users of one of six communities, who choose among its items with this probability, else anything."""
    rng = np.random.default_rng(seed)
    of_user, of_item = rng.integers(6, size=users), np.arange(items) % 6
    chance = np.where(of_user[:, None] == of_item, own, 1 - own) * np.arange(1, items + 1) ** -0.7
    chance *= 20 / chance.sum(axis=1, keepdims=True)
    user, item = np.nonzero(rng.random((users, items)) < chance)
    return ap.Interactions(user, item, items=items)


def recall(model: Any, held: ap.data.HeldOut) -> float:
    return float(ranking_metrics(model, held, np.ones(240), 20).recall)


def fit(data: ap.Interactions, **settings: Any) -> ap.MatrixFactorization:
    return ap.MatrixFactorization(feedback="implicit", epsilon=math.inf, **settings).fit(data)


TRAIN, HELD = communities(1_500, 240, 0.9).hold_out_users(150)


def test_what_is_chosen_finds_what_people_like(tmp_path: Path) -> None:
    chosen = fit(TRAIN)
    # No worse than any of several settings by hand, by a margin of chance.
    by_hand = [
        fit(
            TRAIN,
            factors=16,
            regularization=ap.Regularization(each, each, unobserved_weight=weight),
        )
        for each in (0.5, 5.0)
        for weight in (0.05, 0.5)
    ]
    assert recall(chosen, HELD) > max(recall(model, HELD) for model in by_hand) - 0.02
    assert chosen.items.shape[1] >= FEW
    chosen.save(tmp_path / "model")
    assert [check for check in verify(tmp_path / "model") if not check.passed] == []


def test_the_same_data_and_seed_give_the_same_model() -> None:
    np.testing.assert_array_equal(fit(TRAIN).items, fit(TRAIN).items)


def test_what_is_given_is_kept() -> None:
    assert fit(TRAIN, factors=5).items.shape[1] == 5
    given = fit(TRAIN, regularization=ap.Regularization(2.0, 3.0, unobserved_weight=0.3))
    settings = given.released.training["settings"]
    assert (settings["regularization"], settings["user_regularization"]) == (2.0, 3.0)
    assert given.released.fold_in.unobserved_weight == 0.3


def test_where_there_are_no_tastes_the_model_is_popularity() -> None:
    # Everybody draws from the same list: vectors of users can only mislead.
    rng = np.random.default_rng(1)
    chance = np.minimum(np.arange(1.0, 241) ** -1.0, 0.5)
    user, item = np.nonzero(rng.random((400, 240)) < chance)
    model = fit(ap.Interactions(user, item, items=240))
    assert model.released.tastes == "popularity alone"
    assert "popularity alone" in repr(model)
    assert model.privacy.epsilon == math.inf
    order, _ = model.recommend([], k=3)
    assert set(order.tolist()) <= set(range(8))


@pytest.mark.parametrize("rows", [1, 3])
def test_few_rows(rows: int) -> None:
    model = fit(ap.Interactions(np.arange(rows), np.arange(rows), items=4))
    assert np.isfinite(model.items).all()
