"""No worst-case user moves any release by more than its recorded sensitivity, under any allocation."""

from typing import Any

import numpy as np
import pytest

import apportion as ap
from tests.soundness.harness import (
    PRIVATE_ALLOCATIONS,
    TASKS,
    VICTIM,
    caught,
    check,
    classifier,
    descent,
    neighbors,
    plant,
    ridge,
    worst_users,
)

STATISTICS = ["per-task", "shared", "shrunk"]


@pytest.mark.parametrize("extra", worst_users().values(), ids=worst_users().keys())
@pytest.mark.parametrize("allocation", PRIVATE_ALLOCATIONS, ids=repr)
@pytest.mark.parametrize("statistics", STATISTICS)
def test_adding_a_worst_case_user(
    statistics: str, allocation: ap.Allocation, extra: dict[str, object]
) -> None:
    with_user, without = neighbors(extra)
    check(ridge(allocation, statistics=statistics), with_user, without)
    check(ridge(allocation, statistics=statistics), without, with_user)


@pytest.mark.parametrize("statistics", ["shared", "shrunk"])
def test_weights_that_are_not_squared_are_caught(
    monkeypatch: pytest.MonkeyPatch, statistics: str
) -> None:
    def not_squared(honest: Any) -> Any:
        return lambda self: np.sqrt(honest(self))

    plant(monkeypatch, "_squared_weights", not_squared)
    extra = worst_users()["at the bound in all tasks"]
    assert caught(ridge(ap.UniformWeights(), statistics=statistics), extra)


@pytest.mark.parametrize("extra", worst_users().values(), ids=worst_users().keys())
@pytest.mark.parametrize("allocation", PRIVATE_ALLOCATIONS[:2] + PRIVATE_ALLOCATIONS[-1:], ids=repr)
@pytest.mark.parametrize("clip", ["user", "row"])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_adding_a_worst_case_user_to_descent(
    allocation: ap.Allocation, extra: dict[str, object], clip: str, loss: str
) -> None:
    with_user, without = neighbors(extra)
    check(descent(allocation, clip=clip, loss=loss, gradient_bound=0.3), with_user, without)
    check(descent(allocation, clip=clip, loss=loss), without, with_user)


@pytest.mark.parametrize(
    "settings",
    [
        {"regularization": 3.0, "steps": ap.Steps(3, momentum=0.5)},
        {"steps": ap.Steps(3, "theory", users=30)},
        {"steps": ap.Steps(3, "1/t", average=0.0)},
    ],
)
def test_what_comes_after_a_step_uses_released_values_only(settings: dict[str, object]) -> None:
    check(descent(ap.AdaptiveWeights(0.5), **settings), *neighbors(worst_users()["ordinary"]))


@pytest.mark.parametrize("extra", worst_users().values(), ids=worst_users().keys())
@pytest.mark.parametrize(
    "settings", [{}, {"negatives": 1, "steps": ap.Steps(2, clip="row")}, {"intercept": False}]
)
def test_adding_a_worst_case_user_to_a_classifier(
    extra: dict[str, object], settings: dict[str, object]
) -> None:
    check(classifier(**settings), *neighbors(extra))


@pytest.mark.parametrize("clip", ["user", "row"])
def test_the_bound_of_descent_is_reached(clip: str) -> None:
    fit = descent(ap.AdaptiveWeights(), clip=clip, gradient_bound=0.3)
    changes = check(fit, *neighbors(worst_users()["at the bound in all tasks"]))
    gradients = [change.ratio for change in changes if change.name == "gradients"]
    assert len(gradients) == 3
    assert gradients[0] > 0.998


@pytest.mark.parametrize("extra", worst_users().values(), ids=worst_users().keys())
def test_the_only_user(extra: dict[str, object]) -> None:
    check(ridge(ap.AdaptiveWeights()), *neighbors(extra, users=0))


def test_feature_vectors_per_user() -> None:
    # The user's row of features stays in the array; its examples leave.
    data = ap.simulate_tasks(users=60, tasks=TASKS, tasks_per_user=4, seed=2)
    neighbor = data.take(data.user != VICTIM)
    for allocation in PRIVATE_ALLOCATIONS:
        check(ridge(allocation), data, neighbor)


def test_splitting_keeps_neighbors_neighbors() -> None:
    with_user, without = neighbors(worst_users()["each row a hundred times"])
    for seed in range(5):
        for part in range(2):
            check(
                ridge(ap.UniformWeights()),
                with_user.split(0.5, seed)[part],
                without.split(0.5, seed)[part],
            )


@pytest.mark.parametrize(
    ("statistics", "releases"), [("per-task", 2), ("shared", 4), ("shrunk", 7)]
)
def test_the_bound_is_reached(statistics: str, releases: int) -> None:
    # A sensitivity far above what a user can do would waste accuracy.
    changes = check(
        ridge(ap.AdaptiveWeights(), statistics=statistics),
        *neighbors(worst_users()["at the bound in all tasks"]),
    )
    ratios = [change.ratio for change in changes if change.name != "counts"]
    assert len(ratios) == releases
    assert min(ratios) > 0.998
