"""The paper's algorithms as it writes them; none of their settings follows our defaults."""

import ast
import inspect
import math
from dataclasses import fields, is_dataclass

import numpy as np
import pytest

import apportion as ap
from apportion.recommend import presets

TASKS = ap.simulate_tasks(users=600, tasks=10, tasks_per_user=4, seed=1)
# What machines decide, not algorithms.
MACHINES = {"engine"}


def test_every_setting_is_named() -> None:
    """A setting that is added elsewhere has to be decided here, too."""
    tree = ast.parse(inspect.getsource(presets))
    seen = set()
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            continue
        kind = getattr(presets, call.func.id, None)
        if not isinstance(kind, type):
            continue
        if is_dataclass(kind):
            names = [each.name for each in fields(kind) if each.init]
        else:
            names = list(inspect.signature(kind).parameters)
        given = set(names[: len(call.args)]) | {each.arg for each in call.keywords}
        assert set(names) - given <= MACHINES, f"{kind.__name__}: {set(names) - given}"
        seen.add(kind.__name__)
    assert {"MatrixFactorization", "MultiTaskRidge", "MultiTaskDescent", "Steps"} <= seen
    assert {"Bounds", "Offsets", "Regularization", "Shares", "SufficientStatistics"} <= seen


def test_algorithm_1_is_a_pseudo_inverse_of_the_projection() -> None:
    model = presets.algorithm_1(2.0, counts=ap.PublicCounts(), noise_seed=3).fit(TASKS)
    settings = model.get_params()
    assert (settings["noise_ridge"], settings["gram_share"], settings["regularization"]) == (
        0.0,
        0.5,
        0.0,
    )
    [A, b] = model.privacy.ledger
    assert A.mu == pytest.approx(b.mu)  # half of the budget each
    assert model.privacy.epsilon == np.inf  # a fixed seed is not private
    assert model.privacy.ledger.epsilon(1e-5) == pytest.approx(2.0)


def by_the_paper(
    data: ap.TaskData, exponent: float, penalty: float, users: int | None
) -> np.ndarray:
    """Algorithm 1 without its noise, line by line; beta is one. ``users``: n, of equations 11 and 12."""
    X, y = data.features[data.feature_row], data.labels
    sizes = data.graph.task_sizes()
    omega = sizes**-exponent
    if users is not None:
        omega /= np.sqrt(np.sum(sizes ** (1 - 2 * exponent)) * math.log(users) / users)
    spent = np.bincount(data.user, weights=omega[data.task] ** 2)[data.user]
    w = omega[data.task] / np.sqrt(spent if users is None else np.maximum(spent, 1.0))
    found = []
    for task in range(data.tasks):
        own = data.task == task
        A = (X[own] * w[own, None]).T @ X[own] + penalty * w[own].sum() * np.eye(X.shape[1])
        found.append(np.linalg.pinv(A, hermitian=True) @ ((X[own] * w[own, None]).T @ y[own]))
    return np.array(found)


@pytest.mark.filterwarnings("ignore:the smallest tasks are too small")
@pytest.mark.parametrize("users", [None, 20_000])
@pytest.mark.parametrize("penalty", [0.0, 0.2])
def test_algorithm_1_is_the_paper_s_where_noise_is_small(penalty: float, users: int | None) -> None:
    data = ap.simulate_tasks(users=20_000, tasks=8, tasks_per_user=3, seed=2)
    # Labels turn with the number of a user's tasks, so that other weights give other models.
    many = np.bincount(data.user)[data.user] > 3
    rows = {"user": data.user, "task": data.task, "features": data.features[data.feature_row]}
    data = ap.TaskData(**rows, labels=np.where(many, -0.5, 1.0) * data.labels, tasks=8)
    common = {"counts": ap.PublicCounts(), "users": users, "regularization": penalty}
    model = presets.algorithm_1(60.0, exponent=0.5, noise_seed=0, **common).fit(data)
    expected = by_the_paper(data, 0.5, penalty, users)
    assert np.abs(model.coef_ - expected).max() < 0.01
    # The other way of scaling, and other weights, where a user's scale depends on them.
    others = [(0.5, 20_000 if users is None else None)] + ([(0.0, None)] if users is None else [])
    for exponent, scaled in others:
        other = by_the_paper(data, exponent, penalty, scaled)
        assert np.abs(other - expected).max() > 0.02


def test_weights_are_the_paper_s_if_users_are_given() -> None:
    assert presets.algorithm_1(users=600).get_params()["allocation__mode"] == "clip"
    assert presets.algorithm_1().get_params()["allocation__mode"] == "normalize"
    assert presets.algorithm_1().get_params()["allocation__exponent"] == 0.5


@pytest.mark.parametrize("solver", ["ssp", "descent"])
@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
def test_algorithm_3(feedback: str, solver: str) -> None:
    data = ap.simulate_interactions(users=300, items=30, rows=4_000)
    model = presets.algorithm_3(
        5.0, feedback=feedback, solver=solver, factors=4, sweeps=2, noise_seed=0
    ).fit(data)
    names = [record.name for record in model.privacy.ledger]
    assert "counts" in names
    assert not any("intercept" in name for name in names)
    assert ("mean" in " ".join(names)) == (feedback == "explicit")
    if solver == "ssp":
        costs = {r.name: r.mu for r in model.privacy.ledger}
        assert costs["sweep 1.A"] == pytest.approx(costs["sweep 1.b"])
    assert model.privacy.ledger.epsilon(1e-5) == pytest.approx(5.0)
