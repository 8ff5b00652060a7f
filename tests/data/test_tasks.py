"""TaskData: what comes in, what is refused, and by which words."""

import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import apportion as ap
from apportion.data.tasks import _sort_within

ROWS: dict[str, Any] = {
    "user": ["ann", "bob", "ann", "cem"],
    "task": [0, 0, 2, 1],
    "features": np.arange(8.0).reshape(4, 2),
    "labels": [1.0, 2.0, 3.0, 4.0],
}


def data(**changes: Any) -> ap.TaskData:
    return ap.TaskData(**{**ROWS, "tasks": 3, **changes})


def test_users_and_tasks_are_numbered() -> None:
    made = data()
    np.testing.assert_array_equal(made.user, [0, 1, 0, 2])
    np.testing.assert_array_equal(made.task, [0, 0, 2, 1])
    assert made.graph.users == 3
    np.testing.assert_array_equal(made.graph.task_sizes(), [2, 1, 1])
    np.testing.assert_array_equal(made.graph.user_sizes(), [2, 1, 1])


def test_tasks_may_be_named() -> None:
    made = data(task=["b", "b", "a", "c"], tasks=["c", "b", "a", "unused"])
    np.testing.assert_array_equal(made.task_ids, ["c", "b", "a", "unused"])
    np.testing.assert_array_equal(made.task, [1, 1, 2, 0])


def test_features_per_user_are_stored_once() -> None:
    made = ap.TaskData(
        [0, 1, 0], [0, 0, 1], [[1.0], [2.0], [9.0]], [0, 0, 0], tasks=2, per_user=True
    )
    np.testing.assert_array_equal(made.features[made.feature_row], [[1.0], [2.0], [1.0]])
    assert made.graph.users == 3  # a user without rows is a user


def test_repeated_pairs_are_merged_in_the_graph() -> None:
    made = data(user=["ann"] * 4, task=[1, 0, 1, 1])
    np.testing.assert_array_equal(made.graph.task, [0, 1])
    np.testing.assert_array_equal(made.pair_of_row, [1, 0, 1, 1])


def test_no_rows() -> None:
    made = ap.TaskData([], [], np.zeros((0, 2)), [], tasks=3)
    assert (made.tasks, made.dimension, made.graph.users) == (3, 2, 0)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames(make: Any) -> None:
    frame = make(
        {"who": ["x", "y"], "what": [1, 0], "f": [0.5, 0.25], "g": [1, 2], "y": [3.0, 4.0]}
    )
    made = ap.TaskData.from_frame(
        frame, user="who", task="what", features=["f", "g"], label="y", tasks=2
    )
    np.testing.assert_array_equal(made.features, [[0.5, 1.0], [0.25, 2.0]])
    np.testing.assert_array_equal(made.task, [1, 0])
    np.testing.assert_array_equal(made.labels, [3.0, 4.0])


@pytest.mark.parametrize("missing", ["user", "task", "label", "features"])
def test_frames_without_a_column(missing: str) -> None:
    frame = pd.DataFrame({"u": [1], "t": [0], "x": [0.5], "y": [1.0]})
    names: dict[str, Any] = {"user": "u", "task": "t", "features": ["x"], "label": "y"}
    names[missing] = ["nope"] if missing == "features" else "nope"
    with pytest.raises(ap.DataError, match="no column 'nope'"):
        ap.TaskData.from_frame(frame, **names)


def test_frames_without_features() -> None:
    with pytest.raises(ap.ParameterError, match="at least one column"):
        ap.TaskData.from_frame(pd.DataFrame({"u": [1]}), user="u", task="u", features=[], label="u")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("column", ["u", "s", "t", "x", "y"])
