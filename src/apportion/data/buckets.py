"""Tasks (or items) sorted by size into buckets, from the tail to the head."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def task_buckets(sizes: NDArray[Any], buckets: int) -> NDArray[np.int64]:
    """The bucket of each task: 0 for the smallest tasks, buckets - 1 for the largest, [tasks]."""
    order = np.argsort(sizes, kind="stable")
    bucket = np.empty(len(sizes), dtype=np.int64)
    bucket[order] = np.arange(len(sizes)) * buckets // len(sizes)
    return bucket
