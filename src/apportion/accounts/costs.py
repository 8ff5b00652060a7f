"""What trainings cost, written as records: what a budget reserves, and whether releases keep to it."""

import math
from collections.abc import Iterable, Sequence

from apportion.privacy.ledger import PrivacyTarget, Record

# Rounding allowed to the releases of a training, relative to its target; reserved with it. A cap leaves
# five times that (see ``gaussian``).
ROUNDING = 2e-12


def whole_cost(target: PrivacyTarget, paid: Iterable[Record] = ()) -> tuple[Record, ...]:
    """What a training without sampled users costs, less what it has paid already."""
    paid = tuple(paid)
    [whole] = part_of_cost(target, 1.0)
    square = whole.mu**2 - math.fsum(record.mu**2 for record in paid)
    delta = whole.delta - math.fsum(record.delta for record in paid)
    return (gaussian_cost(math.sqrt(max(square, 0.0)), max(delta, 0.0)),)


def part_of_cost(target: PrivacyTarget, share: float) -> tuple[Record, ...]:
    """What Gaussian releases cost that spend a share of a training's mu^2, and all of its selections."""
    return (gaussian_cost(target.mu * math.sqrt(share) * (1 + ROUNDING), target.selection_delta),)


def gaussian_cost(mu: float, delta: float = 0.0) -> Record:
    """Any Gaussian releases that cost mu in all, and delta for selections."""
    return Record("all", "Gaussian releases", (), mu, "reserved", 1.0, delta=delta)


def sampled_cost(mu: float, steps: int, sampling_rate: float) -> Record:
    """A release of so many steps to sampled users, which would cost mu if all took part."""
    mu *= 1 + ROUNDING
    return Record(
        "steps", "sampled", (), mu / math.sqrt(steps), "reserved", 1.0, steps, sampling_rate
    )


def merged(records: Iterable[Record]) -> list[Record]:
    """The same cost in one record, and one more for each release to sampled users."""
    records = list(records)
    plain = [record for record in records if record.sampling_rate == 1]
    sampled = [record for record in records if record.sampling_rate < 1]
    if not plain:
        return sampled
    mu = math.sqrt(math.fsum(record.mu**2 for record in plain))
    return [gaussian_cost(mu, math.fsum(record.delta for record in plain)), *sampled]


def covers(reserved: Sequence[Record], records: Sequence[Record]) -> bool:
    """Whether records cost no more than what is reserved, release for release where users are sampled."""
    mine, theirs = merged(records), merged(reserved)
    for record in mine:
        match = next((one for one in theirs if kind(one) == kind(record)), None)
        if match is None or record.delta > match.delta or record.mu > match.mu * (1 + 1e-15):
            return False
        theirs.remove(match)
    return True


def kind(record: Record) -> tuple[int, float]:
    """Steps and sampling rate: releases of another kind cannot stand for one another."""
    return record.steps, record.sampling_rate
