"""Losses: derivatives and constants, checked numerically."""

import math

import numpy as np
import pytest

import apportion as ap
from apportion.tasks.losses import LOSSES, Loss, find_loss, hinge, huber, poisson

MARGINS = np.linspace(-6, 6, 401) + 1e-4
EVERY = [make() for make in LOSSES.values()] + [hinge(0.1), huber(0.2), poisson(1.0)]


def labels(loss: Loss) -> list[float]:
    return [-1.0, 1.0] if loss.name.startswith(("logistic", "hinge")) else [-1.0, 0.0, 0.3, 1.0]


@pytest.mark.parametrize("loss", EVERY, ids=repr)
def test_derivative_and_constants(loss: Loss) -> None:
    for y in labels(loss):
        value = np.array([loss.value(z, y) for z in MARGINS])
        slope = np.array([loss.derivative(z, y) for z in MARGINS])
        between = np.array([loss.derivative(z, y) for z in (MARGINS[1:] + MARGINS[:-1]) / 2])
        gap = MARGINS[1] - MARGINS[0]
        bend = np.diff(slope) / gap
        # Midpoint rule: exact up to the third derivative, or one kink within an interval.
        np.testing.assert_allclose(
            np.diff(value) / gap, between, atol=0.51 * gap * bend.max() + 1e-3
        )
        assert np.abs(slope).max() <= loss.lipschitz * (1 + 1e-12)
        assert bend.min() >= -1e-9  # convex
        assert bend.max() <= loss.smoothness * (1 + 1e-9)


@pytest.mark.parametrize("loss", EVERY, ids=repr)
def test_constants_are_not_needlessly_large(loss: Loss) -> None:
    slopes = np.array([[loss.derivative(z, y) for z in MARGINS] for y in labels(loss)])
    if math.isfinite(loss.lipschitz):
        assert np.abs(slopes).max() > 0.9 * loss.lipschitz
    if math.isfinite(loss.smoothness):
        assert np.diff(slopes).max() / (MARGINS[1] - MARGINS[0]) > 0.9 * loss.smoothness


@pytest.mark.parametrize("loss", EVERY, ids=repr)
def test_compiled_derivatives_agree(loss: Loss) -> None:
    for z, y in [(-3.0, 1.0), (0.2, -1.0), (5.0, 0.5), (-800.0, 1.0), (40.0, -1.0)]:
        assert loss.compiled.ctypes(z, y) == pytest.approx(loss.derivative(z, y))


@pytest.mark.parametrize("loss", ["unknown", 3, None])
def test_unknown_losses(loss: str) -> None:
    with pytest.raises(ap.ParameterError, match="loss must be a Loss or one of squared"):
        find_loss(loss)


def test_a_loss_that_cannot_be_compiled() -> None:
    odd = Loss("odd", value=math.hypot, derivative=lambda z, y: math.fsum(open(f"{z}{y}")))  # noqa: PTH123, SIM115
    with pytest.raises(ap.ParameterError, match="cannot be compiled"):
        odd.compiled  # noqa: B018


@pytest.mark.parametrize("make", [hinge, huber, poisson])
def test_bad_settings(make: type) -> None:
    with pytest.raises(ap.ParameterError):
        make(math.nan)
    with pytest.raises(ap.ParameterError):
        Loss("l", math.hypot, math.hypot, lipschitz=-1.0)
