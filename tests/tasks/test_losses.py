"""Losses: derivatives and constants, checked numerically."""

import math
import sys

import numpy as np
import pytest

import apportion as ap
from apportion.engine import find_engine, queries
from apportion.native import kernels
from apportion.tasks.losses import LOSSES, Loss, find_loss, hinge, huber, poisson
from apportion.twins import gradients as twins
from tests.engine.contract.cases import make_rows, ready

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
def test_kernels_have_the_same_derivatives(loss: Loss) -> None:
    """Built-in losses are known to kernels by name and parameter: the same function."""
    rng = np.random.default_rng(0)
    z = np.concatenate([MARGINS, [-800.0, 40.0, 0.0, -0.0, 1e300, -1e300]])
    for y in [*labels(loss), 0.7]:
        label = np.full(len(z), y) * rng.choice([1.0, -1.0], len(z))
        slopes = loss.slopes(z, label)
        expected = [loss.derivative(*each) for each in zip(z, label, strict=True)]
        np.testing.assert_array_equal(slopes, expected)
        assert loss.kernel is not None
        np.testing.assert_allclose(twins.derivatives(z, label, *loss.kernel), slopes, 1e-15, 5e-16)
        if kernels is not None:
            found = kernels.derivatives(z, label, *loss.kernel)
            np.testing.assert_allclose(found, slopes, 1e-15, 5e-16)


def test_every_loss_has_a_kernel_of_its_own() -> None:
    known = [loss.kernel for loss in EVERY]
    assert len(set(known)) == len(EVERY)


def pseudo_huber() -> Loss:
    return Loss(
        "pseudo-Huber",
        value=lambda z, y: math.sqrt(1 + (z - y) ** 2) - 1,
        derivative=lambda z, y: (z - y) / math.sqrt(1 + (z - y) ** 2),
        lipschitz=1.0,
        smoothness=1.0,
    )


@pytest.fixture(params=["numba", "without numba"])
def compiles(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a loss of one's own is compiled."""
    if request.param == "numba":
        pytest.importorskip("numba")
        return True
    monkeypatch.setitem(sys.modules, "numba", None)
    return False


def test_only_with_numba_there_is_an_address(compiles: bool) -> None:
    assert bool(pseudo_huber().address) == compiles


@pytest.mark.parametrize("clip", ["user", "row"])
@pytest.mark.parametrize("grid", [2.0**-26, 2.0**-10])
def test_a_loss_of_ones_own_gives_the_same_sums_everywhere(
    compiles: bool, clip: queries.Clip, grid: float
) -> None:
    loss, rows = pseudo_huber(), make_rows(150, 8, 6, 6, seed=1)
    assert bool(loss.address) == compiles
    coef = np.random.default_rng(2).normal(size=(8, 6))
    query = queries.Gradients(coef, loss, 0.4, 1.3, clip)
    rows_of_task = np.bincount(rows.task, minlength=8)[:, None]
    [(_, (mine,))], [(_, (twin,))] = (
        ready(find_engine(name), rows, whole=False).sums(query, (grid,))
        for name in ("auto", "reference")
    )
    assert twin.any()
    assert (np.abs(mine - twin) <= rows_of_task).all()  # margins are floating-point numbers
    [(_, (mine,))], [(_, (twin,))] = (
        ready(find_engine(name), rows, whole=False).exact_sums(query)
        for name in ("auto", "reference")
    )
    np.testing.assert_allclose(mine, twin, rtol=1e-9, atol=1e-12)


def test_a_built_in_loss_written_anew_trains_the_same_model(compiles: bool) -> None:
    data = ap.simulate_tasks(users=300, tasks=4, tasks_per_user=2)
    own = Loss("mine", lambda z, y: (z - y) ** 2 / 2, lambda z, y: z - y, smoothness=1.0)
    models = [
        ap.MultiTaskDescent(loss=loss, steps=3, noise_seed=1).fit(data) for loss in ("squared", own)
    ]
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, atol=1e-6)
    assert compiles == bool(own.address)


def test_slopes_are_nan_where_they_are_undefined() -> None:
    odd = Loss("odd", math.hypot, lambda z, y: math.log(z) / y)
    found = odd.slopes(np.array([1.0, -1.0, 2.0]), np.array([2.0, 1.0, 0.0]))
    np.testing.assert_array_equal(found, [0.0, np.nan, np.nan])


@pytest.mark.parametrize("loss", ["unknown", 3, None])
def test_unknown_losses(loss: str) -> None:
    with pytest.raises(ap.ParameterError, match="loss must be a Loss or one of squared"):
        find_loss(loss)


def test_a_loss_that_cannot_be_compiled() -> None:
    pytest.importorskip("numba")
    odd = Loss("odd", value=math.hypot, derivative=lambda z, y: math.fsum(open(f"{z}{y}")))  # noqa: PTH123, SIM115
    with pytest.raises(ap.ParameterError, match="cannot be compiled"):
        odd.address  # noqa: B018


@pytest.mark.parametrize("make", [hinge, huber, poisson])
def test_bad_settings(make: type) -> None:
    with pytest.raises(ap.ParameterError):
        make(math.nan)
    with pytest.raises(ap.ParameterError):
        Loss("l", math.hypot, math.hypot, lipschitz=-1.0)
