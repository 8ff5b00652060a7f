"""Forecasts for tasks: what a training on data of that shape then shows."""

import math
from typing import Any

import pytest

import apportion as ap
from apportion.errors import ParameterError

SHAPE: dict[str, Any] = {"users": 4000, "tasks": 30, "features": 4, "tasks_per_user": 6}


def test_it_is_the_score_of_such_a_training() -> None:
    found = ap.MultiTaskRidge(2.0).forecast(**SHAPE)
    data = ap.simulate_tasks(
        users=4000, tasks=30, dimension=4, tasks_per_user=6, label_noise=0.1, seed=5
    )
    train, test = data.split(test=0.3)
    assert ap.MultiTaskRidge(2.0).fit(train).score(test) == pytest.approx(found.private, abs=0.1)
    exact = ap.MultiTaskRidge(math.inf).fit(train).score(test)
    assert exact == pytest.approx(found.exact, abs=0.05)
    assert [name for name, *_ in found.rows][::4] == ["rarest fifth", "top fifth"]
    assert found.rows[0][1] < found.rows[4][1]


def test_more_budget_and_more_users_are_worth_more() -> None:
    few = ap.MultiTaskRidge(0.5).forecast(**SHAPE).private
    assert few < ap.MultiTaskRidge(4.0).forecast(**SHAPE).private
    assert few < ap.MultiTaskRidge(0.5).forecast(**{**SHAPE, "users": 20_000}).private


@pytest.mark.parametrize("loss", ["logistic", "poisson", "absolute"])
def test_any_loss(loss: str) -> None:
    found = ap.MultiTaskDescent(5.0, loss=loss, label_bound=8.0, steps=20).forecast(**SHAPE)
    assert 0 < found.private < found.exact + 0.01 < 1.01


def test_it_scales_with_bounds_and_ranges() -> None:
    plain = ap.MultiTaskRidge(2.0).forecast(**SHAPE)
    scaled = ap.MultiTaskRidge(2.0, feature_bound=50.0, label_bound=1000.0).forecast(**SHAPE)
    assert scaled.private == pytest.approx(plain.private, abs=1e-3)
    ranges = [(0.0, 120.0)] * 4
    found = ap.MultiTaskRidge(2.0, feature_ranges=ranges, intercept=True).forecast(**SHAPE)
    assert 0 < found.private < found.exact == pytest.approx(plain.exact, abs=0.02)


def test_it_is_shown_in_terminals_and_notebooks() -> None:
    found = ap.MultiTaskRidge(1.0).forecast(**SHAPE)
    assert "epsilon = 1 at delta = 1e-05" in str(found)
    assert "NOT PRIVATE" not in str(found)
    assert "rarest fifth" in found._repr_html_()
    assert repr(found).startswith("TaskForecast(0.")
    with pytest.raises(ParameterError, match="tasks_per_user"):
        ap.MultiTaskRidge().forecast(**{**SHAPE, "tasks_per_user": 31})


def test_of_classes() -> None:
    shape = {"users": 2000, "classes": 12, "features": 5, "classes_per_user": 3}
    found = {
        epsilon: ap.MultiTaskClassifier(epsilon, steps=20).forecast(**shape)
        for epsilon in (0.3, 10.0)
    }
    assert 1 / 12 < found[0.3].private < found[10.0].private <= found[10.0].exact <= 1
    ranges = [(0.0, 120.0)] * 5
    scaled = ap.MultiTaskClassifier(10.0, steps=20, feature_ranges=ranges).forecast(**shape)
    assert scaled.private > 0.5
