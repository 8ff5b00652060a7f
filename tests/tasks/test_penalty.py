"""The penalty of equation 4: lambda n_i |theta_i|^2, every user bringing its own."""

import math
import warnings

import numpy as np
import pytest

import apportion as ap
from apportion.allocation import theory
from apportion.tasks.schedules import MANY_STEPS, Theory

DATA = ap.simulate_tasks(users=400, tasks=12, tasks_per_user=4, seed=5)


def by_the_equation(penalty: float) -> np.ndarray:
    """theta_i* = A_i^-1 b_i of equation 5."""
    found = []
    for task in range(DATA.tasks):
        rows = DATA.task == task
        X, y = DATA.features[DATA.feature_row[rows]], DATA.labels[rows]
        found.append(np.linalg.solve(X.T @ X + rows.sum() * penalty * np.eye(5), X.T @ y))
    return np.array(found)


@pytest.mark.parametrize("penalty", [0.1, 2.0])
@pytest.mark.parametrize("statistics", ["shrunk", "per-task", "shared"])
def test_without_privacy_ridge_solves_equation_4(penalty: float, statistics: str) -> None:
    model = ap.MultiTaskRidge(
        epsilon=math.inf, regularization=penalty, regularization_per="user", statistics=statistics
    ).fit(DATA)
    np.testing.assert_allclose(model.coef_, by_the_equation(penalty), rtol=1e-9)
    per_task = ap.MultiTaskRidge(epsilon=math.inf, regularization=penalty).fit(DATA)
    assert not np.allclose(per_task.coef_, by_the_equation(penalty), rtol=0.01)


def test_without_privacy_descent_reaches_equation_4() -> None:
    model = ap.MultiTaskDescent(
        epsilon=math.inf, regularization=0.2, regularization_per="user"
    ).fit(DATA)
    np.testing.assert_allclose(model.coef_, by_the_equation(0.2), atol=1e-7)


@pytest.mark.parametrize("statistics", ["shrunk", "per-task", "shared"])
def test_with_little_noise_it_is_nearly_the_equation(statistics: str) -> None:
    # One task a user: every weight is one, and A is nearly the equation's.
    data = ap.simulate_tasks(users=20_000, tasks=3, tasks_per_user=1, skew=4.0, seed=1)
    keep = np.concatenate([[True], data.user[1:] != data.user[:-1]])
    data = data.take(keep)
    common = {"regularization": 0.3, "regularization_per": "user", "statistics": statistics}
    exact = ap.MultiTaskRidge(epsilon=math.inf, **common).fit(data).coef_
    noisy = ap.MultiTaskRidge(epsilon=50.0, noise_seed=0, **common).fit(data)
    assert np.abs(noisy.coef_ - exact).max() < 0.05 * np.abs(exact).max()
    assert "weights" in [record.name for record in noisy.privacy.ledger]
    assert noisy.privacy.ledger.epsilon(1e-5) == pytest.approx(50.0)


def test_sampled_steps_do_not_pay_for_sums_of_weights() -> None:
    model = ap.MultiTaskDescent(
        regularization=1.0, regularization_per="user", steps=ap.Steps(sampling_rate=0.5, number=3)
    )
    with pytest.raises(ap.ParameterError, match="regularization_per"):
        model.fit(DATA)


def test_the_rates_of_theorem_3_12_b() -> None:
    sizes, mu = np.array([50.0, 500.0]), 0.4
    plan = Theory(sizes, 0.5, 1000, 3, mu, 0.5, 2.0, regularization=0.1, per_user=True)
    ours = theory.optimal_task_weights(sizes, 0.5, 1000)
    rates = plan.schedule(20).rates(4, np.zeros((2, 3)))[:, 0]
    np.testing.assert_allclose(rates, 1 / (ours * sizes * 0.1 * 4))
    weights = ours * mu / math.sqrt(2)
    steps = theory.descent_steps_strongly_convex(weights, sizes, dimension=3)
    with pytest.warns(UserWarning, match=f"{round(steps):,} steps"):
        assert plan.steps == round(steps)


@pytest.mark.filterwarnings("ignore:the smallest tasks are too small")
def test_algorithm_2_runs_as_theorem_3_12_b_says() -> None:
    sizes = DATA.graph.task_sizes()
    model = ap.presets.algorithm_2(
        0.5, users=400, regularization=0.2, counts=ap.PublicCounts(), noise_seed=0
    ).fit(DATA)
    weights_record, record = model.privacy.ledger
    assert weights_record.name == "weights"
    mu = ap.mu_from_epsilon(0.5, 1e-5) * math.sqrt(0.95)
    weights = theory.optimal_task_weights(sizes, 0.5, 400) * mu / math.sqrt(2)
    steps = theory.descent_steps_strongly_convex(weights, sizes, dimension=5)
    assert record.steps == max(1, round(steps))


def test_many_steps_are_announced_before_the_first() -> None:
    few = Theory(np.full(3, 50.0), 0.25, 1000, 3, 0.1, 0.5, 2.0, regularization=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert few.steps <= MANY_STEPS
    many = Theory(np.full(3, 5e5), 0.25, 10**6, 3, 1.0, 0.5, 2.0, regularization=0.0)
    with pytest.warns(UserWarning, match=r"the theorem's T is [\d,]+ steps"):
        assert many.steps > MANY_STEPS
