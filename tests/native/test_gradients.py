"""Sums of clipped gradients, against their twins and their bounds."""

import ctypes
import math
from typing import Any

import numpy as np
import pytest

from apportion.native import kernels
from apportion.privacy import UserBound
from apportion.tasks import losses
from apportion.twins import gradients as twins

pytestmark = pytest.mark.skipif(kernels is None, reason="no compiled kernels")
LOSSES = [
    ("squared", 0.0, losses.squared()),
    ("logistic", 0.0, losses.logistic()),
    ("hinge", 0.5, losses.hinge(0.5)),
    ("huber", 0.7, losses.huber(0.7)),
    ("absolute", 0.0, losses.absolute()),
    ("poisson", 3.0, losses.poisson(3.0)),
]
NAMES = [name for name, *_ in LOSSES]
USERS, TASKS = 60, 9
DIMENSIONS = [*range(1, 71), 127, 128, 129]


def examples(d: int, seed: int = 0, repeats: int = 1) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(200, d))
    features[0], features[1] = 0.0, 1e-200
    user, task = (each.ravel() for each in np.meshgrid(range(USERS), range(TASKS), indexing="ij"))
    kept = rng.uniform(size=len(user)) < 0.7
    user, task = np.repeat(user[kept], 2), np.repeat(task[kept], 2)  # two rows a pair
    user = np.concatenate([user + USERS * i for i in range(repeats)])
    task = np.tile(task, repeats).astype(np.int32)
    weight = rng.uniform(size=len(user)) / 2
    weight[::13] = 0.0
    return {
        "features": features,
        "norms": np.linalg.norm(features, axis=1),
        "feature_row": rng.integers(0, 200, len(user)).astype(np.int32),
        "label": np.sign(rng.normal(size=len(user))),
        "weight": weight,
        "task": task,
        "start": np.concatenate([[0], np.cumsum(np.bincount(user, minlength=USERS * repeats))]),
        "coef": rng.normal(size=(TASKS, d)),
    }


def by_task(given: dict[str, Any]) -> dict[str, Any]:
    order = np.argsort(given["task"], kind="stable")
    found = dict(given)
    for name in ("feature_row", "label", "weight"):
        found[name] = given[name][order]
    task = found.pop("task")
    found["start"] = np.concatenate([[0], np.cumsum(np.bincount(task, minlength=TASKS))])
    return found


def order_of(given: dict[str, Any]) -> Any:
    names = ["features", "norms", "feature_row", "label", "weight", "task", "start", "coef"]
    return [given[name] for name in names if name in given]


def rows_per_task(given: dict[str, Any]) -> np.ndarray:
    return np.bincount(given["task"], minlength=TASKS)[:, None]


@pytest.mark.parametrize(("name", "parameter", "loss"), LOSSES, ids=NAMES)
def test_derivatives(name: str, parameter: float, loss: losses.Loss, isa: str) -> None:
    rng = np.random.default_rng(0)
    z = np.concatenate([rng.normal(size=3000) * 10.0 ** rng.integers(-12, 5, 3000), [0.0, -0.0]])
    y = np.where(rng.uniform(size=len(z)) < 0.5, -1.0, 1.0)
    found = kernels.derivatives(z, y, name, parameter)
    expected = np.array([loss.derivative(*each) for each in zip(z, y, strict=True)])
    np.testing.assert_allclose(
        found, expected, rtol=1e-15 if name == "poisson" else 5e-16, atol=5e-16
    )
    np.testing.assert_allclose(found, twins.derivatives(z, y, name, parameter), 1e-15, 5e-16)


