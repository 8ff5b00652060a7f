"""Buckets by size."""

import numpy as np

from apportion.data.buckets import task_buckets


def test_buckets_hold_equally_many_tasks() -> None:
    bucket = task_buckets(np.array([5.0, 1.0, 9.0, 7.0, 3.0, 3.0]), 3)
    np.testing.assert_array_equal(bucket, [1, 0, 2, 2, 0, 1])
