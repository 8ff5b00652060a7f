"""Public ranges and intercepts: a user's part is bounded with them as without."""

from typing import Any

import numpy as np
import pytest

import apportion as ap
from tests.soundness.harness import (
    FEATURE_BOUND,
    LABEL_BOUND,
    TASKS,
    caught,
    check,
    compare,
    descent,
    neighbors,
    plant,
    ridge,
    worst_users,
)

DIMENSION = neighbors(worst_users()["ordinary"])[0].dimension
RANGES = [(-1.0, 2.0)] * DIMENSION
SETTINGS: list[dict[str, Any]] = [
    {"intercept": True},
    {"feature_ranges": RANGES},
    {"intercept": True, "feature_ranges": RANGES},
]


@pytest.mark.parametrize("extra", worst_users().values(), ids=worst_users().keys())
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: " ".join(settings))
def test_adding_a_worst_case_user(extra: dict[str, object], settings: dict[str, Any]) -> None:
    for statistics in ("per-task", "shared", "shrunk"):
        check(ridge(ap.UniformWeights(), statistics=statistics, **settings), *neighbors(extra))
    check(descent(ap.AdaptiveWeights(0.5), **settings), *neighbors(extra))


def test_the_constant_counts_in_the_bound() -> None:
    changes = compare(
        ridge(ap.UniformWeights(), statistics="per-task", intercept=True),
        *neighbors(worst_users()["at the bound in all tasks"]),
    )
    sensitivity = {change.name: change.sensitivity for change in changes}
    assert sensitivity["statistics.A"] == pytest.approx(2 * FEATURE_BOUND**2)
    assert sensitivity["statistics.b"] == pytest.approx(np.sqrt(2) * FEATURE_BOUND * LABEL_BOUND)
    assert max(change.ratio for change in changes) > 0.9


def test_a_constant_that_does_not_count_in_the_bound_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fault(honest: Any) -> Any:
        def longer(self: Any, bound: float, **given: Any) -> None:
            honest(self, bound, **given)
            self._unit *= np.sqrt(2)

        return longer

    plant(monkeypatch, "bound_features", fault)
    extra = worst_users()["at the bound in all tasks"]
    assert caught(ridge(ap.UniformWeights(), intercept=True, engine="reference"), extra)


def test_values_far_outside_their_range_end_no_training() -> None:
    far = {
        "user": np.zeros(TASKS, dtype=int),
        "task": np.arange(TASKS),
        "features": np.full((TASKS, DIMENSION), 1e308),
        "labels": np.full(TASKS, -1e308),
    }
    for settings in SETTINGS:
        model = ap.MultiTaskRidge(**settings).fit(ap.TaskData(**far, tasks=TASKS))
        assert np.isfinite(model.coef_).all()
        assert np.isfinite(model.intercept_).all()
