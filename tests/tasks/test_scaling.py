"""Intercepts and features scaled by public ranges: models for features as people give them."""

import math
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

import apportion as ap
from apportion.errors import DataError, ParameterError

RANGES = [(0.0, 120.0), (-5.0, 5.0), (1e-3, 2e-3)]
LOW, HIGH = np.array(RANGES).T


def examples(seed: int = 0, rows: int = 6000, tasks: int = 3) -> ap.TaskData:
    """Features of very different sizes, labels with a constant for each task."""
    rng = np.random.default_rng(seed)
    features = rng.uniform(LOW, HIGH, (rows, 3))
    task = np.arange(rows) % tasks
    labels = 0.5 - 0.2 * task + 0.004 * features[:, 0] - 0.02 * features[:, 1]
    labels += 0.1 * rng.normal(size=rows)
    return ap.TaskData(np.arange(rows), task, features, labels, tasks=tasks)


DATA = examples()


@pytest.mark.parametrize("ranges", [None, RANGES])
def test_without_privacy_it_is_least_squares_with_an_intercept(ranges: Any) -> None:
    model = ap.MultiTaskRidge(math.inf, intercept=True, feature_ranges=ranges).fit(DATA)
    for task in range(3):
        rows = DATA.task == task
        exact = LinearRegression().fit(DATA.features[rows], DATA.labels[rows])
        np.testing.assert_allclose(model.coef_[task], exact.coef_, rtol=1e-4)
        assert model.intercept_[task] == pytest.approx(exact.intercept_, abs=1e-6)


def test_the_penalty_is_that_of_scaled_features() -> None:
    model = ap.MultiTaskRidge(math.inf, feature_ranges=RANGES, regularization=3.0).fit(DATA)
    scaled = DATA.features / (np.maximum(np.abs(LOW), np.abs(HIGH)) * math.sqrt(3))
    for task in range(3):
        rows = DATA.task == task
        exact = Ridge(alpha=3.0, fit_intercept=False).fit(scaled[rows], DATA.labels[rows])
        np.testing.assert_allclose(
            model.predict(task, DATA.features[rows]), exact.predict(scaled[rows]), rtol=1e-6
        )
    assert not model.intercept_.any()


def test_without_privacy_logistic_loss_has_an_intercept() -> None:
    labels = np.where(DATA.labels > 0.5, 1.0, -1.0)
    data = DATA.remade(np.arange(len(DATA)), DATA.task, labels)
    model = ap.MultiTaskDescent(
        math.inf, loss="logistic", intercept=True, feature_ranges=RANGES
    ).fit(data)
    for task in range(3):
        rows = data.task == task
        scaled = (data.features[rows] - LOW) / (HIGH - LOW)
        exact = LogisticRegression(C=1e8, max_iter=1000).fit(scaled, labels[rows])
        agreed = model.predict(task, data.features[rows]) == exact.predict(scaled)
        assert agreed.mean() > 0.99


@pytest.mark.parametrize("statistics", ["shrunk", "per-task", "shared"])
def test_a_private_intercept_explains_what_a_model_through_zero_cannot(statistics: Any) -> None:
    train, test = examples(1, 40_000), examples(2)
    settings: dict[str, Any] = {"feature_ranges": RANGES, "statistics": statistics}
    scores = [
        ap.MultiTaskRidge(4.0, intercept=intercept, **settings).fit(train).score(test)
        for intercept in (False, True)
    ]
    assert scores[1] > max(scores[0], 0.5)


def test_ranges_are_public_inputs_of_the_report() -> None:
    report = ap.MultiTaskRidge(feature_ranges=np.array(RANGES), intercept=True).fit(DATA).privacy
    assert report.public_inputs["feature_ranges"] == [list(each) for each in RANGES]
    assert report.public_inputs["intercept"] is True
    assert "2 feature_bound^2" in str(report)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"feature_ranges": [(0, 1)]}, "1 ranges, and the data has 3 features"),
        ({"feature_ranges": [(0, 1), (1, 1), (0, 1)]}, "range of feature 1 must go up"),
        ({"feature_ranges": [(0, 1), (2, 1), (0, 1)]}, "range of feature 1 must go up"),
        ({"feature_ranges": [0, 1, 2]}, "must be a list of"),
        ({"feature_ranges": [(0, math.inf)] * 3}, "must be a list of"),
        ({"feature_ranges": "wide"}, "must be a list of"),
        ({"intercept": "yes"}, "intercept must be True or False"),
    ],
)
def test_what_is_refused(settings: dict[str, Any], message: str) -> None:
    for kind in (ap.MultiTaskRidge, ap.MultiTaskDescent):
        with pytest.raises(ParameterError, match=message):
            kind(**settings).fit(DATA)


def test_standard_errors_are_about_the_errors() -> None:
    data = ap.simulate_tasks(users=3000, tasks=40, tasks_per_user=10, label_noise=0.1)
    exact = ap.MultiTaskRidge(math.inf).fit(data).coef_
    for statistics, epsilon in (
        ("shrunk", 1.0),
        ("shrunk", 5.0),
        ("per-task", 1.0),
        ("shared", 1.0),
    ):
        settings: dict[str, Any] = {"statistics": statistics, "intercept": False}
        errors, said = [], []
        for seed in range(4):
            model = ap.MultiTaskRidge(epsilon, noise_seed=seed, **settings).fit(data)
            assert model.released.errors is not None
            errors.append(np.mean((model.coef_ - exact) ** 2))
            said.append(np.mean(model.released.errors**2))
        assert 0.7 < math.sqrt(np.mean(said) / np.mean(errors)) < 1.4, (statistics, epsilon)


def test_the_table_shows_released_values_alone() -> None:
    model = ap.MultiTaskRidge(intercept=True, feature_ranges=RANGES).fit(DATA)
    table = model.table()
    names = ["task", "users", "noise", "standard_error", "intercept", "intercept_error"]
    assert table.columns == names
    assert table["users"].to_list() != [2000.0] * 3  # not the exact counts
    assert (table["standard_error"] > 0).all()
    small = examples(3, 600)
    worse = ap.MultiTaskRidge(intercept=True, feature_ranges=RANGES).fit(small).table()
    assert min(worse["noise"].to_list()) > 2 * max(table["noise"].to_list())
    plain = ap.MultiTaskDescent(steps=3, allocation=ap.UniformWeights()).fit(DATA).table()
    assert plain.columns == ["task"]


def test_rows_in_spark_have_no_features_to_scale() -> None:
    class Elsewhere(ap.TaskData):
        def __init__(self) -> None:
            self.task_ids, self.catalog_is_public = np.arange(3), True

        @property
        def dimension(self) -> int:
            return 3

        def ordered(self) -> "Elsewhere":
            return self

        def contents(self) -> list[Any]:
            return []

        def __getattr__(self, name: str) -> Any:
            raise DataError("the rows of these examples lie in Spark")

    with pytest.raises(DataError, match="lie in Spark"):
        ap.MultiTaskRidge(intercept=True).fit(Elsewhere())
