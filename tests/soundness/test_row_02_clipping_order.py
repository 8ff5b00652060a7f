"""Row 2: gradients are clipped user by user, before they are summed."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.allocation.base import Rule
from apportion.engine.queries import Gradients
from apportion.privacy import truncated
from apportion.tasks.losses import squared
from tests.soundness.harness import (
    Array,
    caught,
    check,
    compare,
    descent,
    neighbors,
    plant,
    worst_users,
)

EXTRA = worst_users()["at the bound in all tasks"]
# Nothing is ever clipped by it, on a grid that is still far finer than the bounds.
WIDE, FINE = 64.0, 2.0**-20


def summed_then_clipped(honest: Any) -> Any:
    """The paper's line: clip(sum over users of weighted gradients, bound), task by task."""

    def gradients(self: Any, query: Gradients, grid: float) -> Any:
        total = honest(self, replace(query, bound=WIDE), FINE) * FINE
        norm = np.linalg.norm(total, axis=1, keepdims=True)
        return truncated(total * np.minimum(1, query.bound / np.maximum(norm, 1e-300)), grid)

    return gradients


def unclipped(honest: Any) -> Any:
    # Twice the bound: kernels take no part that is far beyond what the grid was made for.
    return lambda self, query, grid: honest(self, replace(query, bound=2 * query.bound), grid)


def test_clipping_before_summing_is_safe() -> None:
    check(descent(ap.UniformWeights(), clip="row", gradient_bound=0.1), *neighbors(EXTRA))


def test_clipping_after_summing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "_gradients", summed_then_clipped)
    assert caught(descent(ap.UniformWeights(), clip="row", gradient_bound=0.1), EXTRA)


@pytest.mark.parametrize("engine", [ap.CpuEngine(), ap.ReferenceEngine()], ids=repr)
def test_how_far_one_user_can_move_a_clipped_sum(
    monkeypatch: pytest.MonkeyPatch, engine: ap.Engine
) -> None:
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
    fit = descent(ap.UniformWeights(), clip="row", gradient_bound=1e-4, engine=engine)
    assert max(change.ratio for change in compare(fit, *pair)) <= 1

    def moved() -> float:
        totals: list[Array] = []
        for each in pair:
            session = engine.load(each.rows())
            session.bound_features(2.0, whole=False)
            session.weigh(Rule(ap.UniformWeights(), np.ones(12), 0))
            query = Gradients(np.zeros((12, 3)), squared(), 1e-4, 0.7, clip="row")
            [(_, (units,))] = session.sums(query, (2.0**-40,))
            totals.append(units * 2.0**-40)
        return float(np.linalg.norm(totals[0] - totals[1]))

    assert moved() <= 1e-4
    plant(monkeypatch, "_gradients", summed_then_clipped)
    assert moved() > 6 * 1e-4  # about 2 sqrt(12) = 6.9 times the bound


@pytest.mark.parametrize("clip", ["user", "row"])
def test_missing_clipping_is_caught(monkeypatch: pytest.MonkeyPatch, clip: str) -> None:
    plant(monkeypatch, "_gradients", unclipped)
    assert caught(descent(ap.UniformWeights(), clip=clip, gradient_bound=0.1), EXTRA)
