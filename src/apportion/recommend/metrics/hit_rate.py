"""Hit rate@k."""

import numpy as np
from numpy.typing import NDArray

from apportion.data.ids import Integers


def hit_rate(hits: NDArray[np.bool_], labels: Integers, k: int) -> NDArray[np.float64]:
    """Whether a user's list has a hit at all, 0 or 1, [users]. Arguments as in ``recall``."""
    del labels, k
    return np.asarray(hits.any(axis=1), dtype=np.float64)
