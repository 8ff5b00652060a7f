"""Precision@k."""

import numpy as np
from numpy.typing import NDArray

from apportion.data.ids import Integers


def precision(hits: NDArray[np.bool_], labels: Integers, k: int) -> NDArray[np.float64]:
    """Hits over k, for each user, [users]. Arguments as in ``recall``."""
    del labels
    return np.asarray(hits.sum(axis=1) / k)
