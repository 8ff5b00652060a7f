"""How well each item is liked, before anything is said about tastes."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# What is expected of items before anything is released, in units of the label bound: the variances of the
# line's height, at items as ratings have them, and of its slope; the variance around it, and that of this.
_HEIGHT, _SLOPE = 0.02, 0.02
_AROUND = (0.1, 0.01)


def estimate(sums: Array, noise: float, scale: Array, counts: Array, scatter: float = 1.0) -> Array:
    """The most likely intercepts given sums_i = mass_i * intercept_i + noise, mass = scale * counts, [items].

    Beside the noise of the release, labels have a variance of ``scatter`` about the intercept.
    Intercepts are taken to be normal around a line in the log of the count (what is rated often is
    rated well); the line and the variance around it follow from all items (empirical Bayes), as far as their
    noise lets them, and else are what is expected of items anyway. No intercept is farther than 2 from zero.
    """
    mass = scale * counts
    deviation = np.sqrt(noise**2 + scatter * scale * mass)
    b, a = sums / deviation, mass / deviation
    power = float(np.sum(a**2))
    logs = np.log(np.maximum(counts, 1.0))
    middle = float(counts @ logs) / float(counts.sum())
    line = np.stack([np.ones_like(counts), logs - middle], axis=1)
    seen = a[:, None] * line
    # Two items and more have scattered about their line once it is known to within a tenth of it.
    known = seen.T @ seen / (1.0 + power / len(b) * _AROUND[0])
    wanted = seen.T @ b / (1.0 + power / len(b) * _AROUND[0])
    found = np.linalg.solve(known + np.diag([1 / _HEIGHT, 1 / _SLOPE]), wanted)
    center = np.clip(line @ found, -2.0, 2.0)
    residual = b - a * center
    expected, unsure = _AROUND
    noise_of_variance = 2 * len(b) / max(power, 1e-300) ** 2
    variance = max(float(np.sum(residual**2)) - len(b), 0.0) / max(power, 1e-300)
    variance = (variance * unsure + expected * noise_of_variance) / (unsure + noise_of_variance)
    return np.asarray(
        np.clip(center + a * variance / (a**2 * variance + 1.0) * residual, -2.0, 2.0)
    )
