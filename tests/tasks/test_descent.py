"""Gradient descent: exact without privacy, clipping modes, schedules, plans."""

import math
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

import apportion as ap
from apportion.allocation import theory
from apportion.studies.metrics import rmse, rmse_by_size

DATA = ap.simulate_tasks(users=2000, tasks=12, tasks_per_user=4, label_noise=0.2)
TRAIN, TEST = DATA.split()


def with_labels(labels: np.ndarray) -> ap.TaskData:
    return DATA.remade(np.arange(len(DATA.task)), DATA.task, labels)


def of_task(data: ap.TaskData, task: int) -> tuple[np.ndarray, np.ndarray]:
    mine = data.task == task
    return data.features[data.feature_row[mine]], data.labels[mine]


@pytest.mark.parametrize("regularization", [1.0, 30.0])
def test_without_privacy_squared_loss_is_ridge(regularization: float) -> None:
    model = ap.MultiTaskDescent(epsilon=math.inf, regularization=regularization).fit(DATA)
    for task in range(DATA.tasks):
        reference = Ridge(alpha=regularization, fit_intercept=False).fit(*of_task(DATA, task))
        np.testing.assert_allclose(model.coef_[task], reference.coef_, atol=1e-6)


@pytest.mark.parametrize("regularization", [0.5, 10.0])
def test_without_privacy_logistic_loss_is_logistic_regression(regularization: float) -> None:
    data = with_labels(np.sign(DATA.labels))
    model = ap.MultiTaskDescent(
        epsilon=math.inf, loss="logistic", regularization=regularization
    ).fit(data)
    for task in range(DATA.tasks):
        reference = LogisticRegression(
            C=1 / regularization, fit_intercept=False, tol=1e-10, max_iter=1000
        )
        reference.fit(*of_task(data, task))
        np.testing.assert_allclose(model.coef_[task], reference.coef_[0], atol=1e-4)


def test_without_privacy_poisson_loss_is_poisson_regression() -> None:
    rng = np.random.default_rng(0)
    data = with_labels(rng.poisson(np.exp(DATA.labels)).astype(float))
    loss = ap.tasks.losses.poisson(ceiling=6.0)
    model = ap.MultiTaskDescent(epsilon=math.inf, loss=loss, regularization=2.0).fit(data)
    for task in range(3):
        X, y = of_task(data, task)
        reference = PoissonRegressor(
            alpha=2.0 / len(y), fit_intercept=False, tol=1e-10, max_iter=1000
        )
        np.testing.assert_allclose(model.coef_[task], reference.fit(X, y).coef_, atol=1e-4)


@pytest.mark.parametrize("loss", ["huber", "absolute", "hinge"])
def test_without_privacy_no_small_move_improves_the_loss(loss: str) -> None:
    labels = np.sign(DATA.labels) if loss == "hinge" else DATA.labels
    data = with_labels(labels)
    model = ap.MultiTaskDescent(epsilon=math.inf, loss=loss, regularization=1.0).fit(data)
    value = np.vectorize(ap.tasks.losses.find_loss(loss).value)

    def objective(theta: np.ndarray, task: int) -> float:
        X, y = of_task(data, task)
        return float(value(X @ theta, y).sum() + 0.5 * theta @ theta)

    for task in range(3):
        best = objective(model.coef_[task], task)
        for move in 0.05 * np.vstack([np.eye(5), -np.eye(5)]):
            assert objective(model.coef_[task] + move, task) > best


def test_more_budget_less_error_and_adaptive_budgets_help_the_tail() -> None:
    train, test = ap.simulate_tasks(skew=1.0, label_noise=0.2).split()
    sizes = train.graph.task_sizes()

    def errors(epsilon: float, allocation: ap.Allocation) -> tuple[float, float]:
        models = [
            ap.MultiTaskDescent(epsilon=epsilon, allocation=allocation, noise_seed=s).fit(train)
            for s in range(2)
        ]
        everything = np.mean([rmse(model, test) for model in models])
        return float(everything), float(np.mean([rmse_by_size(m, test, sizes)[0] for m in models]))

    small, large = errors(0.5, ap.AdaptiveWeights(0.5)), errors(4.0, ap.AdaptiveWeights(0.5))
    uniform = errors(0.5, ap.UniformWeights())
    assert large[0] < small[0] < test.labels.std()
    # Measured: 0.228 against 0.237.
    assert small[1] < uniform[1]


def test_clipping_a_user_as_a_whole_beats_clipping_rows() -> None:
    def error(clip: Any) -> float:
        models = [
            ap.MultiTaskDescent(steps=ap.Steps(clip=clip), noise_seed=s, radius=1.0).fit(TRAIN)
            for s in range(5)
        ]
        return float(np.mean([rmse(model, TEST) for model in models]))

    assert error("user") < error("row")


def test_the_cost_is_one_record_known_before_the_first_step() -> None:
    model = ap.MultiTaskDescent(steps=7, gradient_bound=0.3, allocation=ap.UniformWeights()).fit(
        DATA
    )
    (record,) = model.privacy.ledger
    assert (record.name, record.steps, record.shape) == ("gradients", 7, (12, 5))
    assert record.mu == pytest.approx(ap.mu_from_epsilon(1.0, 1e-5))
    assert record.noise_scale == pytest.approx(0.3 * math.sqrt(7) / record.mu)
    assert "x 7 steps" in str(model.privacy)


