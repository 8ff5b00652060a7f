"""Forecasts in closed form: known answers, and that they tell good settings from bad ones."""

import math

import numpy as np
import pytest

from apportion.recommend import planner
from apportion.recommend.planner import Items, Tastes, forecast, forecasts
from apportion.recommend.settings import Choice

COUNTS = np.geomspace(5, 2000, 300)
SCALE = 0.3 * COUNTS**-0.25


def error(choice: Choice, mu: float) -> float:
    return forecast(choice, Items.of(COUNTS, SCALE), mu, 0.05).error


def test_known_answer_with_intercepts_alone() -> None:
    tastes = Tastes(0.5, 1e-12, 1.0, 0.25, 0.5, 1.0, 0.5, 0.5, 69.0)
    counts, scale = np.full(10, 40.0), np.full(10, 0.5)
    found = forecast(Choice(4, 2, 0.5), Items.of(counts, scale), 0.2, 0.05, tastes=tastes)
    noise = 1 / (0.2**2 * 0.5) + 0.5 * 20.0
    left = 0.5 * noise / (noise + 20.0**2 * 0.5)
    assert found.error == pytest.approx(math.sqrt(0.25 + left))
    assert found.by_bucket == pytest.approx([found.error] * 5)


def test_known_answer_with_one_factor() -> None:
    # The first factor is all there is.
    tastes = Tastes(0.0, 1.0, 50.0, 0.5, 0.5, 3.0, 0.5, 0.5, rows=4.0)
    counts, scale = np.full(10, 40.0), np.full(10, 0.5)
    budget = 0.2**2 * 0.9 / 2 * 1.5
    noise = 1 / budget + 0.5 * 20.0
    kept = (1 - 0.5 * 0.25) * (1 - noise / (noise + 3.0 * 20.0**2))
    for rows, shown in ((None, 1.0), (100.0, 1.0), (4.0, 1.0), (1.0, (1 / 1.5) / (4 / 4.5))):
        found = forecast(Choice(1, 2, 0.0), Items.of(counts, scale), 0.2, 0.1, rows, tastes)
        assert found.error == pytest.approx(math.sqrt(0.5 + 1 - shown * kept))


def test_known_answer_of_averages() -> None:
    tastes = Tastes(0.5, 1.0, 1.0, 0.25, 0.5, 1.0, 0.5, 0.5, rows=4.0)
    counts, scale = np.full(10, 40.0), np.full(10, 0.5)
    noise = 1 / 0.2**2 + 0.5 * 20.0
    left = 0.5 * noise / (noise + 20.0**2 * 0.5)
    found = forecast(Choice(1, 0, 1.0), Items.of(counts, scale), 0.2, 0.05, tastes=tastes)
    assert found.error == pytest.approx(math.sqrt(0.25 + left + 1.0))
    assert "averages alone" in repr(found)


def test_averages_alone_unless_tastes_promise_clearly_more() -> None:
    def first(mu: float, rows: float) -> Choice:
        users = COUNTS.sum() / rows
        found = forecasts(COUNTS, SCALE, mu, 0.05, users=users, averages=True)
        [alone] = [one for one in found if one.choice.sweeps == 0]
        [best, *_] = [one for one in found if one.choice.sweeps > 0]
        wanted = alone if best.error > 0.99 * alone.error else best
        assert found[0] is wanted
        assert [one.error for one in found[2:]] == sorted(one.error for one in found[2:])
        return found[0].choice

    assert first(0.01, 69.0).sweeps == 0  # much noise
    assert first(5.0, 69.0).sweeps > 0
    assert first(5.0, 1.0).sweeps == 0  # who rates once shows no taste
    assert first(5.0, 69.0).factors >= first(5.0, 8.0).factors


def test_more_budget_and_more_users_are_better() -> None:
    choice = Choice(16, 4, 0.2)
    errors = [error(choice, mu) for mu in (0.01, 0.1, 1.0, 10.0, 100.0)]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > errors[-1] * 1.1
    more = forecast(choice, Items.of(10 * COUNTS, SCALE), 1.0, 0.05)
    assert more.error < errors[2]
    assert list(more.by_bucket) == sorted(more.by_bucket, reverse=True)


def test_small_budgets_want_few_factors_and_many_intercepts() -> None:
    poor, rich = (forecasts(COUNTS, SCALE, mu, 0.05)[0].choice for mu in (0.1, 5.0))
    assert poor.factors < rich.factors
    assert poor.intercept_share > rich.intercept_share


def test_all_combinations_are_tried_the_best_first() -> None:
    found = forecasts(COUNTS, SCALE, 1.0, 0.05, [2, 4], [1, 3], [0.1, 0.5])
    assert len({one.choice for one in found}) == 8
    assert [one.error for one in found] == sorted(one.error for one in found)


def test_some_items_stand_for_many() -> None:
    counts = np.geomspace(5, 2000, 20_000)
    choice = Choice(16, 4, 0.2)
    many = forecast(choice, Items.of(counts, 0.3 * counts**-0.25), 1.0, 0.05)
    assert many.error == pytest.approx(error(choice, 1.0), rel=1e-3)
    shuffled = np.random.default_rng(0).permutation(counts)
    again = forecast(choice, Items.of(shuffled, 0.3 * shuffled**-0.25), 1.0, 0.05)
    assert again.error == pytest.approx(many.error, rel=1e-12)


@pytest.mark.parametrize("items", [1, 2, 5])
def test_few_items(items: int) -> None:
    found = forecast(Choice(8, 2, 0.1), Items.of(COUNTS[:items], SCALE[:items]), 1e-9, 0.05)
    assert math.isfinite(found.error)
    assert len(found.by_bucket) == planner.BUCKETS


def test_assumptions_are_variances_that_leave_something_to_learn() -> None:
    tastes = planner.RATINGS
    assert min(tastes.intercept, tastes.rest) >= 0
    assert min(tastes.factors, tastes.rows) > 0
    assert 0 < tastes.pace < 1
    assert tastes.start * tastes.pace <= 1  # one sweep does not unlearn
