"""How much one more release to sampled users may cost. What is found too large is refused by the ledger."""

import math

from apportion.privacy import Curator, Record
from apportion.privacy.ledger import LEAST_SAMPLED_NOISE, Ledger


def sampled_mu(ledger: Ledger, steps: int, sampling_rate: float) -> float:
    """The largest mu (as if all users took part) that a release to Poisson samples may cost.

    Within 0.1 % and on the safe side; exact to rounding if all users take part.
    """
    plain = ledger.affordable_mu()
    if sampling_rate == 1 or plain == 0 or math.isinf(plain):
        return plain
    most = math.sqrt(steps) / LEAST_SAMPLED_NOISE

    def fits(mu: float) -> bool:
        noise_scale = math.sqrt(steps) / mu
        return ledger.allows(Record("trial", "", (), 1.0, "", noise_scale, steps, sampling_rate))

    low, high = plain, 2 * plain
    while high < most and fits(high):
        low, high = high, 2 * high
    if low >= most or (high >= most and fits(most)):
        return most
    high = min(high, most)
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def sampled_mu_of(curator: Curator, steps: int, sampling_rate: float) -> float:
    """As ``sampled_mu``, and with a budget no more than what is reserved for such a release."""
    mu = sampled_mu(curator.ledger, steps, sampling_rate)
    if curator.reservation is None or sampling_rate == 1:
        return mu
    return min(mu, curator.reservation.sampled_mu(steps, sampling_rate))