def test_exp_is_right_to_the_last_place(isa: str) -> None:
    rng = np.random.default_rng(0)
    z = np.concatenate(
        [rng.uniform(-50, 50, 20_000), rng.uniform(-1, 1, 2000), np.arange(-50.0, 51)]
    )
    found = kernels.derivatives(z, np.zeros_like(z), "poisson", 50.0)
    error = np.abs(found - np.exp(z)) / np.spacing(np.exp(z))
    assert error.max() <= 1.0
    edge = np.array([-1e300, -np.inf, np.inf, np.nan, -708.5, 51.0])
    found = kernels.derivatives(edge, np.zeros(6), "poisson", 50.0)
    assert (found[:2] == 0.0).all()
    assert np.isnan(found[3])
    assert found[2] == found[5]


@pytest.mark.parametrize("label", [np.nan, np.inf])
def test_slopes_that_are_no_numbers_add_nothing(label: float, isa: str) -> None:
    given = examples(3)
    given["label"][:] = label
    grid = UserBound(0.5, "").grid(1.0)
    more = ("squared", 0.0, 0, 0.5, grid, 1)
    assert not kernels.row_gradients(*order_of(by_task(given)), *more).any()
    assert not kernels.user_gradients(*order_of(given), *more).any()


@pytest.mark.parametrize("d", DIMENSIONS)
def test_row_gradients(d: int, isa: str) -> None:
    given = examples(d)
    name, parameter, _ = LOSSES[d % 6]
    rows = order_of(by_task(given))
    for bound in (0.5, 50.0):
        grid = UserBound(bound, "").grid(1.0)
        expected = twins.row_gradients(*(*rows, name, parameter, bound, grid))
        for threads in (1, 3):
            found = kernels.row_gradients(*rows, name, parameter, 0, bound, grid, threads)
            assert found.dtype == np.int64
            assert (np.abs(found - expected) <= rows_per_task(given)).all()
        assert expected.any()
    found = kernels.float_gradients(*rows, name, parameter, 0, math.inf, 2)
    expected = twins.row_gradients(*(*rows, name, parameter, math.inf, 0.0))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_user_gradients(d: int, isa: str) -> None:
    given = examples(d)
    name, parameter, _ = LOSSES[(d + 1) % 6]
    for bound in (0.5, 50.0):
        grid = UserBound(bound, "").grid(1.0)
        expected = twins.user_gradients(*(*order_of(given), name, parameter, bound, grid))
        for threads in (1, 3):
            args = (*order_of(given), name, parameter, 0, bound, grid, threads)
            found = kernels.user_gradients(*args)
            assert (np.abs(found - expected) <= rows_per_task(given)).all()
        assert expected.any()


@pytest.mark.parametrize("d", [1, 7, 8, 33])
def test_the_same_bits_for_all(d: int) -> None:
    given = examples(d, repeats=20)
    rows, found = by_task(given), set()
    before = kernels.isa()
    for isa in kernels.isas():
        kernels.use_isa(isa)
        for threads in (1, 3):
            parts = []
            for name, parameter, _ in LOSSES:
                settings = (name, parameter, 0, 0.7)
                parts.append(kernels.row_gradients(*order_of(rows), *settings, 2.0**-26, threads))
                parts.append(kernels.float_gradients(*order_of(rows), *settings, threads))
                parts.append(kernels.user_gradients(*order_of(given), *settings, 2.0**-26, threads))
            found.add(b"".join(each.tobytes() for each in parts))
    kernels.use_isa(before)
    assert len(found) == 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("odd", [1e300, -1e300, np.inf, np.nan, 1e-300, 0.0])
