"""From what an attack got right to what the guarantee cannot be: lower bounds of mu and epsilon.

All bounds hold with a stated probability and for any mechanism of the stated kind: no noise is assumed to be
Gaussian, only the *claim* is put in terms of mu-GDP or (epsilon, delta).
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr, ndtri

Array = NDArray[np.float64]

# More than this the attacks cannot tell, and need not.
LARGEST_MU = 50.0


def rate_at_most(errors: Array, trials: int, level: float) -> Array:
    """Clopper-Pearson: a bound that the rate of errors passes with probability at most ``level``.

    >>> rate_at_most(np.array([0.0]), trials=100, level=0.05).round(4)
    array([0.0295])
    """
    errors = np.asarray(errors, dtype=np.float64)
    beyond = errors >= trials
    return np.where(
        beyond,
        1.0,
        betaincinv(np.where(beyond, 1.0, errors + 1), trials - errors + beyond, 1 - level),
    )


def mu_at_least(right: Array, trials: int, level: float, delta: float = 0.0) -> Array:
    """The mu that so many right answers to "is the user in?" rule out, but for probability ``level``.

    In half of the trials the user is in. Under mu-GDP, P[yes | in] <= Phi(Phi^-1(P[yes | out]) + mu), and
    delta more where there is one, so that the mean of P[yes | in] and P[no | out] is at most
    Phi(mu / 2) + delta / 2. The number of right answers is a sum of two binomials; beyond its mean it has
    no heavier tail than one binomial of all trials with the mean rate (Hoeffding 1956), which
    Clopper-Pearson bounds from below.

    >>> mu_at_least(np.array([120.0, 90.0, 60.0]), trials=120, level=1e-6).round(2)
    array([2.47, 0.18, 0.  ])
    """
    right = np.asarray(right, dtype=np.float64)
    rate = np.where(right > 0, betaincinv(np.maximum(right, 1), trials - right + 1, level), 0.0)
    return np.maximum(2 * _quantile(rate - delta / 2), 0.0)


def epsilon_at_least(
    false_positives: Array,
    false_negatives: Array,
    trials: tuple[int, int],
    level: float,
    delta: float,
) -> Array:
    """Likewise the epsilon at this delta, given how often a yes and how often a no was wrong.

    P[yes | in] <= e^epsilon P[yes | out] + delta, and the same for no. Each rate is bounded at half
    the level.
    """
    out = rate_at_most(false_positives, trials[0], level / 2)
    missed = rate_at_most(false_negatives, trials[1], level / 2)
    tiny = np.finfo(np.float64).tiny
    with_user = np.log(np.maximum(1 - missed - delta, tiny) / np.maximum(out, tiny))
    without = np.log(np.maximum(1 - out - delta, tiny) / np.maximum(missed, tiny))
    return np.maximum(np.maximum(with_user, without), 0.0)


def _quantile(probability: Array) -> Array:
    return np.clip(ndtri(np.clip(probability, 0.0, 1.0)), -LARGEST_MU / 2, LARGEST_MU / 2)


def mu_from_guesses(correct: int, guesses: int, canaries: int, level: float) -> float:
    """The mu that many guesses from one training rule out from below, but for probability ``level``.

    Each canary is in the data or not by a fair coin; the attack picks ``guesses`` of them, a number fixed
    beforehand, and says which of these are in. Let p_i be the chance that i are right, and take one canary at
    random. In the training where its coin alone is turned over, a right guess about it is a wrong one, and
    i right ones are i - 1. So mu-GDP says, for the numbers from any t on,

        sum_{i >= t} i p_i / m  <=  F( sum_{i >= t} (g - i + 1) p_{i-1} / m ),   F(x) = Phi(Phi^-1(x) + mu)

    (F is concave, so it may be taken of the mean over canaries and coins). Suppose that so many or more
    are right with a chance of ``level``. Least is needed besides if just so many are; the inequality for
    t = ``correct`` then says how much p_{t-1} is at least, the next one how much p_{t-2} is, and so on. If
    all that is more than one, mu is ruled out. (Steinke, Nasr and Jagielski, 2023, have it for epsilon
    and delta; Mahloujifar, Melis and Chaudhuri, 2024, for all trade-off functions.)

    >>> round(mu_from_guesses(correct=100, guesses=100, canaries=100, level=1e-6), 2)
    0.58
    >>> mu_from_guesses(correct=50, guesses=100, canaries=100, level=1e-6)
    0.0
    """
    if _possible(correct, guesses, canaries, level, 0.0):
        return 0.0
    low, high = 0.0, LARGEST_MU
    while high - low > 1e-4:
        middle = (low + high) / 2
        if _possible(correct, guesses, canaries, level, middle):
            high = middle
        else:
            low = middle
    return low


def _possible(correct: int, guesses: int, canaries: int, chance: float, mu: float) -> bool:
    """Whether mu-GDP allows so many or more to be right with this chance."""
    right, wrong = correct * chance / canaries, (guesses - correct) * chance / canaries
    for i in range(correct - 1, -1, -1):
        least = float(ndtr(ndtri(min(right, 1.0)) - mu))  # F^-1: what the wrong ones come to
        more = max(least - wrong, 0.0)
        right, wrong = right + more * i / (guesses - i), wrong + more
    return right + wrong <= guesses / canaries
