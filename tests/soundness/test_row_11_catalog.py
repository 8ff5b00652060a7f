"""Row 11: which tasks exist, and how many users there are, is not read from the data."""

import math
from typing import Any

import numpy as np
import pytest

import apportion as ap
from tests.soundness.harness import TASKS, VICTIM, check, neighbors, population, ridge, worst_users

ALONE = worst_users()["alone in a task"]


def test_a_task_does_not_vanish_with_its_only_user() -> None:
    with_user, without = neighbors(ALONE)
    check(ridge(ap.AdaptiveWeights()), with_user, without)
    assert ridge(ap.AdaptiveWeights())(without).coef_.shape[0] == TASKS


def test_a_catalog_read_from_the_data_is_caught() -> None:
    # As if the check were gone: both neighbors are read without a catalog and trained privately.
    with_user, without = (
        ap.TaskData(each.user, each.task, each.features, each.labels) for each in neighbors(ALONE)
    )
    for data in (with_user, without):
        data.catalog_is_public = True
    models = [ridge(ap.AdaptiveWeights())(data) for data in (with_user, without)]
    assert models[0].coef_.shape != models[1].coef_.shape  # the leaving user takes a task with it


def test_private_training_without_a_public_catalog_is_refused() -> None:
    data = ap.TaskData(**population())
    with pytest.raises(ap.DataError, match="list of tasks must be public"):
        ap.MultiTaskRidge(epsilon=1.0).fit(data)
    ap.MultiTaskRidge(epsilon=math.inf).fit(data)


def test_declaring_the_data_s_tasks_public_is_reported() -> None:
    report = ap.MultiTaskRidge(epsilon=1.0).fit(ap.TaskData(**population(), tasks="public")).privacy
    assert "declared public" in report.public_inputs["catalog"]
    assert any("which tasks exist" in warning for warning in report.warnings)


def test_what_is_shown_of_data_holds_no_private_number() -> None:
    with_user, without = neighbors(ALONE)
    assert repr(with_user) == repr(without)


def test_a_user_s_sample_does_not_depend_on_other_users() -> None:
    rows: dict[str, Any] = population(users=50)
    data = ap.TaskData(**rows, tasks=TASKS)
    kept = rows["user"] != 6
    fewer = ap.TaskData(**{name: values[kept] for name, values in rows.items()}, tasks=TASKS)
    weights = [
        ap.UniformSampling(2).weigh(d.graph, np.ones(TASKS), key=99).values for d in (data, fewer)
    ]
    np.testing.assert_array_equal(
        weights[0][np.unique(rows["user"])[data.graph.user] != 6], weights[1]
    )
    assert VICTIM not in rows["user"]
