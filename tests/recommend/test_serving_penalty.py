"""How far users' vectors move predictions: what a release of gains says, and what is done with it."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.data.centering import Centering
from apportion.engine import ReferenceEngine, queries
from apportion.engine.gains import fold_in_gains
from apportion.engine.queries import UserSystems
from apportion.recommend.groups import LARGEST
from apportion.recommend.serving import AVERAGES, best, penalties
from apportion.twins.users import solve_users
from tests.recommend.test_factorization import rmse

CANDIDATES = [1.0, 3.0, 10.0]


def solve(*systems: Any) -> Any:
    return solve_users(*systems)


def test_what_is_not_clear_leaves_averages_alone() -> None:
    assert best(CANDIDATES, np.array([-5.0, 1.9, 0.5]), noise=1.0) == LARGEST
    assert best(CANDIDATES, np.full(3, np.nan), noise=1.0) == LARGEST


def test_the_next_larger_penalty_is_taken() -> None:
    assert best(CANDIDATES, np.array([9.0, 5.0, 1.0]), noise=1.0) == 3.0
    assert best(CANDIDATES, np.array([1.0, 5.0, 9.0]), noise=1.0) == 10.0


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4])
def test_penalties_are_on_the_scale_of_the_items(scale: float) -> None:
    items = np.random.default_rng(0).normal(size=(30, 4))
    found = penalties(scale * items, np.ones(30))
    assert found == sorted(found)
    np.testing.assert_allclose(found, scale**2 * np.array(penalties(items, np.ones(30))))


def test_penalties_of_items_that_are_zero_or_beyond_numbers_are_numbers() -> None:
    for items in (np.zeros((3, 2)), np.full((3, 2), 1e200), np.full((3, 2), np.nan)):
        assert all(0 < each <= LARGEST for each in penalties(items, np.ones(3)))


def test_a_user_s_gains_are_what_halves_say_of_each_other() -> None:
    # Ratings are exactly four times the one coordinate of the items: without a penalty nothing is left.
    items = np.array([[1.0], [-1.0], [0.5], [2.0]])
    rows = ap.Interactions([0] * 4, range(4), 4 * items[:, 0], items=4, rating_range=(-9, 9)).rows()
    query = queries.FoldInGains(
        items, (UserSystems(1e-12, 0.0), UserSystems(1e12, 0.0)), Centering("none"), None, 2.0
    )
    [found] = fold_in_gains(solve, rows, query)
    np.testing.assert_allclose(
        found, [16 * np.sum(items**2) / (2.0 * math.sqrt(4)), 0.0], atol=1e-6
    )


def test_intercepts_are_subtracted_and_centers_made_of_halves() -> None:
    items = np.zeros((4, 1))
    rows = ap.Interactions([0] * 4, range(4), [1.0, 2, 3, 4], items=4, rating_range=(1, 5)).rows()
    query = queries.FoldInGains(items, (UserSystems(1.0, 0.0),), Centering("user"), None, 1.0)
    for intercepts in (None, np.arange(4.0)):
        found = fold_in_gains(solve, rows, replace(query, intercepts=intercepts))
        np.testing.assert_array_equal(found, 0.0)


def test_users_of_one_rating_or_none_add_nothing() -> None:
    rows = ap.Interactions([0, 1, 1], [0, 0, 1], [5.0, 1, 2], items=3, rating_range=(1, 5)).rows()
    query = queries.FoldInGains(
        np.ones((3, 1)), (UserSystems(0.1, 0.0),), Centering("user", 3.0, 1.0), None, 1.0
    )
    found = fold_in_gains(solve, rows, query)
    assert found[0, 0] == 0.0
    assert found[1, 0] != 0.0
    session = ReferenceEngine().load(rows)
    [(_, (units,))] = session.sums(query, (2.0**-20,))
    assert abs(units[0, 0]) * 2.0**-20 <= 0.5


def test_where_there_are_no_tastes_the_model_says_so() -> None:
    rng = np.random.default_rng(0)
    user, item = np.repeat(np.arange(400), 5), rng.integers(0, 30, 2000)
    data = ap.Interactions(user, item, rng.integers(1, 6, 2000), items=30, rating_range=(1, 5))
    model = ap.MatrixFactorization(4, 2, epsilon=1.0, noise_seed=0).fit(data)
    assert AVERAGES in model.privacy.warnings
    assert model.privacy.chosen["serving_regularization"] == LARGEST
    assert model.released.intercepts is not None
    averages = model.fold_in({3: 5.0})
    np.testing.assert_allclose(averages, 0.0, atol=1e-6)


def test_where_there_are_they_help() -> None:
    data = ap.simulate_interactions(users=3000, items=40, rows=60_000)
    train, test = data.split((0.8, 0.2))
    model = ap.MatrixFactorization(8, 3, epsilon=20.0, noise_seed=0).fit(train)
    assert AVERAGES not in model.privacy.warnings
    chosen = rmse(model, train, test)
    fold_in = model.released.fold_in
    model.released_ = replace(model.released, fold_in=replace(fold_in, regularization=LARGEST))
    assert chosen < 0.97 * rmse(model, train, test)
