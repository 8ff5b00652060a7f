"""Sums on the processor's cores, compiled by numba and run on all of them."""

import numpy as np
from numba import njit, prange

from apportion.engine.base import Array, Engine, Integers, TaskRows


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
