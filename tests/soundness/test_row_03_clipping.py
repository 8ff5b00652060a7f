"""Row 3: labels and features are clipped to public bounds, and the noise is scaled by them."""

from dataclasses import replace
from typing import Any

import pytest

import apportion as ap
from tests.soundness.harness import (
    FEATURE_BOUND,
    LABEL_BOUND,
    caught,
    compare,
    neighbors,
    plant,
    ridge,
    worst_users,
)

EXTRA = worst_users()["at the bound in all tasks"]


def test_the_noise_is_scaled_by_the_bounds() -> None:
    changes = compare(ridge(ap.UniformWeights()), *neighbors(EXTRA))
    sensitivity = {change.name: change.sensitivity for change in changes}
    assert sensitivity["statistics.A"] == pytest.approx(FEATURE_BOUND**2)
    assert sensitivity["statistics.b"] == pytest.approx(FEATURE_BOUND * LABEL_BOUND)


def test_missing_clipping_of_labels_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    # Twice the bound: what is far beyond it gives nothing at all.
    def fault(honest: Any) -> Any:
        return lambda self, query: honest(self, replace(query, label_bound=2 * query.label_bound))

    plant(monkeypatch, "_bounded_labels", fault)
    assert caught(ridge(ap.UniformWeights()), EXTRA)


@pytest.mark.parametrize("times", [1.001, 2.0])
def test_features_beyond_the_bound_are_caught(
    monkeypatch: pytest.MonkeyPatch, times: float
) -> None:
    def fault(honest: Any) -> Any:
        def longer(self: Any, bound: float, **given: Any) -> None:
            honest(self, bound, **given)
            self._unit *= times

        return longer

    plant(monkeypatch, "bound_features", fault)
    # Compiled kernels refuse what is far beyond the bound.
    engine = "auto" if times < 1.1 else "reference"
    assert caught(ridge(ap.UniformWeights(), engine=engine), EXTRA)
