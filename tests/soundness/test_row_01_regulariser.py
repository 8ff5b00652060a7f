"""Row 1: lambda I is not part of the released sums."""

import numpy as np
import pytest

import apportion as ap
from apportion.engine import CpuEngine, TaskRows
from apportion.privacy import truncate
from tests.soundness.harness import Array, caught, check, neighbours, ridge, worst_users

EXTRA = worst_users()["at the bound in all tasks"]


def test_the_regulariser_does_not_touch_the_sums() -> None:
    check(ridge(ap.AdaptiveWeights(), alpha=50.0), *neighbours(EXTRA))


def test_a_regulariser_inside_the_sums_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = CpuEngine.statistics

    def with_lambda(
        self: CpuEngine, rows: TaskRows, first: int, stop: int, grids: tuple[float, float]
    ) -> tuple[Array, Array]:
        A, b = honest(self, rows, first, stop, grids)
        upper, columns = np.triu_indices(rows.dimension)
        for task in range(first, stop):
            total = rows.weight[rows.start[task] : rows.start[task + 1]].sum()
            A[task - first, upper == columns] += truncate(0.5 * total, grids[0])
        return A, b

    monkeypatch.setattr(CpuEngine, "statistics", with_lambda)
    assert caught(ridge(ap.AdaptiveWeights()), EXTRA)
