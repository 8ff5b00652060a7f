"""Errors of many tasks, as a whole and by task size."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.data import TaskData
from apportion.tasks.base import MultiTaskLinear


def rmse(model: MultiTaskLinear, data: TaskData) -> float:
    """Root mean squared error over all examples."""
    return float(np.sqrt(np.mean((model.predict_rows(data) - data.labels) ** 2)))


def rmse_by_size(
    model: MultiTaskLinear, data: TaskData, sizes: NDArray[Any], buckets: int = 5
) -> list[float]:
    """RMSE in buckets of equally many tasks, from the smallest tasks (by ``sizes``) to the largest."""
    bucket = task_buckets(sizes, buckets)[data.task]
    squared = (model.predict_rows(data) - data.labels) ** 2
    return [float(np.sqrt(np.mean(squared[bucket == b]))) for b in range(buckets)]


def task_buckets(sizes: NDArray[Any], buckets: int) -> NDArray[np.int64]:
    """The bucket of each task: 0 for the smallest tasks, buckets - 1 for the largest, [tasks]."""
    order = np.argsort(sizes, kind="stable")
    bucket = np.empty(len(sizes), dtype=np.int64)
    bucket[order] = np.arange(len(sizes)) * buckets // len(sizes)
    return bucket
