"""Is the user in? A test of two kinds of trainings by what they release, and what its errors rule out."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtri

from apportion.audit.evidence import epsilon_at_least, mu_at_least

Array = NDArray[np.float64]

# Thresholds are compared at this level; what is then ruled out is computed anew, from other trainings.
_TRIAL_LEVEL = 0.05


@dataclass(frozen=True)
class Outcome:
    """How often the test was wrong, and what that rules out.

    Attributes
        mu_estimate: the mu of a Gaussian mechanism at which tests err so often. Not a bound.
        mu_lower, epsilon_lower: what is ruled out from below, each at half of the level.
    """

    mu_estimate: float
    mu_lower: float
    epsilon_lower: float


def distinguish(
    without: Array, with_user: Array, shift: Array, level: float, delta: float, lost: float
) -> Outcome:
    """Tell trainings ``with_user`` from those ``without``, [runs, values] each.

    A quarter of the runs is for learning how values scatter, a quarter for choosing among statistics and
    thresholds, a half for counting errors. Whatever was learned and chosen, the bounds hold.

    Args:
        without, with_user: released values, a row per training.
        shift: by how much the user moves the values on average, as far as is known.
        level: the probability with which one of the two bounds may be wrong.
        delta: at which epsilon is bounded.
        lost: the delta of selections, which mu does not cover.
    """
    quarter = len(without) // 4
    learn = slice(0, quarter)
    choose, test = slice(quarter, 2 * quarter), slice(2 * quarter, None)
    best = (-1.0, np.zeros_like(shift), 0.0, 0.0)
    for direction in _directions(without[learn], with_user[learn], shift):
        out, inside = without[choose] @ direction, with_user[choose] @ direction
        scores = np.sort(np.concatenate([out, inside]))
        thresholds = (scores[1:] + scores[:-1]) / 2
        errors = _errors(out, inside, thresholds)
        trials = len(out), len(inside)
        right = sum(trials) - errors[0] - errors[1]
        mu = mu_at_least(right, sum(trials), _TRIAL_LEVEL, lost)
        epsilon = epsilon_at_least(*errors, trials, _TRIAL_LEVEL, delta)
        if mu.max() > best[0]:
            at = thresholds[np.argmax(mu)], thresholds[np.argmax(epsilon)]
            best = (float(mu.max()), direction, *at)
    _, direction, for_mu, for_epsilon = best
    out, inside = without[test] @ direction, with_user[test] @ direction
    trials = len(out), len(inside)
    right = sum(trials) - np.add(*_errors(out, inside, np.array([for_mu])))
    wrong = _errors(out, inside, np.array([for_epsilon]))
    rate = (right[0] + 0.5) / (sum(trials) + 1)
    return Outcome(
        mu_estimate=max(0.0, 2 * float(ndtri(rate))),
        mu_lower=float(mu_at_least(right, sum(trials), level / 2, lost)[0]),
        epsilon_lower=float(epsilon_at_least(*wrong, trials, level / 2, delta)[0]),
    )


def _directions(without: Array, with_user: Array, shift: Array) -> list[Array]:
    """Along which to look: Gaussian likelihood ratios of several guesses at the mean and the covariance.

    The shift as it is known, or as it was seen; values taken to be independent, or correlated as they were
    seen. If noise is used twice, a difference of values has none, and only the last notices.
    """
    noise = np.concatenate([without - without.mean(axis=0), with_user - with_user.mean(axis=0)])
    seen = with_user.mean(axis=0) - without.mean(axis=0)
    # What does not scatter at all still has a scale: whoever is seen there is seen without fail.
    scale = np.maximum(noise.std(axis=0), 1e-9 * np.maximum(np.abs(without).max(axis=0), 1.0))
    directions = [shift / scale**2, seen / scale**2]
    if noise.shape[1] < len(noise) - 2:
        correlation = (noise / scale).T @ (noise / scale) / len(noise)
        correlation[np.diag_indices_from(correlation)] += 1e-9
        whitened = np.linalg.solve(correlation, np.stack([shift, seen], axis=1) / scale[:, None])
        directions += list((whitened / scale[:, None]).T)
    lengths = [float(np.linalg.norm(direction)) for direction in directions]
    return [each / size for each, size in zip(directions, lengths, strict=True) if size > 0]


def _errors(out: Array, inside: Array, thresholds: Array) -> tuple[Array, Array]:
    """How many are above each threshold though the user is out, and not above it though the user is in."""
    above = len(out) - np.searchsorted(np.sort(out), thresholds, side="right")
    below = np.searchsorted(np.sort(inside), thresholds, side="right")
    return above.astype(np.float64), below.astype(np.float64)


def dependence(values: list[Array]) -> float:
    """How likely the noise of some two values, if independent, is as correlated as it was at most.

    ``values`` are released values of trainings, [runs, values], one array for each data set. For all pairs
    together (Bonferroni); exact for Gaussian noise.
    """
    noise = np.concatenate([each - each.mean(axis=0) for each in values])
    size = np.linalg.norm(noise, axis=0)
    noise = noise[:, size > 0] / size[size > 0]
    width = noise.shape[1]
    if width < 2:
        return 1.0
    correlation = (noise.T @ noise)[np.triu_indices(width, 1)]
    largest = min(float(np.abs(correlation).max()), 1 - 1e-15)
    freedom = len(noise) - len(values) - 1
    t = largest * np.sqrt(freedom / (1 - largest**2))
    return min(1.0, len(correlation) * 2 * float(stats.t.sf(t, freedom)))


def repeats(values: Array, groups: NDArray[np.bool_]) -> float:
    """How likely the noise of tasks, if independent, repeats after some number of tasks as well as it did.

    ``values`` [tasks, columns] are noise, besides what is the same for all tasks of a group, [tasks]. For
    every distance, tasks that far apart are paired, each once; the correlation of Gaussian pairs has
    Student's distribution. For all distances together (Bonferroni). That means are of the groups themselves
    moves a correlation by less than two over the size of the smaller one, which is taken off.
    """
    noise = values.astype(np.float64)
    smaller = len(noise)
    for group in (groups, ~groups):
        if group.any():
            noise[group] -= noise[group].mean(axis=0)
            smaller = min(smaller, int(group.sum()))
    tasks, least = np.arange(len(noise)), 1.0
    for apart in range(1, len(noise)):
        first = tasks[(tasks % (2 * apart) < apart) & (tasks + apart < len(noise))]
        one, other = noise[first].ravel(), noise[first + apart].ravel()
        sizes = float(np.linalg.norm(one) * np.linalg.norm(other))
        if len(one) > 3 and sizes > 0:
            correlation = max(0.0, abs(float(one @ other)) / sizes - 2 / smaller)
            correlation = min(correlation, 1 - 1e-15)
            freedom = len(one) - 1
            t = correlation * np.sqrt(freedom / (1 - correlation**2))
            least = min(least, 2 * float(stats.t.sf(t, freedom)))
    return min(1.0, len(noise) * least)
