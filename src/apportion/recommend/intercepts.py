"""How well each item is liked, before anything is said about tastes."""

import math

import numpy as np
from numpy.typing import NDArray

from apportion.privacy import Curator, Part, UserBound, UserWeights, scale_down, truncate

Array = NDArray[np.float64]


def release_intercepts(
    labels: Array,
    weights: UserWeights,
    label_bound: float,
    scale: Array,
    counts: Array,
    curator: Curator,
    mu: float,
) -> Array:
    """How far the labels [pairs] of each item are from zero on average, [items], at a cost of ``mu``.

    ``scale`` and ``counts`` are, for every item, the typical weight of its users and about their number,
    both released already.

    Sensitivity: user j's part is the vector of its w_ij y_ij, of all items, scaled down to a norm of
    label_bound. A user with many ratings far off counts less, whole; no single rating is clipped.
    """
    bound = UserBound(math.inf, "not bounded: no privacy asked for")
    if weights.bounded:
        factors = scale_down(weights.part_norms(labels), label_bound)
        labels = labels * factors[weights.user]
        bound = UserBound(label_bound, "a user's weighted ratings are scaled down to label_bound")
    part = Part("intercepts", "weighted sums of centred ratings", bound)
    release = curator.open("intercepts", [part], len(counts), mu)
    parts = truncate(weights.values * labels, release.grids[0])
    sums = np.bincount(weights.task, weights=parts, minlength=len(counts))
    (noisy,) = release.feed(0, sums.astype(np.float64)[:, None])
    noise = release.records[0].noise_scale / label_bound
    return label_bound * estimate(noisy[:, 0] / label_bound, noise, scale, counts)


def estimate(sums: Array, noise: float, scale: Array, counts: Array) -> Array:
    """The most likely intercepts given sums_i = mass_i * intercept_i + noise, mass = scale * counts, [items].

    Beside the noise of the release, labels are taken to have a variance of one about the intercept.
    Intercepts are taken to be normal around a line in the log of the count (what is rated often is
    rated well); the line and the variance around it follow from all items (empirical Bayes). None is
    farther than 2 from zero.
    """
    mass = scale * counts
    deviation = np.sqrt(noise**2 + scale * mass)
    b, a = sums / deviation, mass / deviation
    line = np.stack([np.ones_like(counts), np.log(np.maximum(counts, 1.0))], axis=1)
    [at_one, slope], *_ = np.linalg.lstsq(a[:, None] * line, b, rcond=None)
    centre = np.clip(line @ [at_one, slope], -2.0, 2.0)
    residual = b - a * centre
    total = float(np.sum(residual**2))
    # Never quite zero: a thousandth of what is there is kept as signal.
    variance = max(total - len(b), 1e-3 * total) / max(float(np.sum(a**2)), 1e-300)
    return np.asarray(
        np.clip(centre + a * variance / (a**2 * variance + 1.0) * residual, -2.0, 2.0)
    )
