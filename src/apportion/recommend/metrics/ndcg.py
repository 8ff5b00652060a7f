"""Normalized discounted cumulative gain of binary relevance, NDCG@k."""

import numpy as np
from numpy.typing import NDArray

from apportion.data.ids import Integers


def ndcg(hits: NDArray[np.bool_], labels: Integers, k: int) -> NDArray[np.float64]:
    """The gain of hits, 1 / log2(1 + rank) each, over that of labels in the first places, [users].

    Arguments as in ``recall``.
    """
    discount = 1 / np.log2(np.arange(k) + 2)
    ideal = np.concatenate([[0.0], np.cumsum(discount)])
    return np.asarray(hits @ discount[: hits.shape[1]] / ideal[np.clip(labels, 1, k)])