def test_missing_values_are_named_by_column_and_row(make: Any, column: str) -> None:
    values: dict[str, list[Any]] = {
        "u": [1, 2],
        "s": ["a", "b"],
        "t": [0, 1],
        "x": [0.5, 1.5],
        "y": [1.0, 2.0],
    }
    values[column] = [values[column][0], None]
    user = "s" if column == "s" else "u"
    with pytest.raises(ap.DataError, match="row 1"):
        ap.TaskData.from_frame(
            make(values), user=user, task="t", features=["x"], label="y", tasks=2
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": [1.0, 2.0, np.nan, 4.0]}, "labels: row 2 is missing or not finite"),
        ({"labels": [1.0, 2.0, np.inf, 4.0]}, "labels: row 2 is missing or not finite"),
        ({"labels": ["a", "b", "c", "d"]}, "labels must hold numbers only"),
        ({"labels": [[1.0], [2.0], [3.0], [4.0]]}, "labels must be one-dimensional"),
        ({"labels": [1.0]}, "user has 4 rows and labels has 1"),
        ({"features": [[0.0, 1.0], [2.0, np.nan], [0, 0], [0, 0]]}, "features: row 1, column 1"),
        ({"features": [[0.0, 1.0], [2.0], [0, 0], [0, 0]]}, "features must hold numbers only"),
        ({"features": [1.0, 2.0, 3.0, 4.0]}, "features must be two-dimensional"),
        ({"features": np.zeros((4, 0))}, "features must be two-dimensional"),
        ({"features": np.zeros((3, 2))}, "features has 3 rows and labels has 4"),
        ({"task": [0, 1, 3, 0]}, "task: row 2 is not between 0 and 2"),
        ({"task": [0, -1, 1, 0]}, "task: row 1 is not between 0 and 2"),
        ({"task": ["a", "b", "c", "d"]}, "task must hold whole numbers"),
        ({"task": [0.5, 1, 1, 1]}, "task: row 0 is missing, or not a string or a whole number"),
        (
            {"task": ["a", "b", "x", "a"], "tasks": ["a", "b"]},
            "task: row 2 is not in the catalog",
        ),
        (
            {"task": [0, 1, 1, 1], "tasks": ["a", "b"]},
            "both hold strings or both hold whole numbers",
        ),
        ({"user": ["ann", None, "bob", "ann"]}, "user: row 1 is missing"),
        (
            {"user": np.array(["ann", 3, "bob", "ann"], dtype=object)},
            "user: row 1 is of another type than row 0",
        ),
        ({"user": np.array([0.5] * 4)}, "row 0 is missing or not a whole number"),
        (
            {"user": np.array(["2020-01-01"] * 4, dtype="datetime64[D]")},
            "must hold strings or whole numbers",
        ),
        ({"user": np.ones((4, 1), int)}, "user must be one-dimensional"),
        ({"user": np.array([10**30] * 4, dtype=object)}, "does not fit"),
        ({"user": [0, 1, 2, 9], "per_user": True}, "user: row 3 is not between 0 and 3"),
    ],
)
def test_refused_data(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ap.DataError, match=message):
        data(**changes)


@pytest.mark.parametrize("tasks", [0, -1, True, "all", [1, 1, 2]])
def test_refused_catalogs(tasks: Any) -> None:
    with pytest.raises(ap.ParameterError, match="tasks"):
        data(tasks=tasks)


def test_errors_do_not_show_private_values() -> None:
    with pytest.raises(ap.DataError) as caught:
        data(task=["secret"] * 4, tasks=["public"])
    assert "secret" not in str(caught.value)


def test_split_is_random_repeatable_and_complete() -> None:
    whole = ap.simulate_tasks(users=500, tasks=10, tasks_per_user=4)
    train, test = whole.split(test=0.25, seed=3)
    again, _ = whole.split(test=0.25, seed=3)
    other, _ = whole.split(test=0.25, seed=4)
    np.testing.assert_array_equal(train.labels, again.labels)
    assert not np.array_equal(train.labels[:50], other.labels[:50])
    assert len(train.labels) + len(test.labels) == len(whole.labels)
    assert len(test.labels) / len(whole.labels) == pytest.approx(0.25, abs=0.05)
    assert len(train.graph.task) == len(train.labels)
    with pytest.raises(ap.ParameterError, match="above 0 and below 1"):
        whole.split(test=1.0)


def test_the_simulation_has_the_promised_shape() -> None:
    made = ap.simulate_tasks(users=4000, tasks=100, dimension=5, tasks_per_user=20, skew=1.0)
    assert made.features.shape == (4000, 5)
    assert np.linalg.norm(made.features, axis=1).max() <= 1 + 1e-12
    assert made.graph.user_sizes().mean() == pytest.approx(20, rel=0.03)
    sizes = made.graph.task_sizes()
    flat = ap.simulate_tasks(users=4000, skew=20.0).graph.task_sizes()
    assert sizes.std() / sizes.mean() > 4 * flat.std() / flat.mean()


