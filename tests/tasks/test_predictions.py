"""What predict, decision_function and score say for every loss; how long exact training takes."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.metrics import accuracy_score, d2_absolute_error_score, d2_tweedie_score, r2_score

import apportion as ap
from apportion.tasks import descent
from apportion.tasks.losses import find_loss

USERS, TASKS, D = 1500, 4, 3


def data_of(loss: str, scales: Any = (1.0, 1.0, 1.0)) -> ap.TaskData:
    rng = np.random.default_rng(0)
    user, task = np.arange(4 * USERS) % USERS, np.arange(4 * USERS) // USERS
    features = rng.normal(size=(len(user), D)) * scales
    margin = (features / scales * rng.normal(size=(TASKS, D))[task]).sum(axis=1)
    if loss == "poisson":
        labels = rng.poisson(np.exp(0.5 * margin)).astype(float)
    elif loss in ("logistic", "hinge"):
        labels = np.where(margin + rng.logistic(size=len(user)) > 0, 1.0, -1.0)
    else:
        labels = margin + rng.normal(size=len(user))
    return ap.TaskData(user, task, features, labels, tasks=TASKS)


MEASURES: dict[str, Any] = {
    "squared": r2_score,
    "huber": r2_score,
    "absolute": d2_absolute_error_score,
    "poisson": lambda label, mean: d2_tweedie_score(label, mean, power=1),
    "logistic": accuracy_score,
    "hinge": accuracy_score,
}


@pytest.mark.parametrize("loss", MEASURES)
def test_predictions_are_on_the_scale_of_labels(loss: str) -> None:
    data = data_of(loss)
    model = ap.MultiTaskDescent(math.inf, loss=loss, label_bound=20.0).fit(data)
    features = data.features[data.feature_row]
    margins = model.decision_function(data.task, features)
    np.testing.assert_allclose(margins, (features * model.coef_[data.task]).sum(axis=1))
    predicted = model.predict(data.task, features)
    np.testing.assert_array_equal(predicted, model.predict(data))
    if loss == "poisson":
        np.testing.assert_allclose(predicted, np.exp(np.minimum(margins, 3.0)))
        assert predicted.mean() == pytest.approx(data.labels.mean(), rel=0.1)
    elif loss in ("logistic", "hinge"):
        assert set(predicted) == {-1.0, 1.0}
        np.testing.assert_array_equal(predicted > 0, margins >= 0)
    else:
        np.testing.assert_array_equal(predicted, margins)
    assert model.score(data) == pytest.approx(MEASURES[loss](data.labels, predicted))
    assert model.score(data) > 0.3


def test_a_score_needs_something_to_explain() -> None:
    data = data_of("poisson")
    model = ap.MultiTaskDescent(math.inf, loss="poisson").fit(data)
    equal = ap.TaskData([1, 2], [0, 1], np.ones((2, D)), [2.0, 2.0], tasks=TASKS)
    with pytest.raises(ap.DataError, match="different labels"):
        model.score(equal)
    negative = ap.TaskData([1, 2], [0, 1], np.ones((2, D)), [2.0, -1.0], tasks=TASKS)
    with pytest.raises(ap.DataError, match="must not be negative"):
        model.score(negative)


@pytest.mark.parametrize("loss", ["poisson", "logistic"])
def test_the_exact_minimum_takes_few_steps_however_features_are_scaled(
    loss: str,
) -> None:
    data, passes = data_of(loss, scales=(100.0, 1.0, 0.01)), []
    model = ap.MultiTaskDescent(math.inf, loss=loss, label_bound=100.0)
    model.fit(data, progress=lambda done, _: passes.append(done))
    assert 0 < len(passes) <= 400  # eight times those of a private training
    chosen = find_loss(loss)
    for task in range(TASKS):
        own = data.task == task
        X, y = data.features[data.feature_row][own] / (100.0, 1.0, 0.01), data.labels[own]

        def objective(coef: Any, X: Any = X, y: Any = y) -> tuple[float, Any]:
            margin = X @ coef
            value = sum(map(chosen.value, margin.tolist(), y.tolist()))
            return value, X.T @ chosen.slopes(margin, y)

        best = minimize(objective, np.zeros(D), jac=True, tol=1e-10).x
        np.testing.assert_allclose(model.coef_[task] * (100.0, 1.0, 0.01), best, atol=1e-4)


def test_an_end_before_the_minimum_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descent, "EXACT_STEPS", 2)
    with pytest.warns(UserWarning, match="after 2 steps without privacy the models still move"):
        ap.MultiTaskDescent(math.inf, loss="poisson").fit(data_of("poisson"))
    # Who asks for so many steps gets them without a word.
    ap.MultiTaskDescent(math.inf, loss="poisson", steps=2).fit(data_of("poisson"))
