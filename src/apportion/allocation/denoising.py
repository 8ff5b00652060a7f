"""Noisy sizes brought to what is to be expected of the true ones: post-processing of released values."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# In standard deviations of the noise. What is above ``_CLEAR`` is known to a tenth and taken as it is.
_CLEAR, _BIN = 10.0, 0.1
# Of expectation maximization: a long tail's total comes out within a tenth.
_ROUNDS = 4000


def expected_sizes(noisy: Array, noise: float, rounds: int = _ROUNDS) -> Array:
    """The expected true sizes, given sizes with normal noise of this standard deviation, [tasks].

    Raising small noisy counts to some floor would add up, over a long tail, to many times the true total.
    Instead the curve of all sizes is estimated first, from all of them (empirical Bayes): of the
    distributions of positive sizes, one that makes the noisy ones likely. It starts from a power law, and
    is fitted by expectation maximization. Each size is then its mean given its noisy value. So all are
    positive, larger noisy values have larger means, and the means add up to about what the
    noisy values do. With fewer ``rounds`` the total of a long tail comes out too large.

    >>> float(expected_sizes(np.array([-30.0, 0.0, 30.0, 5000.0]), 20.0)[-1])
    5000.0
    """
    if noise <= 0 or len(noisy) == 0:
        return np.maximum(noisy, 1e-3)
    found = noisy / noise
    small = found < _CLEAR
    if small.any():
        found[small] = _means(found[small], found[found < _CLEAR + 4], rounds)
    return np.asarray(found * noise)


def _means(values: Array, seen: Array, rounds: int) -> Array:
    """Of true sizes given ``values`` of unit noise, by the distribution that explains ``seen``."""
    nodes = np.concatenate([np.geomspace(2**-8, 1.0, 24), np.arange(1.25, _CLEAR + 6, 0.25)])
    # Noise has no long tails: what is farther below zero counts as if it were there.
    bins = np.rint(np.maximum(seen, -8.0) / _BIN).astype(np.int64)
    sizes = np.bincount(bins + 80)
    places = np.arange(len(sizes)) * _BIN - 8.0
    likely = np.exp(-0.5 * np.square(places[:, None] - nodes))
    share = np.gradient(nodes) / nodes  # a power law: as many of each order of magnitude
    share /= share.sum()
    for _ in range(rounds):
        share = share * ((sizes / (likely @ share)) @ likely) / len(seen)
    means = (likely @ (share * nodes)) / (likely @ share)
    return np.asarray(np.interp(values, places, means), dtype=np.float64)
