"""Epsilon of steps that see a Poisson sample of the users, on the safe side at any delta.

Guarantee
    ``sampled_epsilon`` is never less than the true epsilon of Gaussian releases of total cost mu together
    with steps of noise r times the sensitivity, to which each user belongs with probability q. It is
    the smaller of two upper bounds by dp-accounting:

    1. *Privacy loss distributions*, composed by a fast Fourier transform. They are discretized to the safe
       side, but each number is rounded, by about 2^-53 however small it is. So epsilon is asked for at
       delta - E. E is above all that rounding may do: ``rounding`` computes it, docs/explanation/proofs.md
       ("Rounding of composed distributions") derives it.
    2. *Renyi differential privacy* of whole orders: sums of positive terms, added in logarithms. Relative
       errors are below 10^-9 and absolute ones below 10^-12 a step, which are added. No delta is too small
       for it, but its epsilon is some percent larger where both can be had.

    The ledger takes the smaller of this and the cost as if all users took part, which is exact.

Assumes
    dp-accounting's bounds are as its papers prove them; only its rounding is accounted for here.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from apportion.errors import ParameterError

_GRID = 1e-4  # dp-accounting's default
_CURVE, _ENTRY, _SUM = 2.0**-46, 2.0**-50, 2.0**-51
# Where rounding is below this part of delta, the second bound cannot be the better one.
_NEGLIGIBLE = 1e-3
_ORDERS = (*range(2, 64), *(2**power for power in range(6, 13)))


class SampledSteps(NamedTuple):
    """Steps with noise of ``noise`` times the sensitivity, each on a sample at ``rate``."""

    noise: float
    rate: float
    steps: int


def sampled_epsilon(mu: float, sampled: Sequence[SampledSteps], delta: float) -> float:
    """An upper bound of epsilon at this delta, ``mu`` being the cost of all unsampled releases."""
    dp_accounting = find_dp_accounting()
    if math.isinf(mu) or not all(1e-100 < each.noise < 1e100 for each in sampled):
        return math.inf  # squares would be no numbers
    mu = max(mu, 1e-100) if mu > 0 else 0.0  # the same: what costs more is an upper bound, too
    event = _event(mu, sampled)
    lost = rounding(mu, sampled)
    found = [math.inf]
    if lost < delta:
        accountant = dp_accounting.pld.PLDAccountant(value_discretization_interval=_GRID)
        found.append(_epsilon(accountant, event, delta - lost))
    if lost > _NEGLIGIBLE * delta:
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