@pytest.mark.parametrize("schedule", ["adaptive", "constant", "1/sqrt(t)", "1/t", "theory"])
@pytest.mark.parametrize("regularization", [0.0, 5.0])
def test_every_schedule_learns(schedule: str, regularization: float) -> None:
    rate = None if schedule in ("adaptive", "theory") else 0.02
    model = ap.MultiTaskDescent(
        epsilon=20.0,
        steps=ap.Steps(schedule=schedule, learning_rate=rate, users=2000),
        regularization=regularization,
        radius=1.0,
        noise_seed=0,
    ).fit(TRAIN)
    assert rmse(model, TEST) < 0.8 * TEST.labels.std()


def test_the_steps_of_the_theory() -> None:
    allocation = ap.AdaptiveWeights(0.25, counts=ap.PublicCounts())
    model = ap.MultiTaskDescent(
        epsilon=0.3,
        steps=ap.Steps("theory", schedule="theory", users=2000),
        allocation=allocation,
    ).fit(DATA)
    sizes = DATA.graph.task_sizes()
    mu = ap.mu_from_epsilon(0.3, 1e-5)
    weights = theory.optimal_task_weights(sizes, 0.25, 2000) * mu / math.sqrt(2)
    (record,) = model.privacy.ledger
    assert record.steps == round(theory.descent_steps_convex(weights, sizes, dimension=5))


def test_the_rates_of_the_theory_in_our_units() -> None:
    from apportion.tasks.schedules import Theory

    sizes, mu = np.array([50.0, 500.0]), 0.4
    plan = Theory(sizes, 0.25, 1000, 3, mu, gradient_bound=0.5, diameter=2.0, regularization=0.0)
    ours = theory.optimal_task_weights(sizes, 0.25, 1000)
    # A step is rate * (gradient sum, at most ours * sizes * bound, plus noise bound sqrt(T) / mu).
    T = 20
    noise = 0.5 * math.sqrt(T) / mu
    expected = 2.0 / np.sqrt((0.5 * ours * sizes) ** 2 + 3 * noise**2) / math.sqrt(4)
    np.testing.assert_allclose(plan.schedule(T).rates(4, np.zeros((2, 3)))[:, 0], expected)


def test_theory_needs_what_it_needs() -> None:
    adaptive, uniform = ap.AdaptiveWeights(0.25), ap.UniformWeights()
    for users, allocation in ((None, adaptive), (100, uniform)):
        steps = ap.Steps(schedule="theory", users=users)
        with pytest.raises(ap.ParameterError, match="needs to know the task sizes"):
            ap.MultiTaskDescent(steps=steps, allocation=allocation).fit(DATA)


def test_models_stay_in_their_ball() -> None:
    model = ap.MultiTaskDescent(epsilon=0.1, radius=0.5, steps=ap.Steps(average=0.0)).fit(DATA)
    assert np.linalg.norm(model.coef_, axis=1).max() <= 0.5 + 1e-12


def test_averaging_and_momentum_change_the_result() -> None:
    plain = ap.MultiTaskDescent(noise_seed=0, steps=ap.Steps(average=0.0)).fit(DATA).coef_
    for change in ({"average": 0.5}, {"momentum": 0.5}):
        steps = ap.Steps(**{"average": 0.0, **change})
        other = ap.MultiTaskDescent(noise_seed=0, steps=steps).fit(DATA).coef_
        assert not np.allclose(plain, other)


def test_sampling_users_still_learns() -> None:
    steps = ap.Steps(sampling_rate=0.5)
    model = ap.MultiTaskDescent(epsilon=20.0, steps=steps, radius=1.0, noise_seed=0).fit(TRAIN)
    assert rmse(model, TEST) < 0.8 * TEST.labels.std()


@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "nope"}, {"steps__clip": "all"}, {"gradient_bound": 0.0}, {"gradient_bound": "x"},
        {"regularization": -1.0}, {"radius": 0.0}, {"steps": 0}, {"steps": 1.5}, {"steps": "many"},
        {"steps__schedule": "fast"}, {"steps__learning_rate": 0.0}, {"steps__momentum": 1.0},
        {"steps__average": 1.5}, {"steps__sampling_rate": 0.0}, {"steps__sampling_rate": 1.1},
        {"steps__users": 1}, {"steps": [3]}, {"feature_bound": None}, {"epsilon": 0.0},
    ],
)  # fmt: skip
def test_bad_parameters_train_nothing(settings: dict[str, Any]) -> None:
    model = ap.MultiTaskDescent()
    with pytest.raises(ap.ParameterError):
        model.set_params(**settings).fit(DATA)
    assert not hasattr(model, "coef_")


def test_data_without_rows_still_trains() -> None:
    for clip in ("user", "row"):
        model = ap.MultiTaskDescent(steps=ap.Steps(clip=clip)).fit(
            ap.TaskData([], [], np.zeros((0, 2)), [], tasks=3)
        )
        assert np.isfinite(model.coef_).all()
