"""Row 7: after the releases, only released values and public constants are used."""

from typing import Any

import pytest

import apportion as ap
from apportion.engine.solves import solve_filtered
from apportion.tasks import statistics
from apportion.tasks.shrunk import Shrinkage
from tests.soundness.harness import Array, caught, ridge, worst_users

EXTRA = worst_users()["ordinary"]


def test_a_regularizer_scaled_by_an_exact_sum_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    solve = solve_filtered
    fit = ridge(ap.AdaptiveWeights(), statistics="per-task")

    def fit_with_leak(data: ap.TaskData) -> Any:
        def leaking(A: Array, b: Array, alpha: Array, *rest: Any) -> Array:
            return solve(A, b, alpha + len(data.labels) / data.tasks, *rest)

        monkeypatch.setattr(statistics, "solve_filtered", leaking)
        return fit(data)

    assert caught(fit_with_leak, EXTRA)


def test_a_budget_split_by_an_exact_sum_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = ridge(ap.AdaptiveWeights(), statistics="shrunk")

    def fit_with_leak(data: ap.TaskData) -> Any:
        portion = 1 / (2 + len(data.labels))
        monkeypatch.setattr(Shrinkage, "portion", lambda *_: portion)
        return fit(data)

    assert caught(fit_with_leak, EXTRA)
