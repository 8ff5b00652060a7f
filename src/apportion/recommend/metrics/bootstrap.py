"""How sure a figure is: intervals by drawing the users anew, with replacement."""

import numpy as np

from apportion.recommend.metrics.rows import Array

_DRAWS = 1000
# So many users are drawn in all, and each draw is of all users at least this often.
_MOST, _LEAST = 2 * 10**8, 200


def resampled_means(sums: Array, numbers: Array, seed: int = 0) -> Array:
    """Means of columns over users, for many sets of as many users, drawn with replacement, [draws, columns].

    Rows of one user are drawn together, because they are not independent.

    Args:
        sums: of each user, what is averaged, [users, columns].
        numbers: of how many rows, [users, columns].
        seed: of the draws; harmless.
    """
    users = len(sums)
    draws = int(np.clip(_MOST // max(1, users), _LEAST, _DRAWS))
    rng = np.random.default_rng(seed)
    means = np.empty((draws, sums.shape[1]))
    for draw in range(draws):
        times = np.bincount(rng.integers(0, users, users), minlength=users).astype(np.float64)
        total, rows = times @ sums, times @ numbers
        means[draw] = np.divide(total, rows, out=np.full_like(total, np.nan), where=rows > 0)
    return means


def poisson_sums(sums: Array, numbers: Array, seed: int, part: int) -> tuple[Array, Array]:
    """Sums of columns over some of the users for many draws, and of how many rows, [draws, columns] each.

    Every user is drawn a Poisson number of times, of mean 1, whoever else is drawn: about what
    ``resampled_means`` does with many users. What the parts of the users give adds up; ``part`` is the
    number of this one.
    """
    rng = np.random.default_rng([seed, part])
    shape = (_LEAST, sums.shape[1])
    total, rows = np.zeros(shape), np.zeros(shape)
    for draw in range(_LEAST):
        times = rng.poisson(1.0, len(sums)).astype(np.float64)
        total[draw], rows[draw] = times @ sums, times @ numbers
    return total, rows


def interval(values: Array, level: float) -> tuple[float, float]:
    """The middle part of drawn values that holds this share of them."""
    known = values[np.isfinite(values)]
    if not len(known):
        return float("nan"), float("nan")
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
