"""Exact sums over users, task by task: the twin of native/sums.cpp.

Features are 16-bit numbers x of norm at most LONGEST, in units of ``unit``. Every row's part is brought to
whole numbers of a grid by a rule of that row alone, and these are added: any order gives the same.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.privacy import rounding

Array = NDArray[np.float64]
Shorts = NDArray[np.int16]
Units = NDArray[np.int64]
Integers = NDArray[np.integer[Any]]

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

    The rules are those of ``privacy.rounding``: a row gives z z' in A, and in b has the weight that z z'
    stands for. Shapes [tasks, d (d + 1) / 2] and [tasks, d].
    """
    longest = rounding.longest_root(unit, grid)
    per_square = unit / grid_of_b / longest / longest
    roots = rounding.roots_of_weights(weight, unit, d, grid)
    with np.errstate(over="ignore", invalid="ignore"):
        y = label if share is None else label * share[user]
        factor = roots * roots * y * per_square
    tasks, upper = len(start) - 1, np.triu_indices(d)
    second = np.zeros((tasks, d * (d + 1) // 2), dtype=np.int64)
    right = np.zeros((tasks, d), dtype=np.int64)
    for task, rows in _blocks(start):
        x = features[user[rows], :d]
        z = rounding.square_roots(x, roots[rows]).astype(np.float64)
        second[task] += (z.T @ z)[upper].astype(np.int64)  # below 2^53: exact
        right[task] += rounding.right_hand_sides(x, factor[rows]).sum(axis=0)
    return second, right


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
    """For each task, the sum of w y x in units of the grid, every part rounded toward zero, [tasks, d]."""
    with np.errstate(over="ignore", invalid="ignore"):
        y = label if share is None else label * share[user]
        factor = weight * y * (unit / grid)
    right = np.zeros((len(start) - 1, d), dtype=np.int64)
    for task, rows in _blocks(start):
        parts = rounding.right_hand_sides(features[user[rows], :d], factor[rows])
        right[task] += parts.sum(axis=0)
    return right


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
    sums = np.zeros(tasks, dtype=np.int64)
    np.add.at(sums, task, rounding.truncated(value, grid))
    return sums


def _blocks(start: Integers) -> list[tuple[int, slice]]:
    """The rows of each task, some at a time."""
    return [
        (task, slice(first, min(first + _BLOCK, int(start[task + 1]))))
        for task in range(len(start) - 1)
        for first in range(int(start[task]), int(start[task + 1]), _BLOCK)
    ]
