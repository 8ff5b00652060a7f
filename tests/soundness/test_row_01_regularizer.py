"""Row 1: lambda I is not part of the released sums."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.engine.queries import Statistics
from apportion.privacy import truncated
from tests.soundness.harness import caught, check, neighbors, plant, ridge, worst_users

EXTRA = worst_users()["at the bound in all tasks"]


def test_the_regularizer_does_not_touch_the_sums() -> None:
    check(ridge(ap.AdaptiveWeights(), regularization=50.0), *neighbors(EXTRA))


def test_a_regularizer_inside_the_sums_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(honest: Any) -> Any:
        def with_lambda(self: Any, query: Statistics, of_gram: float, *rest: Any) -> Iterator[Any]:
            weights = self._bounded_weights()
            totals = np.bincount(weights.task, weights.values, minlength=self.tasks)
            upper, columns = np.triu_indices(self._dimension)
            for first, (A, b) in honest(self, query, of_gram, *rest):
                more = truncated(0.5 * totals[first : first + len(A)], of_gram)
                A[:, upper == columns] += more[:, None]
                yield first, (A, b)

        return with_lambda

    plant(monkeypatch, "_statistics", fault)
    assert caught(ridge(ap.AdaptiveWeights()), EXTRA)
