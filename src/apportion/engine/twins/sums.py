"""Exact sums over users, task by task: the twin of native/sums.cpp.

Features are 16-bit numbers x of norm at most LONGEST, in units of ``unit``. Every row's part is brought to
whole numbers of a grid by a rule of that row alone, and these are added: any order gives the same.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.engine.twins.users import LONGEST

Array = NDArray[np.float64]
Shorts = NDArray[np.int16]
Units = NDArray[np.int64]
Integers = NDArray[np.integer[Any]]

_BEYOND = 2.0**60  # a factor of this size belongs to features that are all zero
_MOST_UNITS = 2.0**28  # of a single number
_BLOCK = 2**14  # rows


def gram_sums(
    features: Shorts,
    d: int,
    user: Integers,
    label: Array,
    share: Array | None,
    weight: Array,
    start: Integers,
    unit: float,
    grid: float,
    grid_of_b: float,
) -> tuple[Units, Units]:
    """For each task, sums of w x x' (packed upper triangle) and of w y x, in units of the grids.

    A row gives z z' with z = round(g x), g = (r - slack) / LONGEST, r being sqrt(w) LONGEST unit / sqrt(grid)
    and slack = sqrt(d) / 2, by which rounding may move a vector: so |z| <= r. In b it has this weight, too.
    Shapes [tasks, d (d + 1) / 2] and [tasks, d].
    """
    longest = LONGEST * unit / math.sqrt(grid)
    per_square = unit / grid_of_b / longest / longest
    lengths = np.sqrt(weight) * longest
    length = np.maximum(lengths - math.sqrt(d) / 2, 0.0)
    factor = (length * (1.0 / LONGEST)).astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        y = label if share is None else label * share[user]
        label_factor = _within(length * length * y * per_square)
    tasks, upper = len(start) - 1, np.triu_indices(d)
    second = np.zeros((tasks, d * (d + 1) // 2), dtype=np.int64)
    moments = np.zeros((tasks, d), dtype=np.int64)
    for task, rows in _blocks(start):
        x = features[user[rows], :d].astype(np.float32)
        z = np.rint(x * factor[rows, None]).astype(np.float64)
        second[task] += (z.T @ z)[upper].astype(np.int64)  # below 2^53: exact
        moments[task] += _parts(x, label_factor[rows])
    return second, moments


def label_sums(
    features: Shorts,
    d: int,
    user: Integers,
    label: Array,
    share: Array | None,
    weight: Array,
    start: Integers,
    unit: float,
    grid: float,
) -> Units:
    """For each task, the sum of w y x in units of the grid, every part rounded towards zero, [tasks, d]."""
    with np.errstate(over="ignore", invalid="ignore"):
        y = label if share is None else label * share[user]
        factor = _within(weight * y * (unit / grid))
    moments = np.zeros((len(start) - 1, d), dtype=np.int64)
    for task, rows in _blocks(start):
        moments[task] += _parts(features[user[rows], :d].astype(np.float32), factor[rows])
    return moments


def float_sums(
    features: Array,
    user: Integers,
    label: Array,
    share: Array | None,
    weight: Array,
    start: Integers,
) -> tuple[Array, Array]:
    """For each task, sums of w x x' (packed upper triangle) and of w y x in float64, without a grid."""
    tasks, d = len(start) - 1, features.shape[1]
    upper = np.triu_indices(d)
    second, moments = np.zeros((tasks, d * (d + 1) // 2)), np.zeros((tasks, d))
    y = label if share is None else label * share[user]
    for task, rows in _blocks(start):
        x = features[user[rows]]
        second[task] += ((weight[rows, None] * x).T @ x)[upper]
        moments[task] += (weight[rows] * y[rows]) @ x
    return second, moments


def number_sums(task: Integers, value: Array | None, tasks: int, grid: float) -> Units:
    """For each task, the sum of trunc(value / grid), or the number of rows without values, [tasks].

    A part that is not below 2^28 units gives zero: no bounded one is so large.
    """
    if value is None:
        return np.bincount(task, minlength=tasks).astype(np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        units = value / grid
        units = np.where(np.abs(units) < _MOST_UNITS, np.trunc(units), 0.0)
    sums = np.zeros(tasks, dtype=np.int64)
    np.add.at(sums, task, units.astype(np.int64))
    return sums


def _within(factor: Array) -> NDArray[np.float32]:
    return np.where(np.abs(factor) < _BEYOND, factor, 0.0).astype(np.float32)


def _parts(x: NDArray[np.float32], factor: NDArray[np.float32]) -> Units:
    """The sum of trunc(factor x) over rows; a number that is not below 2^31 gives zero."""
    parts = np.trunc(x * factor[:, None])
    units: Units = np.where(np.abs(parts) < 2.0**31, parts, 0).astype(np.int64).sum(axis=0)
    return units


def _blocks(start: Integers) -> list[tuple[int, slice]]:
    """The rows of each task, some at a time."""
    return [
        (task, slice(first, min(first + _BLOCK, int(start[task + 1]))))
        for task in range(len(start) - 1)
        for first in range(int(start[task]), int(start[task + 1]), _BLOCK)
    ]
