"""Ways around the releases that the harness must notice."""

import logging
import os
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.allocation.scaling import normalized
from apportion.data import Graph
from apportion.privacy import UserWeights
from apportion.privacy.bounds import ROUNDING
from tests.soundness import test_recommender as recommender
from tests.soundness.harness import (
    TASKS,
    Array,
    caught,
    neighbors,
    notices,
    plant,
    ridge,
    worst_users,
)

EXTRA = worst_users()["ordinary"]


@pytest.mark.parametrize(
    "leak",
    [
        lambda model, data: setattr(model, "n_users_", data.graph.users),
        lambda model, data: setattr(model, "graph_", data.graph),
        lambda model, data: setattr(model, "_data", data),
        lambda model, data: setattr(model, "mean_label", float(data.labels.mean())),
    ],
)
def test_private_attributes_are_caught(leak: Any) -> None:
    fit = ridge(ap.AdaptiveWeights())

    def leaking(data: ap.TaskData) -> Any:
        model = fit(data)
        leak(model, data)
        return model

    assert caught(leaking, EXTRA)


SPEAKING = {
    "a log": lambda number: logging.getLogger("apportion").debug("%d users", number),
    "a log of its own": lambda number: logging.getLogger(f"users.{number}").info("trained"),
    "a warning": lambda number: warnings.warn(f"{number} users are few", stacklevel=1),
    "a warning that numbers call up": lambda number: np.float64(1.0) / (number % 2),
    "print": lambda number: print(number),
    "standard error": lambda number: sys.stderr.write(str(number)),
    "output past Python": lambda number: os.write(1, str(number).encode()),
    "errors past Python": lambda number: os.write(2, str(number).encode()),
}


@pytest.mark.parametrize("speak", SPEAKING.values(), ids=SPEAKING.keys())
@pytest.mark.parametrize("kind", ["tasks", "items"])
def test_what_is_said_about_private_numbers_is_caught(kind: str, speak: Any) -> None:
    fit = ridge(ap.AdaptiveWeights()) if kind == "tasks" else recommender.training()
    pair: Any = neighbors(EXTRA)
    if kind == "items":
        pair = recommender.neighbors(recommender.worst_users()["ordinary"])

    def speaking(about: Any) -> Any:
        def fit_and_tell(data: Any) -> Any:
            model = fit(data)
            speak(about(data))
            return model

        return fit_and_tell

    assert notices(speaking(lambda data: data.graph.users), *pair)
    assert not notices(speaking(lambda data: data.graph.tasks), *pair)  # that is public


def test_centering_by_everybodys_mean_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(honest: Any) -> Any:
        def centered(self: Any, query: Any) -> Any:
            labels, share = honest(self, query)
            return labels - 0.05 * labels.mean(), share

        return centered

    plant(monkeypatch, "_bounded_labels", fault)
    assert caught(ridge(ap.AdaptiveWeights()), EXTRA)


class EveryPairItsOwnUser(ap.Allocation):
    """Weights that keep a budget per pair instead of per user."""

    def weigh(self, graph: Graph, sizes: Array, key: int) -> UserWeights:
        del sizes, key
        pairs = np.arange(len(graph.task))
        return normalized(pairs, graph.task, np.ones(len(pairs)))


def test_weights_of_other_pairs_are_refused() -> None:
    with pytest.raises(ap.ReleaseError, match="weights of exactly the graph's pairs"):
        ridge(EveryPairItsOwnUser())(ap.simulate_tasks(users=50, tasks=5, tasks_per_user=3))


class Unbounded(ap.Allocation):
    """Weights without any budget."""

    def weigh(self, graph: Graph, sizes: Array, key: int) -> UserWeights:
        del sizes, key
        return np.ones(len(graph.task))  # type: ignore[return-value]


def test_weights_without_a_budget_are_refused() -> None:
    with pytest.raises(ap.ReleaseError, match="bounded weights"):
        ridge(Unbounded())(ap.simulate_tasks(users=50, tasks=5, tasks_per_user=3))


@pytest.mark.parametrize(
    "bound", [np.uint8(255), np.int16(300), np.int32(70_000), np.float32(2.0), np.float16(3)]
)
def test_bounds_of_small_number_types_do_not_wrap(bound: Any) -> None:
    data = ap.simulate_tasks(users=50, tasks=5, tasks_per_user=3)
    model = ap.MultiTaskRidge(feature_bound=bound, label_bound=bound, epsilon=np.float32(1)).fit(
        data
    )
    records = {record.name: record for record in model.privacy.ledger}
    assert records["statistics.A"].sensitivity == float(bound) ** 2 * (1 + ROUNDING)
    assert records["statistics.b"].sensitivity == float(bound) ** 2 * (1 + ROUNDING)
    assert model.privacy.epsilon <= 1
    assert f"{float(bound):g}"[:3] in model.privacy.to_json()


def test_data_cannot_be_changed_behind_the_graph() -> None:
    data = ap.simulate_tasks(users=50, tasks=5, tasks_per_user=3)
    for array in (data.user, data.task, data.labels, data.features):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_private_values_do_not_appear_in_errors() -> None:
    rows: dict[str, Any] = {
        "user": ["a"],
        "task": [0],
        "features": [[1.0]],
        "labels": [1.0],
        "tasks": 1,
    }
    for name, value in (
        ("labels", ["SSN 123"]),
        ("features", [["SSN 123"]]),
        ("task", ["SSN 123"]),
    ):
        with pytest.raises(ap.DataError) as error:
            ap.TaskData(**{**rows, name: value})
        chain: BaseException | None = error.value
        while chain is not None:
            assert "SSN" not in str(chain)
            chain = None if chain.__suppress_context__ else chain.__context__


def test_parts_of_data_cannot_be_changed_either() -> None:
    data = ap.simulate_tasks(users=50, tasks=5, tasks_per_user=3)
    for part in (*data.split(), data.take(np.arange(3))):
        for array in (part.user, part.task, part.labels, part.feature_row):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0
    with pytest.raises(ap.DataError, match="not in the catalog"):
        data.remade(np.arange(2), np.array([0, 5]), np.zeros(2))
    with pytest.raises(ap.DataError, match="not finite"):
        data.remade(np.arange(2), np.array([0, 1]), np.array([0.0, np.nan]))


def test_users_with_ids_may_be_renumbered() -> None:
    data = ap.simulate_tasks(users=60, tasks=TASKS, tasks_per_user=4, seed=2)
    ids = [f"user {number}" for number in range(60)]
    whole = ap.TaskData(
        data.user, data.task, data.features, data.labels, tasks=TASKS, per_user=True, user_ids=ids
    )
    kept = data.user != 0  # the first user leaves with its row: everybody moves up by one
    fewer = ap.TaskData(
        data.user[kept] - 1, data.task[kept], data.features[1:], data.labels[kept],
        tasks=TASKS, per_user=True, user_ids=ids[1:],
    )  # fmt: skip
    np.testing.assert_array_equal(fewer.split(0.3)[0].labels, whole.take(kept).split(0.3)[0].labels)
    for allocation in (ap.UniformSampling(2), ap.TailSampling(2)):
        weights = [allocation.weigh(each.graph, np.ones(TASKS), 5) for each in (whole, fewer)]
        np.testing.assert_array_equal(weights[0].values[whole.graph.user != 0], weights[1].values)
    with pytest.raises(ap.DataError, match="user_ids must be 60 different ids"):
        ap.TaskData(
            data.user, data.task, data.features, tasks=TASKS, per_user=True, user_ids=["a"] * 60
        )
