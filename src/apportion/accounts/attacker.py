"""What the best attacker can do: tell from all that was released whether one user was in the data.

The attacker knows everything but that, sees every release, and may compute without end. For mu-GDP the best
test is that between N(0, 1) and N(mu, 1) (Dong, Roth and Su, "Gaussian differential privacy", definition
2.6), so its figures have closed forms, and no attacker does better than they say.

Guarantee
    Upper bounds, to within 1e-12, of attackers of a mu-GDP release. Post-processing only.
"""

import math

from scipy.special import ndtr, ndtri

from apportion.checks import number

# Above this, readers should hear what epsilon means: it no longer hides much.
LARGE_EPSILON = 10.0


def success_rate(mu: float, prior: float = 0.5) -> float:
    """How often the best attacker is right about a user who was in the data with probability ``prior``.

    With a prior of one half it is Phi(mu / 2); who only guesses is right in half of all cases.

    >>> success_rate(0.0), round(success_rate(0.2681), 3), success_rate(float("inf"))
    (0.5, 0.553, 1.0)
    """
    mu, prior = _check_mu(mu), number("prior", prior, at_least=0, at_most=1)
    guess = max(prior, 1 - prior)
    if mu == 0 or guess == 1:
        return guess
    if math.isinf(mu):
        return 1.0
    # The likelihood ratio exp(mu x - mu^2 / 2) is compared with the odds that the user was not there.
    odds = math.log((1 - prior) / prior) / mu
    right = prior * ndtr(mu / 2 - odds) + (1 - prior) * ndtr(mu / 2 + odds)
    return max(guess, float(right))


def advantage(mu: float) -> float:
    """By how much true alarms are more frequent than false ones, at most: 2 Phi(mu / 2) - 1.

    >>> round(advantage(0.2681), 3)
    0.107
    """
    return 2 * success_rate(mu) - 1


def detection_rate(mu: float, false_alarms: float) -> float:
    """How often the best attacker finds a user who was there, at this rate of false alarms about others.

    >>> round(detection_rate(0.2681, false_alarms=0.01), 4)
    0.0198
    """
    mu, rate = _check_mu(mu), number("false_alarms", false_alarms, at_least=0, at_most=1)
    if mu == 0 or rate in (0, 1):
        return rate
    return float(ndtr(ndtri(rate) + mu))


def success_rate_from_epsilon(epsilon: float, delta: float) -> float:
    """The same as ``success_rate`` with a prior of one half, from (epsilon, delta) alone: a larger bound.

    It is for trainings whose releases have no mu, such as those on samples of users.

    >>> round(success_rate_from_epsilon(1.0, 1e-5), 3)
    0.731
    """
    epsilon = number("epsilon", epsilon, at_least=0) if epsilon != math.inf else math.inf
    delta = number("delta", delta, at_least=0, at_most=1)
    return min(1.0, 1 / (1 + math.exp(-epsilon)) * (1 + delta * math.exp(-epsilon)))


def percent(part: float) -> str:
    """A share in percent, never rounded up to certainty."""
    return f"{min(100 * part, 99.99):.4g} %" if part < 1 else "100 %"


def _check_mu(mu: float) -> float:
    return mu if mu == math.inf else number("mu", mu, at_least=0, at_most=1e6)
