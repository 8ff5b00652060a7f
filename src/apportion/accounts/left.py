"""How much one more training may cost, beside those that are counted already.

Sampled releases are composed once, into the distribution of their privacy loss. A Gaussian release of cost
mu adds a loss that is normal with mean mu^2 / 2 and variance mu^2. So the delta of both is the mean, over
that loss, of the former's delta at epsilon less the loss: a sum over Gauss-Hermite nodes, once for adding
a user and once for removing one.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.accounts.costs import gaussian_cost
from apportion.privacy.gaussian import epsilon_from_mu, mu_from_epsilon
from apportion.privacy.ledger import PrivacyTarget, Record, total_epsilon

Array = NDArray[np.float64]

_NODES = 160
_HALVINGS = 40
# Room for what the sum over nodes leaves out, relative to mu, and the next attempt if it is not enough.
_ROOM = 3e-4


def largest_epsilon(counted: Sequence[Record], cap: PrivacyTarget) -> float:
    """The largest epsilon, at the cap's delta, of one more training (without sampled users).

    Exact unless users were sampled; then within 0.1 %, on the safe side.
    """
    rest = cap.delta - math.fsum(record.delta for record in counted)
    if rest <= 0:
        return 0.0
    square = mu_from_epsilon(cap.epsilon, rest) ** 2
    mu = math.sqrt(max(0.0, square - math.fsum(record.mu**2 for record in counted)))
    if any(record.sampling_rate < 1 for record in counted):
        mu = max(mu, _beside_sampled(counted, cap, rest))
    return epsilon_from_mu(mu, cap.delta)


def _beside_sampled(counted: Sequence[Record], cap: PrivacyTarget, delta: float) -> float:
    plain = math.fsum(record.mu**2 for record in counted if record.sampling_rate == 1)
    costs = [(one.mu, one.steps, one.sampling_rate) for one in counted if one.sampling_rate < 1]
    try:
        deltas = _sampled_deltas(tuple(sorted(costs)))
    except (ValueError, OverflowError, ImportError):  # what cannot be computed leaves nothing
        return 0.0
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    weights /= weights.sum()

    def fits(mu: float) -> bool:
        loss = mu * mu / 2 + mu * nodes
        return all(float(weights @ of(cap.epsilon - loss)) <= delta for of in deltas)

    low, high = math.sqrt(plain), mu_from_epsilon(cap.epsilon, delta)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    mu = math.sqrt(max(0.0, low * low - plain)) * (1 - _ROOM)
    if total_epsilon([*counted, gaussian_cost(mu)], cap.delta) > cap.epsilon:
        mu *= 1 - _ROOM
        if total_epsilon([*counted, gaussian_cost(mu)], cap.delta) > cap.epsilon:
            return 0.0
    return mu


@lru_cache(maxsize=8)
def _sampled_deltas(
    costs: tuple[tuple[float, int, float], ...],
) -> tuple[Callable[[Array], Array], ...]:
    """Delta as a function of epsilon, of all these releases, for removing a user and for adding one."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    whole: Any = None
    for mu, steps, rate in costs:
        deviation = math.sqrt(steps) / mu
        one = pld.from_gaussian_mechanism(deviation, sampling_prob=rate).self_compose(steps)
        whole = one if whole is None else whole.compose(one)
    return tuple(_delta_of(one.to_dense_pmf()) for one in (whole._pmf_remove, whole._pmf_add))


def _delta_of(pmf: Any) -> Callable[[Array], Array]:
    """delta(epsilon) = P[loss > epsilon] - e^epsilon E[e^-loss; loss > epsilon]."""
    losses = (np.arange(len(pmf._probs)) + pmf._lower_loss) * pmf._discretization
    chances = np.asarray(pmf._probs, dtype=np.float64)
    above = np.append(np.cumsum(chances[::-1])[::-1], 0.0) + pmf._infinity_mass
    other = np.append(np.cumsum((chances * np.exp(-losses))[::-1])[::-1], 0.0)

    def delta(epsilon: Array) -> Array:
        place = np.searchsorted(losses, epsilon, side="right")
        return np.asarray(above[place] - np.exp(epsilon) * other[place])

    return delta
