"""Exact (epsilon, delta) guarantees of Gaussian mechanisms.

A Gaussian mechanism of sensitivity S and standard deviation sigma is mu-GDP with mu = S / sigma. Several of
them (each may depend on the results of those before) are together mu-GDP with mu^2 = sum of their mu_k^2.
mu-GDP is equivalent to the whole curve

    delta(epsilon) = Phi(-epsilon/mu + mu/2) - exp(epsilon) Phi(-epsilon/mu - mu/2)

(Dong, Roth and Su, "Gaussian differential privacy", corollaries 1 and 2; Balle and Wang, "Improving
the Gaussian mechanism", theorem 8). Nothing is lost in any of these steps.

Guarantee
    ``mu_from_epsilon`` never returns more and ``epsilon_from_mu`` never less than the true value:
    both are moved to the safe side by more than their numerical error.

Assumes
    epsilon from 1e-6 to 1e6, delta from 1e-100 to 0.9, mu up to 1e6; anything else is refused.
"""

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import erfcx, log_ndtr

from apportion.checks import number

# A training may cost at most this, and so may each release: see ``discrete`` for why.
LARGEST_MU = 8.0
# Relative distance by which results are moved to the safe side. The first is larger, so that a
# budget planned with mu_from_epsilon is never above its epsilon when epsilon_from_mu reads it back.
_MU_MARGIN = 1e-11
_EPSILON_MARGIN = 1e-12

_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(24)


def mu_from_epsilon(epsilon: float, delta: float) -> float:
    """The largest mu whose mu-GDP guarantee implies (epsilon, delta)-differential privacy.

    ``math.inf`` gives ``math.inf``: no privacy asked for.

    >>> sigma = 1 / mu_from_epsilon(epsilon=1.0, delta=1e-5)
    >>> round(sigma, 4)
    3.7306
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    if math.isinf(epsilon):
        return math.inf
    target = math.log(delta)
    below, _ = _where_rising(lambda mu: _log_delta(epsilon, mu) > target)  # delta grows with mu
    return below * (1 - _MU_MARGIN)


def epsilon_from_mu(mu: float, delta: float) -> float:
    """The smallest epsilon such that mu-GDP implies (epsilon, delta)-differential privacy.

    >>> round(epsilon_from_mu(mu=1 / 3.7306, delta=1e-5), 3)
    1.0
    """
    mu, delta = _check_mu(mu), check_delta(delta)
    if math.isinf(mu):
        return math.inf
    target = math.log(delta)
    if _log_delta(0.0, mu) <= target:
        return 0.0

    # delta falls with epsilon
    _, above = _where_rising(lambda epsilon: _log_delta(epsilon, mu) <= target)
    return above * (1 + _EPSILON_MARGIN)


def delta_from_epsilon(epsilon: float, mu: float) -> float:
    """The smallest delta such that mu-GDP implies (epsilon, delta)-differential privacy.

    >>> delta_from_epsilon(epsilon=1.0, mu=0.0)
    0.0
    >>> f"{delta_from_epsilon(epsilon=1.0, mu=1 / 3.7306):.2e}"
    '1.00e-05'
    """
    epsilon, mu = number("epsilon", epsilon, at_least=0), _check_mu(mu)
    if math.isinf(epsilon):
        return 0.0
    return math.exp(_log_delta(epsilon, mu))


def _log_delta(epsilon: float, mu: float) -> float:
    """log delta(epsilon) of mu-GDP, to nearly full relative accuracy."""
    if mu == 0:
        return -math.inf
    if math.isinf(mu):
        return 0.0
    near = epsilon / mu - mu / 2
    far = epsilon / mu + mu / 2
    if near > 1e8:  # delta is less than exp(-10^15), and what follows would lose all digits
        return -math.inf
    if near < -5:
        # delta is close to one: the plain formula loses nothing.
        return math.log1p(-math.exp(float(log_ndtr(near))) - math.exp(epsilon + log_ndtr(-far)))
    # Phi(-x) = erfcx(x / sqrt 2) exp(-x^2 / 2) / 2 and exp(epsilon) exp(-far^2/2) = exp(-near^2/2):
    # delta = exp(-near^2/2) / 2 * (erfcx(near / sqrt 2) - erfcx(far / sqrt 2)).
    if mu > 1:
        drop = float(erfcx(near / math.sqrt(2)) - erfcx(far / math.sqrt(2)))
    else:
        # Subtracting two close values would lose digits; integrate the derivative instead.
        points = (epsilon / mu + mu / 2 * _NODES) / math.sqrt(2)
        slopes = _minus_erfcx_derivative(points)
        drop = mu / math.sqrt(8) * float(np.dot(_NODE_WEIGHTS, slopes))
    return -near * near / 2 + math.log(drop / 2)


def _minus_erfcx_derivative(x: Any) -> Any:
    """-erfcx'(x) = 2 / sqrt(pi) - 2 x erfcx(x), by its asymptotic series where that cancels."""
    near = 2 / math.sqrt(math.pi) - 2 * x * erfcx(x)
    z = 1 / (2 * np.maximum(x, 15.0) ** 2)
    # erfcx(x) ~ 1/(x sqrt pi) (1 - z + 3 z^2 - 15 z^3 + ...) with z = 1 / (2 x^2).
    series = z * (1 - 3 * z * (1 - 5 * z * (1 - 7 * z * (1 - 9 * z * (1 - 11 * z)))))
    return np.where(x < 15.0, near, 2 / math.sqrt(math.pi) * series)


def _where_rising(reached: Callable[[float], bool]) -> tuple[float, float]:
    """The last positive number that has not reached what all larger ones have, and the next, or nearly."""
    low, high = sys.float_info.min, sys.float_info.max
    while low < (middle := math.sqrt(low) * math.sqrt(high)) < high:
        low, high = (low, middle) if reached(middle) else (middle, high)
    return low, high


def check_epsilon(epsilon: float) -> float:
    """An epsilon as a plain float: from 1e-6 to 1e6, or infinite."""
    hint = "infinity (math.inf, on the command line inf) asks for no privacy"
    if isinstance(epsilon, float) and epsilon == math.inf:
        return math.inf
    return number("epsilon", epsilon, at_least=1e-6, at_most=1e6, hint=hint)


def check_delta(delta: float) -> float:
    """A delta as a plain float, from 1e-100 to 0.9."""
    hint = "a usual choice is at most one over the number of users, for example 1e-5"
    return number("delta", delta, at_least=1e-100, at_most=0.9, hint=hint)


def _check_mu(mu: float) -> float:
    if isinstance(mu, float) and mu == math.inf:
        return math.inf
    return number("mu", mu, at_least=0, at_most=1e6)
