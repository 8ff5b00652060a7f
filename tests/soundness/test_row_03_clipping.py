"""Row 3: labels and features are clipped to public bounds, and the noise is scaled by them."""

from typing import Any

import pytest

import apportion as ap
from apportion.tasks import ridge as ridge_module
from tests.soundness.harness import (
    FEATURE_BOUND,
    LABEL_BOUND,
    caught,
    compare,
    neighbours,
    ridge,
    worst_users,
)

EXTRA = worst_users()["at the bound in all tasks"]


def test_the_noise_is_scaled_by_the_bounds() -> None:
    changes = compare(ridge(ap.UniformWeights()), *neighbours(EXTRA))
    sensitivity = {change.name: change.sensitivity for change in changes}
    assert sensitivity["statistics.A"] == pytest.approx(FEATURE_BOUND**2)
    assert sensitivity["statistics.b"] == pytest.approx(FEATURE_BOUND * LABEL_BOUND)


@pytest.mark.parametrize("clip", ["clip_values", "clip_rows"])
def test_missing_clipping_is_caught(monkeypatch: pytest.MonkeyPatch, clip: str) -> None:
    def no_clipping(values: Any, bound: float) -> Any:
        del bound
        return values

    monkeypatch.setattr(ridge_module, clip, no_clipping)
    assert caught(ridge(ap.UniformWeights()), EXTRA)
