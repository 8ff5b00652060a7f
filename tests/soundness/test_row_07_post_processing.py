"""Row 7: after the releases, only released values and public constants are used."""

from typing import Any

import apportion as ap
from apportion.engine.solves import solve_filtered
from apportion.tasks import statistics
from apportion.tasks.shrunk import Shrinkage
from tests.soundness.harness import Array, astray, caught, ridge, worst_users

EXTRA = worst_users()["ordinary"]


def test_a_regularizer_scaled_by_an_exact_sum_is_caught() -> None:
    def fault(data: ap.TaskData) -> Any:
        def leaking(A: Array, b: Array, alpha: Array, *rest: Any) -> Array:
            return solve_filtered(A, b, alpha + len(data.labels) / data.tasks, *rest)

        return leaking

    fit = ridge(ap.AdaptiveWeights(), statistics="per-task")
    assert caught(astray(fit, statistics, "solve_filtered", fault), EXTRA)


def test_a_budget_split_by_an_exact_sum_is_caught() -> None:
    fit = ridge(ap.AdaptiveWeights(), statistics="shrunk")
    fault = lambda data: lambda *_: 1 / (2 + len(data.labels))  # noqa: E731
    assert caught(astray(fit, Shrinkage, "portion", fault), EXTRA)
