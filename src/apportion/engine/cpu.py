"""Sums on the processor's cores, compiled by numba and run on all of them."""

from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange

from apportion.engine.base import Array, Engine, Integers, TaskRows, UserRows

# Sums may be reordered so that they can be vectorised; NaN and infinity keep their meaning.
_REORDER = {"reassoc", "contract", "nsz", "arcp"}


class CpuEngine(Engine):
    """One task per thread at a time; a task's sums do not depend on the number of threads."""

    def statistics(self, rows: TaskRows, first_task: int, stop_task: int) -> tuple[Array, Array]:
        """See ``Engine.statistics``."""
        d = rows.dimension
        second = np.zeros((stop_task - first_task, d * (d + 1) // 2))
        first = np.zeros((stop_task - first_task, d))
        start = rows.start[first_task : stop_task + 1]
        _statistics(rows.features, rows.feature_row, rows.label, rows.weight, start, second, first)
        return second, first

    def row_clipped_gradient(
        self, rows: TaskRows, norms: Array, coef: Array, derivative: Any, bound: float
    ) -> Array:
        """See ``Engine.row_clipped_gradient``. Threads take equally many rows; tasks may be shared."""
        partial = np.zeros((get_num_threads(), *coef.shape))
        _row_clipped_gradient(
            rows.features, norms, rows.feature_row, rows.label, rows.weight, rows.start,
            coef, derivative, bound, partial,
        )  # fmt: skip
        return np.asarray(partial.sum(axis=0))

    def user_clipped_gradient(
        self, rows: UserRows, norms: Array, coef: Array, derivative: Any, bound: float
    ) -> Array:
        """See ``Engine.user_clipped_gradient``. Threads take equally many users."""
        partial = np.zeros((get_num_threads(), *coef.shape))
        _user_clipped_gradient(
            rows.features, norms, rows.feature_row, rows.label, rows.weight, rows.task, rows.start,
            coef, derivative, bound, partial,
        )  # fmt: skip
        return np.asarray(partial.sum(axis=0))


@njit(parallel=True, cache=True)  # type: ignore[untyped-decorator]
def _statistics(
    features: Array,
    feature_row: Integers,
    label: Array,
    weight: Array,
    start: Integers,
    second: Array,
    first: Array,
) -> None:
    dimension = features.shape[1]
    for task in prange(len(start) - 1):
        # Full rows of a local matrix keep the inner loop contiguous, so that it is vectorised.
        total = np.zeros((dimension, dimension))
        for row in range(start[task], start[task + 1]):
            x = features[feature_row[row]]
            for p in range(dimension):
                weighted = weight[row] * x[p]
                first[task, p] += weighted * label[row]
                for q in range(p, dimension):
                    total[p, q] += weighted * x[q]
        entry = 0
        for p in range(dimension):
            for q in range(p, dimension):
                second[task, entry] = total[p, q]
                entry += 1


# Not reordered: what is clipped must stay within its bound whatever the numbers.
@njit(cache=True)  # type: ignore[untyped-decorator]
def _usable(slope: float, norm: float) -> float:
    """The slope, or zero if it is not finite or the features are smaller than any data."""
    return slope if np.isfinite(slope) and norm >= 1e-150 else 0.0


@njit(cache=True)  # type: ignore[untyped-decorator]
def _shorten(slope: float, excess: float) -> float:
    """The slope over how often its gradient exceeds the bound, if it does."""
    return slope / excess if excess > 1.0 else slope


@njit(parallel=True, cache=True, fastmath=_REORDER)  # type: ignore[untyped-decorator]
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
    partial: Array,
) -> None:
    threads, dimension = partial.shape[0], features.shape[1]
    rows = start[-1]
    for thread in prange(threads):
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
            for k in range(dimension):
                total[task, k] += slope * x[k]


@njit(parallel=True, cache=True, fastmath=_REORDER)  # type: ignore[untyped-decorator]
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
    partial: Array,
) -> None:
    threads, dimension = partial.shape[0], features.shape[1]
    users = len(start) - 1
    longest = 0
    for user in range(users):
        longest = max(longest, start[user + 1] - start[user])
    for thread in prange(threads):
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
                    x = features[feature_row[row]]
                    i = task[row]
                    for k in range(dimension):
                        total[i, k] += slope * x[k]
