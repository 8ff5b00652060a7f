"""Recall@k."""

import numpy as np
from numpy.typing import NDArray

from apportion.data.ids import Integers


def recall(hits: NDArray[np.bool_], labels: Integers) -> NDArray[np.float64]:
    """Hits over min(k, labels), for each user, [users].

    Args:
        hits: whether each of a user's k recommended items is a label, best first, [users, k].
        labels: how many labels a user has; who has none has no hit either and adds zero, [users].
    """
    return np.asarray(hits.sum(axis=1) / np.clip(labels, 1, hits.shape[1]))
