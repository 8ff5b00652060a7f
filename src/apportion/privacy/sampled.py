"""Epsilon of steps that see a Poisson sample of the users, on the safe side at any delta.

Guarantee
    ``sampled_epsilon`` is never less than the true epsilon of Gaussian releases of total cost mu together
    with steps of noise r times the sensitivity, to which each user belongs with probability q. It is
    the smaller of two upper bounds by dp-accounting:

    1. *Privacy loss distributions*, composed by a fast Fourier transform. They are discretized to the safe
       side, but the numbers themselves are rounded, and each is wrong by about 2^-53 however small it
       is. So epsilon is asked for at delta - E, with E above all that rounding may do:

       - One step's curve delta(epsilon) is known at the points of a grid of width g = 10^-4, each value
         within 2^-46. The distribution that connects these points has just that curve. Replacing one
         step's by it moves the curve of the composition by no more, because that is an average of the
         step's curve at shifted epsilons: 2^-46 for each step.
       - A step's probabilities are differences of differences of these values, over e^g - 1. The differences
         add up to one at most, and each is rounded three times: less than 2^-51 / g for each step.
       - A Fourier transform of length F of probabilities is wrong by at most h = 2^-50 log2 F in every entry,
         each being a sum, in some log2 F roundings, of terms that add up to one. The power T makes that
         T h at most, no entry being larger than one, and adds less than T h of its own. delta is the scalar
         product of the transform back with weights w that rise from 0 to at most 1 (1 - e^(epsilon - loss)),
         so that entry k of w's transform is at most F / 2k: the sum over all k, over F, is at most
         2 + ln F. Together 2 T h (2 + ln F); a convolution with another distribution is one more step. The
         transform back is wrong by h at most in the L2 norm, which w makes h sqrt(F) at most.
       - Probabilities beyond epsilon are added up one by one. Each partial sum is rounded by 2^-53 of itself,
         and the partial sums add up to the mean excess of the loss over epsilon, in units of g. If all users
         took part, losses would be normal, of mean M^2 / 2 and variance M^2 for the cost M of everything.
         Sampling brings every loss nearer to zero, so that E |loss| <= M^2 + M: 2^-51 (M^2 + M) / g.

       A step's losses lie within 10.5 / r + 1.5 / r^2 of zero, since tails of e^-50 are cut off (to the safe
       side). So F is at most twice their range over g, summed over all steps.

    2. *Renyi differential privacy* of whole orders. These are sums of positive terms, added in logarithms:
       relative errors are below 10^-9 and absolute ones below 10^-12 a step, which are added. No delta is
       too small for it, but its epsilon is some percent larger where both can be had.

    The ledger takes the smaller of this and the cost as if all users took part, which is exact.

Assumes
    dp-accounting's bounds are as its papers prove them; only its rounding is accounted for here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apportion.errors import ParameterError

_GRID = 1e-4  # dp-accounting's default
_CURVE, _ENTRY, _SUM = 2.0**-46, 2.0**-50, 2.0**-51
# Where rounding is below this part of delta, the second bound cannot be the better one.
_NEGLIGIBLE = 1e-3
_ORDERS = (*range(2, 64), *(2**power for power in range(6, 13)))


@dataclass(frozen=True)
class SampledSteps:
    """Steps with noise of ``noise`` times the sensitivity, each on a sample at ``rate``."""

    noise: float
    rate: float
    steps: int


def sampled_epsilon(mu: float, sampled: Sequence[SampledSteps], delta: float) -> float:
    """An upper bound of epsilon at this delta, ``mu`` being the cost of all unsampled releases."""
    dp_accounting = find_dp_accounting()
    if math.isinf(mu) or not all(0 < each.noise < math.inf for each in sampled):
        return math.inf
    event = _event(mu, sampled)
    lost = rounding(mu, sampled)
    found = [math.inf]
    if lost < delta:
        accountant = dp_accounting.pld.PLDAccountant(value_discretization_interval=_GRID)
        found.append(_epsilon(accountant, event, delta - lost))
    if lost > _NEGLIGIBLE * delta or math.isinf(found[-1]):
        steps = 1 + sum(each.steps for each in sampled)
        renyi = _epsilon(dp_accounting.rdp.RdpAccountant(_ORDERS), event, delta)
        found.append(renyi * (1 + 1e-9) + steps * 1e-12)
    return min(found)


def rounding(mu: float, sampled: Sequence[SampledSteps]) -> float:
    """E: by how much rounding may make delta too small where privacy loss distributions are composed."""
    kinds = [(each.noise, each.steps) for each in sampled]
    if mu > 0:
        kinds.append((1 / mu, 1))
    steps = sum(count for _, count in kinds) + len(kinds)  # each kind is convolved with the others
    cost = math.fsum(count / noise**2 for noise, count in kinds)
    range_of_losses = math.fsum(
        2 * (10.5 / noise + 1.5 / noise**2) * count for noise, count in kinds
    )
    length = 2 * range_of_losses / _GRID + 2 * steps
    entry = _ENTRY * math.log2(length)
    return (
        steps * _CURVE
        + steps * _SUM / _GRID
        + 2 * steps * entry * (2 + math.log(length))
        + entry * math.sqrt(length)
        + _SUM * (cost + math.sqrt(cost)) / _GRID
    )


def find_dp_accounting() -> Any:
    """The optional package, with its accountants."""
    try:
        import dp_accounting
        import dp_accounting.pld
        import dp_accounting.rdp
    except ImportError as error:
        raise ParameterError(
            "this needs dp-accounting; run: pip install 'apportion[accounting]'"
        ) from error
    return dp_accounting


def _event(mu: float, sampled: Sequence[SampledSteps]) -> Any:
    dp_accounting = find_dp_accounting()
    events = [dp_accounting.GaussianDpEvent(1 / mu)] if mu > 0 else []
    for each in sampled:
        step = dp_accounting.GaussianDpEvent(each.noise)
        step = dp_accounting.PoissonSampledDpEvent(each.rate, step)
        events.append(dp_accounting.SelfComposedDpEvent(step, each.steps))
    return dp_accounting.ComposedDpEvent(events)


def _epsilon(accountant: Any, event: Any, delta: float) -> float:
    try:
        found = float(accountant.compose(event).get_epsilon(delta))
    except (ValueError, OverflowError):  # numbers that it cannot compute with
        return math.inf
    return math.inf if math.isnan(found) else found
