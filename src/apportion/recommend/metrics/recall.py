"""Recall@k."""

import numpy as np
from numpy.typing import NDArray

from apportion.data.ids import Integers


def recall(hits: NDArray[np.bool_], labels: Integers, k: int) -> NDArray[np.float64]:
    """Hits over min(k, labels), for each user, [users].

    Args:
        hits: whether each recommended item is a label, best first, [users, at most k].
        labels: how many labels a user has; who has none has no hit either and adds zero, [users].
        k: how many are asked for; a small catalog may have fewer.
    """
    return np.asarray(hits.sum(axis=1) / np.clip(labels, 1, k))
