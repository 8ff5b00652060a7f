"""Sums of clipped gradients."""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from apportion.threads import side_by_side, threads_for

Array = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]

# Sums may be reordered so that they can be vectorised; NaN and infinity keep their meaning.
_REORDER = {"reassoc", "contract", "nsz", "arcp"}


# Not reordered: what is clipped must stay within its bound whatever the numbers.
@njit(cache=True)  # type: ignore[untyped-decorator]
def _usable(slope: float, norm: float) -> float:
    """The slope, or zero if it is not finite or the features are smaller than any data."""
    return slope if np.isfinite(slope) and norm >= 1e-150 else 0.0


@njit(cache=True)  # type: ignore[untyped-decorator]
def _shorten(slope: float, excess: float) -> float:
    """The slope over how often its gradient exceeds the bound, if it does."""
    return slope / excess if excess > 1.0 else slope


@njit(cache=True)  # type: ignore[untyped-decorator]
def _add_scaled(total: Array, x: Array, slope: float, grid: float) -> None:
    """Add slope * x to the total; in whole units of the grid, if there is one, towards zero."""
    if grid > 0.0:
        slope /= grid
        for k in range(len(x)):
            total[k] += np.trunc(slope * x[k])
    else:
        for k in range(len(x)):
            total[k] += slope * x[k]


@njit(nogil=True, cache=True, fastmath=_REORDER)  # type: ignore[untyped-decorator]
def _row_clipped_gradient(
    features: Array,
    norms: Array,
    feature_row: Integers,
    label: Array,
    weight: Array,
    start: Integers,
    coef: Array,
    derivative: Any,
    bound: float,
    grid: float,
    thread: int,
    partial: Array,
) -> None:
    threads, dimension = partial.shape[0], features.shape[1]
    rows = start[-1]
    total = partial[thread]
    first, stop = rows * thread // threads, rows * (thread + 1) // threads
    task = np.searchsorted(start, first, side="right") - 1
    for row in range(first, stop):
        while start[task + 1] <= row:
            task += 1
        if weight[row] == 0.0:
            continue
        place = feature_row[row]
        x = features[place]
        margin = 0.0
        for k in range(dimension):
            margin += coef[task, k] * x[k]
        slope = _usable(derivative(margin, label[row]), norms[place])
        slope = weight[row] * _shorten(slope, abs(slope) * (norms[place] / bound))
        _add_scaled(total[task], x, slope, grid)


@njit(nogil=True, cache=True, fastmath=_REORDER)  # type: ignore[untyped-decorator]
def _user_clipped_gradient(
    features: Array,
    norms: Array,
    feature_row: Integers,
    label: Array,
    weight: Array,
    task: Integers,
    start: Integers,
    coef: Array,
    derivative: Any,
    bound: float,
    grid: float,
    thread: int,
    partial: Array,
) -> None:
    threads, dimension = partial.shape[0], features.shape[1]
    users = len(start) - 1
    longest = 0
    for user in range(users):
        longest = max(longest, start[user + 1] - start[user])
    total = partial[thread]
    slopes = np.empty(longest)
    for user in range(users * thread // threads, users * (thread + 1) // threads):
        first, stop = start[user], start[user + 1]
        excess = 0.0  # the squared norm of the user's gradient, in units of the bound
        in_task = 0.0  # sum of norms of the user's rows in the current task, likewise
        for row in range(first, stop):
            place = feature_row[row]
            i = task[row]
            slope = 0.0
            if weight[row] != 0.0:
                x = features[place]
                margin = 0.0
                for k in range(dimension):
                    margin += coef[i, k] * x[k]
                slope = weight[row] * _usable(derivative(margin, label[row]), norms[place])
            slopes[row - first] = slope
            in_task += abs(slope) * (norms[place] / bound)
            if row + 1 == stop or task[row + 1] != i:
                excess += in_task * in_task
                in_task = 0.0
        excess = np.sqrt(excess)
        for row in range(first, stop):
            slope = _shorten(slopes[row - first], excess)
            if slope != 0.0:
                _add_scaled(total[task[row]], features[feature_row[row]], slope, grid)


def row_clipped_gradient(rows: int, *arguments: Any) -> Array:
    """Threads take equally many rows; tasks may be shared. In units of the grid, the last argument."""
    return _sum_of_threads(_row_clipped_gradient, rows, *arguments)


def user_clipped_gradient(rows: int, *arguments: Any) -> Array:
    """Threads take equally many users. In units of the grid, the last argument."""
    return _sum_of_threads(_user_clipped_gradient, rows, *arguments)


def _sum_of_threads(kernel: Any, rows: int, *arguments: Any) -> Array:
    """What threads sum up, each its own users or rows."""
    coef = arguments[-4]
    partial = np.zeros((threads_for(rows * coef.shape[1]), *coef.shape))
    side_by_side(
        lambda thread: kernel(*arguments, thread, partial),
        range(len(partial)),
    )
    return np.asarray(partial.sum(axis=0))