def test_a_users_part_stays_within_its_bound(name: str, odd: float) -> None:
    given = examples(11)
    parameter = {each: value for each, value, _ in LOSSES}[name]
    given["label"][::5] = odd
    given["coef"][3] *= 1e200
    given["features"][5], given["norms"][5] = 1e200, np.sqrt(11) * 1e200
    for bound in (1e-3, 1.0, 1e3):
        grid = UserBound(bound, "").grid(1.0)
        for user in range(0, USERS, 7):
            own = slice(given["start"][user], given["start"][user + 1])
            alone = {
                **given,
                **{key: given[key][own] for key in ("feature_row", "label", "weight", "task")},
                "start": np.array([0, own.stop - own.start]),
            }
            part = kernels.user_gradients(*order_of(alone), name, parameter, 0, bound, grid, 1)
            assert np.linalg.norm(part.astype(float)) * grid <= bound * (1 + 1e-12)
            rows = by_task(alone)
            one = kernels.row_gradients(*order_of(rows), name, parameter, 0, bound, grid, 1)
            most = np.array(
                [
                    rows["weight"][i:j].sum()
                    for i, j in zip(rows["start"], rows["start"][1:], strict=False)
                ]
            )
            lengths = np.linalg.norm(one.astype(float), axis=1) * grid
            assert (lengths <= most * bound * (1 + 1e-12)).all()


def test_a_loss_of_ones_own() -> None:
    def derivative(z: float, y: float) -> float:
        return (z - y) / math.sqrt(1.0 + (z - y) ** 2)

    given = examples(7)
    pointer = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double)(derivative)
    address = ctypes.cast(pointer, ctypes.c_void_p).value
    grid = 2.0**-20
    expected = twins.user_gradients(*(*order_of(given), derivative, 0.0, 1.0, grid))
    args = order_of(given)
    found = kernels.user_gradients(*args, "function", 0.0, address, 1.0, grid, 1)
    assert (np.abs(found - expected) <= rows_per_task(given)).all()
    # Row by row without a compiler: the slopes are given.
    z = twins.margins(given["features"], given["feature_row"], given["task"], given["coef"])
    slopes = np.array([derivative(*each) for each in zip(z, given["label"], strict=True)])
    args = order_of({**given, "label": slopes})
    found = kernels.user_gradients(*args, "given", 0.0, 0, 1.0, grid, 1)
    assert (np.abs(found - expected) <= rows_per_task(given)).all()


def test_no_sum_overflows_at_the_limit(isa: str) -> None:
    # Numbers that break their bound give nothing; those at it are added up exactly.
    rows, ones = 70_000, np.ones(70_000)
    start, where = np.array([0, rows]), np.zeros(rows, np.int32)
    for norm, expected in ((1.0, rows * 2**27), (1e-140, 0)):
        args = [np.ones((1, 1)), np.array([norm]), where, ones, ones, start, np.zeros((1, 1))]
        label = ones if norm == 1.0 else ones * 1e300
        args[3] = label
        found = kernels.row_gradients(*args, "given", 0.0, 0, 1.0, 2.0**-27, 2)
        assert found[0, 0] == expected


def test_wrong_arrays_are_refused() -> None:
    given = examples(5)
    good = [*order_of(given), "logistic", 0.0, 0, 1.0, 2.0**-20, 1]
    kernels.user_gradients(*good)

    def refused(place: int, value: Any, error: type[Exception], name: str) -> None:
        with pytest.raises(error, match=name):
            kernels.user_gradients(*good[:place], value, *good[place + 1 :])

    features, norms, feature_row, label, weight, task, start, coef = good[:8]
    refused(0, features.astype(np.float32), TypeError, "features must be of dtype float64")
    refused(1, norms[1:], ValueError, "norms must have length")
    refused(2, feature_row + 100, ValueError, "feature_row holds numbers")
    refused(3, label[1:], ValueError, "label must have length")
    refused(4, weight * np.nan, ValueError, "weight must be from 0 to 1")
    refused(5, task + 1, ValueError, "task holds numbers")
    refused(5, task[::-1].copy(), ValueError, "the rows of a user must be sorted by task")
    refused(6, start[:-1], ValueError, "start must begin")
    refused(7, coef[:, 1:].copy(), ValueError, "coef's second axis must have length")
    refused(8, "cubed", ValueError, "there is no loss 'cubed'")
    refused(8, "function", ValueError, "needs a function's address")
    refused(11, 0.0, ValueError, "bound must be")
    refused(12, 2.0**-30, ValueError, "grid must not be below")
    refused(12, 0.0, ValueError, "grid must be from")