@pytest.mark.parametrize(
    "settings", [{"tasks_per_user": 0}, {"tasks": 5, "tasks_per_user": 5}, {"skew": 0.0}]
)
def test_impossible_simulations(settings: dict[str, Any]) -> None:
    with pytest.raises(ap.ParameterError):
        ap.simulate_tasks(**settings)


def examples(order: Any = slice(None), rows: int = 900, **changes: Any) -> ap.TaskData:
    """Several rows of a user in one task, some of them equal; in another order if asked for."""
    rng = np.random.default_rng(8)
    user, task = rng.integers(rows // 20, size=rows), rng.integers(3, size=rows)
    features = rng.integers(-3, 4, size=(rows, 2)) / np.pi
    labels = rng.integers(2, size=rows) * 2.0 - 1
    return ap.TaskData(
        user[order], task[order], features[order], labels[order], **{"tasks": 3, **changes}
    )


def content(data: ap.TaskData) -> list[tuple[float, ...]]:
    columns = (data.user_key[data.user], data.task, data.features[data.feature_row].T, data.labels)
    return sorted(map(tuple, np.vstack([np.asarray(c, dtype=float) for c in columns]).T))


def test_a_split_does_not_depend_on_the_order_of_rows() -> None:
    order = np.random.default_rng(1).permutation(900)
    for one, other in zip(
        examples().split(0.3, seed=2), examples(order).split(0.3, seed=2), strict=True
    ):
        assert content(one) == content(other)
        assert len(one.labels)


@pytest.mark.parametrize("content", [[7, 5, 6, 5], [2**40, 1, 3 * 2**40, 2]])
def test_rows_are_ordered_by_pair_and_content(content: list[int]) -> None:
    pair, pairs = np.array([2**19, 0, 2**19, 2**19]), 2**20  # what content differs in is cut off
    order = _sort_within(pair, pairs, np.array(content, np.uint64))
    assert order[0] == 1
    assert [content[row] for row in order[1:]] == sorted(content[row] for row in (0, 2, 3))


def test_rows_that_differ_in_anything_are_split_one_by_one() -> None:
    columns = [np.zeros(2000, int), np.zeros(2000, int), np.ones((2000, 2)), np.zeros(2000)]
    for place, column in enumerate(columns[1:], start=1):
        changed = [each.copy() for each in columns]
        if column.ndim == 1:
            changed[place][:] = np.arange(2000)
        else:
            changed[place][:, 1] = np.arange(2000)
        part = ap.TaskData(*changed, tasks=2000).split(0.5)[0]
        assert 850 < len(part.labels) < 1150
    assert len(ap.TaskData(*columns, tasks=1).split(0.5)[0].labels) in (0, 2000)


def test_a_split_does_not_depend_on_other_users_tasks_without_a_catalog() -> None:
    whole = examples(tasks=None)
    fewer = ap.TaskData(
        np.append(whole.user, 99), np.append(whole.task + 5, 1),
        np.vstack([whole.features, [[9, 9]]]), np.append(whole.labels, 9),
    )  # fmt: skip
    less = ap.TaskData(whole.user, whole.task + 5, whole.features, whole.labels)
    of_all, of_less = fewer.split()[1], less.split()[1]
    assert of_all.labels[of_all.labels != 9].tolist() == of_less.labels.tolist()


@pytest.mark.parametrize("clip", ["user", "row"])
@pytest.mark.parametrize("kind", ["descent", "ridge"])
@pytest.mark.parametrize("epsilon", [5.0, math.inf])  # without privacy every bit of a row is summed
def test_a_model_does_not_depend_on_the_order_of_rows(kind: str, clip: str, epsilon: float) -> None:
    order = np.random.default_rng(1).permutation(900)
    models = []
    for data in (examples(), examples(order)):
        settings: dict[str, Any] = {"epsilon": epsilon, "noise_seed": 3}
        if kind == "ridge":
            models.append(ap.MultiTaskRidge(**settings).fit(data).coef_)
        else:
            model = ap.MultiTaskDescent(loss="logistic", steps=ap.Steps(4, clip=clip), **settings)
            models.append(model.fit(data).coef_)
    np.testing.assert_array_equal(*models)
