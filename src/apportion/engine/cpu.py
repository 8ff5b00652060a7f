"""Sums on the processor's cores, compiled by numba and run on all of them."""

from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange
from numpy.typing import NDArray

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

    def moments(self, rows: TaskRows) -> Array:
        """See ``Engine.moments``."""
        first = np.zeros((rows.tasks, rows.dimension))
        _moments(rows.features, rows.feature_row, rows.label, rows.weight, rows.start, first)
        return first

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

    def solve_users(
        self,
        start: Integers,
        item: Integers,
        label: Array,
        items: Array,
        ridge: Array,
        shared: Array,
    ) -> Array:
        """See ``Engine.solve_users``. Threads take equally many rows; a user is solved by one."""
        vectors = np.zeros((len(start) - 1, items.shape[1]))
        _solve_users(start, item, label, items, ridge, shared, get_num_threads(), vectors)
        return vectors

    def top(
        self, scores: NDArray[np.float32], k: int, start: Integers, skip: Integers
    ) -> tuple[Integers, NDArray[np.float32]]:
        """See ``Engine.top``. One pass over the scores of each row."""
        places = np.full((len(scores), k), -1, dtype=np.int64)
        best = np.full((len(scores), k), -np.inf, dtype=np.float32)
        _top(scores, start, skip, places, best)
        return places, best


# Rows are added up four at a time: each entry of a matrix is then read and written a quarter as often.
_TOGETHER = 4


@njit(cache=True, fastmath=_REORDER)  # type: ignore[untyped-decorator]
def _add_gram(
    features: Array,
    row: Integers,
    weight: Array,
    first: int,
    stop: int,
    buffer: Array,
    total: Array,
) -> None:
    """Add sum of w x x' over the rows first to stop to the upper triangle of ``total``, [d, d]."""
    dimension = features.shape[1]
    weights = np.zeros(_TOGETHER)
    for begin in range(first, stop, _TOGETHER):
        for place in range(_TOGETHER):
            here = begin + place
            weights[place] = weight[here] if here < stop else 0.0
            source = features[row[min(here, stop - 1)]]
            for k in range(dimension):
                buffer[place, k] = source[k]
        x0, x1, x2, x3 = buffer[0], buffer[1], buffer[2], buffer[3]
        w0, w1, w2, w3 = weights[0], weights[1], weights[2], weights[3]
        for p in range(dimension):
            # Full rows of a local matrix keep the inner loop contiguous, so that it is vectorised.
            a0, a1, a2, a3 = w0 * x0[p], w1 * x1[p], w2 * x2[p], w3 * x3[p]
            out = total[p]
            for q in range(p, dimension):
                out[q] += a0 * x0[q] + a1 * x1[q] + a2 * x2[q] + a3 * x3[q]


@njit(cache=True)  # type: ignore[untyped-decorator]
def _add_moment(
    features: Array,
    feature_row: Integers,
    label: Array,
    weight: Array,
    first: int,
    stop: int,
    total: Array,
) -> None:
    """Add sum of w y x over the rows first to stop to ``total``, [d]."""
    for row in range(first, stop):
        x = features[feature_row[row]]
        weighted = weight[row] * label[row]
        for k in range(len(total)):
            total[k] += weighted * x[k]


@njit(parallel=True, cache=True)  # type: ignore[untyped-decorator]
def _moments(
    features: Array,
    feature_row: Integers,
    label: Array,
    weight: Array,
    start: Integers,
    first: Array,
) -> None:
    for task in prange(len(start) - 1):
        _add_moment(features, feature_row, label, weight, start[task], start[task + 1], first[task])


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
        total = np.zeros((dimension, dimension))
        buffer = np.empty((_TOGETHER, dimension))
        _add_gram(features, feature_row, weight, start[task], start[task + 1], buffer, total)
        _add_moment(features, feature_row, label, weight, start[task], start[task + 1], first[task])
        entry = 0
        for p in range(dimension):
            for q in range(p, dimension):
                second[task, entry] = total[p, q]
                entry += 1


@njit(parallel=True, cache=True, fastmath=_REORDER)  # type: ignore[untyped-decorator]
def _solve_users(
    start: Integers,
    item: Integers,
    label: Array,
    items: Array,
    ridge: Array,
    shared: Array,
    threads: int,
    vectors: Array,
) -> None:
    dimension = items.shape[1]
    ones = np.ones(1 + max(0, np.max(np.diff(start)))) if len(start) > 1 else np.ones(1)
    for thread in prange(threads):
        total = np.empty((dimension, dimension))
        buffer = np.empty((_TOGETHER, dimension))
        low = np.searchsorted(start, start[-1] * thread // threads)
        high = np.searchsorted(start, start[-1] * (thread + 1) // threads)
        for user in range(low, min(high, len(start) - 1)):
            first, stop = start[user], start[user + 1]
            if first == stop:
                continue
            total[:] = shared
            for p in range(dimension):
                total[p, p] += ridge[user]
            own = item[first:stop]
            _add_gram(items, own, ones, 0, stop - first, buffer, total)
            solution = vectors[user]
            for row in range(first, stop):
                u = items[item[row]]
                for p in range(dimension):
                    solution[p] += label[row] * u[p]
            _solve_in_place(total, solution)


@njit(cache=True, fastmath=_REORDER)  # type: ignore[untyped-decorator]
def _solve_in_place(matrix: Array, vector: Array) -> None:
    """Solve for a positive semi-definite matrix (its upper triangle) by Cholesky, row by row.

    A direction whose pivot is lost in rounding gets zero.
    """
    dimension = len(vector)
    largest = 0.0
    for p in range(dimension):
        largest = max(largest, matrix[p, p])
    least = 1e-14 * dimension * largest
    for p in range(dimension):
        row = matrix[p]
        if row[p] <= least:
            row[p:] = 0.0
            vector[p] = 0.0
            continue
        pivot = 1.0 / np.sqrt(row[p])
        for q in range(p, dimension):
            row[q] *= pivot
        vector[p] *= pivot
        for q in range(p + 1, dimension):
            factor = row[q]
            below = matrix[q]
            for r in range(q, dimension):
                below[r] -= factor * row[r]
            vector[q] -= factor * vector[p]
    for p in range(dimension - 1, -1, -1):
        if matrix[p, p] == 0.0:
            vector[p] = 0.0
            continue
        rest = vector[p]
        for q in range(p + 1, dimension):
            rest -= matrix[p, q] * vector[q]
        vector[p] = rest / matrix[p, p]


@njit(parallel=True, cache=True)  # type: ignore[untyped-decorator]
def _top(
    scores: NDArray[np.float32],
    start: Integers,
    skip: Integers,
    places: Integers,
    best: NDArray[np.float32],
) -> None:
    rows, columns = scores.shape
    k = places.shape[1]
    for row in prange(rows):
        left_out = np.zeros(columns, dtype=np.bool_)
        for entry in range(start[row], start[row + 1]):
            left_out[skip[entry]] = True
        place, score = places[row], best[row]
        # A sorted list of the best: nearly all columns fail the first comparison.
        for column in range(columns):
            value = scores[row, column]
            if value > score[k - 1] and not left_out[column]:
                at = k - 1
                while at > 0 and value > score[at - 1]:
                    score[at] = score[at - 1]
                    place[at] = place[at - 1]
                    at -= 1
                score[at] = value
                place[at] = column


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
