"""Sums on the processor's cores, compiled by numba and run on all of them."""

from dataclasses import replace
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from apportion.engine.base import Array, Engine, Integers, TaskRows, UserRows
from apportion.engine.sums import moments, statistics, whole_vectors
from apportion.engine.threads import side_by_side, threads_for
from apportion.engine.topk import top
from apportion.engine.users import solve_users

# Sums may be reordered so that they can be vectorised; NaN and infinity keep their meaning.
_REORDER = {"reassoc", "contract", "nsz", "arcp"}


class CpuEngine(Engine):
    """Compiled loops on all cores; a task's released sums do not depend on the number of threads."""

    def prepare(self, rows: TaskRows) -> TaskRows:
        """See ``Engine.prepare``: numbers of the types that are compiled for, in whole vectors."""
        feature_row, label, share, weight = _examples(rows)
        features = rows.features
        if features.dtype == np.int16:
            features = whole_vectors(features)
        return replace(
            rows,
            features=features,
            feature_row=feature_row,
            label=label,
            share=share,
            weight=weight,
            columns=rows.dimension,
        )

    def statistics(
        self,
        rows: TaskRows,
        first_task: int,
        stop_task: int,
        grids: tuple[float, float] | None = None,
    ) -> tuple[Array, Array]:
        """See ``Engine.statistics``."""
        start = _start(rows)[first_task : stop_task + 1]
        kind = np.float64 if grids is None else np.int16
        features = _features(rows, kind)
        return statistics(features, rows.dimension, rows.unit, *_examples(rows), start, grids)

    def moments(self, rows: TaskRows, grid: float) -> Array:
        """See ``Engine.moments``."""
        features, examples = _features(rows, np.int16), _examples(rows)
        return moments(features, rows.dimension, rows.unit, *examples, _start(rows), grid)

    def row_clipped_gradient(
        self, rows: TaskRows, norms: Array, coef: Array, derivative: Any, bound: float, grid: float
    ) -> Array:
        """See ``Engine.row_clipped_gradient``. Threads take equally many rows; tasks may be shared."""
        assert rows.share is None, "gradients take labels whole"
        examples = (rows.features, norms, rows.feature_row, rows.label, rows.weight, rows.start)
        settings = (coef, derivative, bound, grid)
        return _sum_of_threads(_row_clipped_gradient, len(rows.label), *examples, *settings)

    def user_clipped_gradient(
        self, rows: UserRows, norms: Array, coef: Array, derivative: Any, bound: float, grid: float
    ) -> Array:
        """See ``Engine.user_clipped_gradient``. Threads take equally many users."""
        examples = (rows.features, norms, rows.feature_row, rows.label, rows.weight)
        places, settings = (rows.task, rows.start), (coef, derivative, bound, grid)
        return _sum_of_threads(
            _user_clipped_gradient, len(rows.label), *examples, *places, *settings
        )

    def solve_users(
        self,
        start: Integers,
        item: Integers,
        label: Array,
        items: Array,
        ridge: Array,
        shared: Array,
    ) -> Array:
        """See ``Engine.solve_users``. A user is solved by one thread, in float32 if that is enough."""
        return solve_users(start, item, label, items, ridge, shared)

    def top(
        self, scores: NDArray[np.float32], k: int, start: Integers, skip: Integers
    ) -> tuple[Integers, NDArray[np.float32]]:
        """See ``Engine.top``. One pass over the scores of each row."""
        return top(scores, k, start, skip)


def _sum_of_threads(kernel: Any, rows: int, *arguments: Any) -> Array:
    """What threads sum up, each its own users or rows, in units of the grid (the last argument)."""
    coef, grid = arguments[-4], arguments[-1]
    partial = np.zeros((threads_for(rows * coef.shape[1]), *coef.shape))
    side_by_side(
        lambda thread: kernel(*arguments, thread, partial),
        range(len(partial)),
    )
    return np.asarray(partial.sum(axis=0) * (grid or 1.0))


def _features(rows: TaskRows, kind: Any) -> Any:
    """Features as kernels take them: their type says whether sums are to be exact."""
    if (rows.features.dtype == np.int16) != (kind == np.int16):
        raise TypeError(f"features must be {kind.__name__}, got {rows.features.dtype}")
    return np.ascontiguousarray(rows.features, dtype=kind)


def _examples(rows: TaskRows) -> tuple[Integers, Array, Array, Array]:
    """The rows of features, labels, shares and weights, of the only types that are compiled for."""
    share = np.ones(len(rows.features)) if rows.share is None else rows.share
    assert len(share) == len(rows.features)
    return (
        np.ascontiguousarray(rows.feature_row, dtype=np.int32),
        np.ascontiguousarray(rows.label, dtype=np.float64),
        np.ascontiguousarray(share, dtype=np.float64),
        np.ascontiguousarray(rows.weight, dtype=np.float64),
    )


def _start(rows: TaskRows) -> Integers:
    return np.ascontiguousarray(rows.start, dtype=np.int64)


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
