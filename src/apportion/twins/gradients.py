"""Sums over users of clipped gradients: the twin of native/gradients.cpp.

The gradient of an example is derivative(theta_i . x, y) x. A part is rounded toward zero to whole units of
the grid, so no norm becomes larger; an example whose derivative is not finite, or whose features are smaller
than any data (norm below 1e-150), gives nothing.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.privacy import rounding
from apportion.privacy.bounds import row_sums

Array = NDArray[np.float64]
Units = NDArray[np.int64]
Integers = NDArray[np.integer[Any]]
Derivative = Callable[[float, float], float]

_BLOCK = 2**14  # rows


def derivatives(margin: Array, label: Array, loss: str, parameter: float) -> Array:
    """The derivative of a built-in loss in the margin, row by row; NaN where there is none."""
    with np.errstate(over="ignore", invalid="ignore"):
        match loss:
            case "squared":
                return margin - label
            case "logistic":
                return -label / (1.0 + np.exp(np.minimum(label * margin, 700.0)))
            case "hinge":
                return -label * np.clip((1.0 - label * margin) / parameter, 0.0, 1.0)
            case "huber":
                return np.clip(margin - label, -parameter, parameter)
            case "absolute":
                return np.where(margin > label, 1.0, np.where(margin < label, -1.0, 0.0))
            case "poisson":
                return np.exp(np.minimum(margin, parameter)) - label
            case "given":
                return label
    raise ValueError(f"there is no loss {loss!r}")


def margins(features: Array, feature_row: Integers, task: Integers, coef: Array) -> Array:
    """theta_i . x of every row, [rows]."""
    found = np.empty(len(feature_row))
    for first in range(0, len(found), _BLOCK):
        some = slice(first, first + _BLOCK)
        x = features[feature_row[some]]
        with np.errstate(over="ignore", invalid="ignore"):
            found[some] = row_sums(coef[task[some]] * x)
    return found


def row_gradients(
    features: Array,
    norms: Array,
    feature_row: Integers,
    label: Array,
    weight: Array,
    start: Integers,
    coef: Array,
    loss: str | Derivative,
    parameter: float,
    bound: float,
    grid: float,
) -> Any:
    """Sum over examples of w times the example's gradient, clipped to ``bound``, [tasks, d].

    In units of the grid, int64; in float64 if the grid is zero. Rows are start[i] : start[i + 1] of task i.
    """
    task = np.repeat(np.arange(len(start) - 1), np.diff(start))
    slope = _slopes(features, norms, feature_row, label, task, coef, loss, parameter)
    with np.errstate(over="ignore", invalid="ignore"):
        excess = np.abs(slope) * (norms[feature_row] / bound)
    slope = weight * rounding.shortened(slope, excess)
    return _sum(features, feature_row, task, slope, coef, grid)


def user_gradients(
    features: Array,
    norms: Array,
    feature_row: Integers,
    label: Array,
    weight: Array,
    task: Integers,
    start: Integers,
    coef: Array,
    loss: str | Derivative,
    parameter: float,
    bound: float,
    grid: float,
) -> Units:
    """Sum over users of the user's weighted gradient, clipped as a whole to ``bound``, [tasks, d], in units.

    Its norm is bounded by that of the vector that holds, for each task, the sum of the norms of the user's
    weighted examples there. Rows are start[u] : start[u + 1] of user u, sorted by task.
    """
    slope = weight * _slopes(features, norms, feature_row, label, task, coef, loss, parameter)
    with np.errstate(over="ignore", invalid="ignore"):
        parts = np.where(slope != 0.0, np.abs(slope) * (norms[feature_row] / bound), 0.0)
    for user in range(len(start) - 1):
        own = slice(int(start[user]), int(start[user + 1]))
        _, place = np.unique(task[own], return_inverse=True)
        with np.errstate(over="ignore"):
            excess = math.sqrt(np.sum(np.bincount(place, parts[own]) ** 2))
        slope[own] = rounding.shortened(slope[own], np.float64(excess))
    units: Units = _sum(features, feature_row, task, slope, coef, grid)
    return units


def _slopes(
    features: Array,
    norms: Array,
    feature_row: Integers,
    label: Array,
    task: Integers,
    coef: Array,
    loss: str | Derivative,
    parameter: float,
) -> Array:
    """The derivative of every row; zero where it is not usable."""
    z = margins(features, feature_row, task, coef)
    if isinstance(loss, str):
        slope = derivatives(z, label, loss, parameter)
    else:  # one row's margin and label alone: it cannot mix users
        slope = np.array([loss(*each) for each in zip(z.tolist(), label.tolist(), strict=True)])
    return rounding.usable_slopes(slope, norms[feature_row])


def _sum(
    features: Array, feature_row: Integers, task: Integers, slope: Array, coef: Array, grid: float
) -> Any:
    total = np.zeros(coef.shape, dtype=np.int64 if grid else np.float64)
    for first in range(0, len(slope), _BLOCK):
        some = slice(first, first + _BLOCK)
        x = features[feature_row[some]]
        if grid:
            np.add.at(total, task[some], rounding.gradients(x, slope[some], grid))
        else:
            np.add.at(total, task[some], slope[some, None] * x)
    return total
