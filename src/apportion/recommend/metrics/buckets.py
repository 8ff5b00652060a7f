"""Items by popularity: buckets of equally many by their training counts, bucket 0 being the tail."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.checks import whole
from apportion.data.buckets import task_buckets
from apportion.data.ids import Integers
from apportion.errors import ParameterError

Array = NDArray[np.float64]


def item_buckets(counts: ArrayLike, items: int, buckets: int) -> Integers:
    """The bucket of every item, by these counts, tail first, [items]."""
    buckets = whole("the number of buckets", buckets, at_least=1)
    sizes = np.asarray(counts)
    if sizes.shape != (items,) or sizes.dtype.kind not in "iuf" or not np.isfinite(sizes).all():
        raise ParameterError(f"counts must be {items} numbers, one for each item of the catalog")
    return task_buckets(sizes, buckets)


def means_of(sums: NDArray[Any], numbers: NDArray[Any]) -> Array:
    """Sums over numbers, NaN where there are none."""
    means: Array = np.full(len(sums), np.nan)
    np.divide(sums, numbers, out=means, where=numbers > 0)
    return means
