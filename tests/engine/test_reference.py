"""The reference engine asks the twins; a loss of one's own is called row by row."""

import math
from typing import Any

import numpy as np
import pytest

from apportion.engine.machine import arithmetic
from apportion.engine.reference import ReferenceEngine, TwinKernels
from apportion.tasks import losses
from apportion.tasks.losses import Loss
from apportion.twins import gradients, sums

BOUND, GRID = 0.5, 2.0**-20


def own(margin: float, label: float) -> float:
    return 0.5 * margin - label


def wrong(margin: float, label: float) -> float:
    raise AssertionError("a built-in loss is not called row by row")


def examples() -> dict[str, Any]:
    """Two users with two rows each, in two tasks."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(4, 3))
    return {
        "features": features,
        "norms": np.linalg.norm(features, axis=1),
        "feature_row": np.arange(4),
        "label": rng.normal(size=4),
        "weight": np.array([0.6, 0.8, 1.0, 0.5]),
        "coef": rng.normal(size=(2, 3)),
    }


def expected(derivative: Any, *, of_users: bool) -> np.ndarray:
    given, task = examples(), [0, 1, 0, 1]
    parts = np.zeros((4, 2, 3))
    for row in range(4):
        x, theta = given["features"][row], given["coef"][task[row]]
        gradient = derivative(float(theta @ x), float(given["label"][row])) * x
        if not of_users:
            gradient *= min(1.0, BOUND / np.linalg.norm(gradient))
        parts[row, task[row]] = given["weight"][row] * gradient
    if of_users:
        users = parts.reshape(2, 2, 2, 3).sum(axis=1)
        norms = np.linalg.norm(users.reshape(2, -1), axis=1)
        return (users * np.minimum(1.0, BOUND / norms)[:, None, None]).sum(axis=0)
    return parts.sum(axis=0)


def found(loss: Loss, *, of_users: bool) -> np.ndarray:
    given, kernels = examples(), TwinKernels()
    coef = given.pop("coef")
    order = np.arange(4) if of_users else np.array([0, 2, 1, 3])  # by task
    rows = [given["features"], given["norms"]]
    rows += [given[name][order] for name in ("feature_row", "label", "weight")]
    more: dict[str, Any] = {"loss": loss, "bound": BOUND, "grid": GRID}
    if of_users:
        return kernels.user_gradients(
            *rows, np.array([0, 1, 0, 1]), np.array([0, 2, 4]), coef, **more
        )
    return kernels.row_gradients(*rows, np.array([0, 2, 4]), coef, **more)


@pytest.mark.parametrize("of_users", [False, True])
@pytest.mark.parametrize(
    ("loss", "derivative"),
    [
        (Loss("own", lambda z, y: 0.25 * z * z - y * z, own), own),
        (Loss("squared", wrong, wrong, kernel=("squared", 0.0)), losses.squared().derivative),
        (Loss("huber", wrong, wrong, kernel=("huber", 0.7)), losses.huber(0.7).derivative),
        (Loss("absolute", wrong, wrong, kernel=("absolute", 0.0)), losses.absolute().derivative),
    ],
    ids=["own", "squared", "huber", "absolute"],
)
def test_clipped_gradients_of_any_loss(loss: Loss, derivative: Any, of_users: bool) -> None:
    units = found(loss, of_users=of_users)
    assert units.dtype == np.int64
    np.testing.assert_allclose(units * GRID, expected(derivative, of_users=of_users), atol=5 * GRID)


def test_a_user_of_slope_one_is_clipped_too() -> None:
    units = TwinKernels().user_gradients(
        np.array([[3.0, 4.0]]), np.array([5.0]), np.zeros(1, int), np.zeros(1), np.ones(1),
        np.zeros(1, int), np.array([0, 1]), np.array([[1.0, 0.0]]),
        loss=losses.absolute(), bound=BOUND, grid=GRID,
    )  # fmt: skip
    np.testing.assert_allclose(units * GRID, [[0.3, 0.4]], atol=2 * GRID)


def test_slopes_of_built_in_losses_where_they_bend() -> None:
    one = np.ones(1)
    for loss, margin, expected in (
        ("absolute", 1.0, 0.0),
        ("absolute", 1.5, 1.0),
        ("absolute", 0.5, -1.0),
        ("logistic", 800.0, -1 / (1 + math.exp(700))),
        ("given", 0.3, 1.0),
    ):
        assert gradients.derivatives(margin * one, one, loss, 0.0).tolist() == [expected]
    with pytest.raises(ValueError, match="no loss 'else'"):
        gradients.derivatives(one, one, "else", 0.0)


def test_rows_are_counted_where_there_are_no_values() -> None:
    task = np.array([0, 2, 2, 0, 2])
    counts = sums.number_sums(task, None, 4, 1.0)
    assert counts.tolist() == [2, 0, 3, 0]
    assert counts.dtype == np.int64
    values = np.array([0.5, 1.5, -1.5, 7.9, 1e300])
    assert sums.number_sums(task, values, 4, 1.0).tolist() == [7, 0, 0, 0]


def test_what_could_change_a_bit_is_said() -> None:
    assert ReferenceEngine().identity() == {"engine": "reference", **arithmetic()}
