"""Losses and numbers at the edge of what a computer can hold do not get past the clipping."""

import math
from typing import Any

import numpy as np
import pytest

import apportion as ap
from tests.soundness.harness import (
    FEATURE_BOUND,
    LABEL_BOUND,
    Fit,
    Tape,
    check,
    descent,
    neighbors,
    recording,
)

TINY = {
    "user": np.full(2, 15),
    "task": np.array([0, 1]),
    "features": np.array([[1e-170, 0.0, 0.0], [1e-140, 0.0, 0.0]]),
    "labels": np.array([-0.7, 0.7]),
}
ODD = {
    "steep": lambda z, y: -y / (abs(z) + 1e-300),
    "infinite": lambda z, y: math.exp(2000.0 * (z - y + 2.0)),
    "not a number": lambda z, y: math.log(y) - 1.0 + 0.0 * z,
    "divides by zero": lambda z, y: -1.0 / (y - 0.7) + 0.0 * z,
    "huge": lambda z, y: 1e300 * (z - y),
}


def odd(name: str, **settings: Any) -> Fit:
    loss = ap.Loss(name, value=math.hypot, derivative=ODD[name])
    return descent(ap.UniformWeights(), loss=loss, gradient_bound=1e-3, **settings)


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("clip", ["user", "row"])
@pytest.mark.parametrize("name", ODD)
def test_odd_derivatives(name: str, clip: str, engine: str) -> None:
    fit = odd(name, clip=clip, engine=engine)
    check(fit, *neighbors(TINY))
    said = Tape()
    with recording(said):  # nor is anything said about a user's numbers
        fit(neighbors(TINY)[0])
    logged = [line for line in said.said if line.startswith("log: ")]
    assert [line for line in said.said if line not in logged] == ["printed: ", "written: b''"]
    other = Tape()
    with recording(other):  # of a training on fewer users the same is logged
        fit(neighbors(TINY)[1])
    assert logged == [line for line in other.said if line.startswith("log: ")]


@pytest.mark.parametrize("clip", ["user", "row"])
@pytest.mark.parametrize("scale", [1e45, 1e-45])
def test_bounds_whose_squares_leave_the_range_of_numbers(clip: Any, scale: float) -> None:
    giant: dict[str, Any] = {
        "user": np.full(12, 15),
        "task": np.arange(12),
        "features": np.full((12, 3), 1e3 * scale),
        "labels": np.full(12, 1e3 * scale),
    }

    def fit(data: ap.TaskData) -> Any:
        return ap.MultiTaskDescent(
            feature_bound=FEATURE_BOUND * scale,
            label_bound=LABEL_BOUND * scale,
            steps=ap.Steps(3, clip=clip),
            allocation=ap.UniformWeights(),
            noise_seed=1,
        ).fit(data)

    ratios = [change.ratio for change in check(fit, *neighbors(giant))]
    assert ratios[0] > 0.9999


def test_bounds_beyond_all_reason_are_refused() -> None:
    data = ap.simulate_tasks(users=20, tasks=3, tasks_per_user=1)
    with pytest.raises(ap.ParameterError, match="gradient_bound"):
        ap.MultiTaskDescent(feature_bound=1e78, label_bound=1e78).fit(data)
