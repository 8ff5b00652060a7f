"""Errors of many tasks, as a whole and by task size."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.data import TaskData
from apportion.data.buckets import task_buckets
from apportion.tasks.base import MultiTaskLinear


def rmse(model: MultiTaskLinear, data: TaskData) -> float:
    """Root mean squared error over all examples."""
    return float(np.sqrt(np.mean((model.predict(data) - data.labels) ** 2)))


def rmse_by_size(
    model: MultiTaskLinear, data: TaskData, sizes: NDArray[Any], buckets: int = 5
) -> list[float]:
    """RMSE in buckets of equally many tasks, from the smallest tasks (by ``sizes``) to the largest."""
    bucket = task_buckets(sizes, buckets)[data.task]
    squared = (model.predict(data) - data.labels) ** 2
    return [float(np.sqrt(np.mean(squared[bucket == b]))) for b in range(buckets)]
