"""Novelty: how surprising it is to meet what is recommended."""

import numpy as np
from numpy.typing import NDArray


def surprise(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bits of surprise at each item: -log2 of its share of all interactions, [items].

    One interaction is added to each, so that one without any has a share, too. Negative counts, which noise
    makes, are zero.
    """
    shares = np.maximum(counts, 0.0) + 1
    return np.asarray(-np.log2(shares / shares.sum()))
