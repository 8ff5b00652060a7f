"""Reciprocal rank of the first hit; its mean over users is MRR@k."""

import numpy as np
from numpy.typing import NDArray

from apportion.data.ids import Integers


def reciprocal_rank(hits: NDArray[np.bool_], labels: Integers, k: int) -> NDArray[np.float64]:
    """One over the rank of a user's first hit, 0 without one, [users]. Arguments as in ``recall``."""
    del labels, k
    ranks = np.argmax(hits, axis=1) + 1 if hits.shape[1] else np.ones(len(hits))
    return np.where(hits.any(axis=1), 1 / ranks, 0.0)
