"""How well each item is liked, before anything is said about tastes."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


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
    center = np.clip(line @ [at_one, slope], -2.0, 2.0)
    residual = b - a * center
    total = float(np.sum(residual**2))
    # Never quite zero: a thousandth of what is there is kept as signal.
    variance = max(total - len(b), 1e-3 * total) / max(float(np.sum(a**2)), 1e-300)
    return np.asarray(
        np.clip(center + a * variance / (a**2 * variance + 1.0) * residual, -2.0, 2.0)
    )
