"""Row 2: gradients are clipped user by user, before they are summed."""

import numpy as np
import pytest

import apportion as ap
from apportion.engine import CpuEngine, TaskRows
from apportion.privacy.bounds import row_norms, truncate
from tests.soundness.harness import Array, caught, check, compare, descent, neighbours, worst_users

EXTRA = worst_users()["at the bound in all tasks"]


def summed_then_clipped(
    self: CpuEngine,
    rows: TaskRows,
    norms: Array,
    coef: Array,
    derivative: object,
    bound: float,
    grid: float,
) -> Array:
    """The paper's line: clip(sum over users of weighted gradients, bound), task by task."""
    total = honest(self, rows, norms, coef, derivative, np.inf, grid)
    norm = np.linalg.norm(total, axis=1, keepdims=True)
    return truncate(total * np.minimum(1, bound / np.maximum(norm, 1e-300)), grid)


honest = CpuEngine.row_clipped_gradient


def test_clipping_before_summing_is_safe() -> None:
    check(descent(ap.UniformWeights(), clip="row", gradient_bound=0.1), *neighbours(EXTRA))


def test_clipping_after_summing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CpuEngine, "row_clipped_gradient", summed_then_clipped)
    assert caught(descent(ap.UniformWeights(), clip="row", gradient_bound=0.1), EXTRA)


def test_how_far_one_user_can_move_a_clipped_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    # A user in all twelve tasks pulls every clipped sum from one end to the other: in each task it
    # moves by up to twice the bound, however small the user's weight is there.
    rng = np.random.default_rng(0)
    user, task = np.repeat(2 * np.arange(3), 12), np.tile(np.arange(12), 3)
    x = np.tile([[1.0, 0.0, 0.0]], (36, 1)) + 1e-3 * rng.normal(size=(36, 3))
    crowd = {"user": user, "task": task, "features": 1e-3 * x, "labels": np.full(36, 0.7)}
    giant = {
        "user": np.full(12, 15),
        "task": np.arange(12),
        "features": np.tile([[2.0, 0.0, 0.0]], (12, 1)),
        "labels": np.full(12, -0.7),
    }
    both = {name: np.concatenate([crowd[name], giant[name]]) for name in crowd}
    pair = ap.TaskData(**both, tasks=12), ap.TaskData(**crowd, tasks=12)
    fit = descent(ap.UniformWeights(), clip="row", gradient_bound=1e-4)
    assert max(change.ratio for change in compare(fit, *pair)) <= 1
    monkeypatch.setattr(CpuEngine, "row_clipped_gradient", summed_then_clipped)
    data = pair[0]
    totals = []
    for each in pair:
        weights = ap.UniformWeights().weigh(each.graph, np.ones(12), 0)
        of_pair = each.pair_of_row
        rows = TaskRows.sort(
            each.features, each.feature_row, each.labels, weights.per_row(of_pair),
            weights.user[of_pair], weights.task[of_pair], 12,
        )  # fmt: skip
        derivative = ap.tasks.losses.squared().compiled
        totals.append(
            CpuEngine().row_clipped_gradient(
                rows, row_norms(each.features), np.zeros((12, 3)), derivative, 1e-4, 0.0
            )
        )
    assert data.tasks == 12
    assert (
        np.linalg.norm(totals[0] - totals[1]) > 6 * 1e-4
    )  # about 2 sqrt(12) = 6.9 times the bound


@pytest.mark.parametrize("clip", ["user", "row"])
def test_missing_clipping_is_caught(monkeypatch: pytest.MonkeyPatch, clip: str) -> None:
    for name in ("row_clipped_gradient", "user_clipped_gradient"):
        method = getattr(CpuEngine, name)

        def unclipped(self, rows, norms, coef, derivative, bound, grid, method=method):  # type: ignore[no-untyped-def]
            del bound
            return method(self, rows, norms, coef, derivative, np.inf, grid)

        monkeypatch.setattr(CpuEngine, name, unclipped)
    assert caught(descent(ap.UniformWeights(), clip=clip, gradient_bound=0.1), EXTRA)
