"""What a release consists of: its arrays, their bounds, and the records that say so.

Sensitivity
    A symmetric d x d matrix is released as its upper triangle. The map that multiplies off-diagonal
    entries by sqrt(2) is an isometry from the Frobenius norm to R^(d(d+1)/2). So noise sigma in that
    space is noise sigma on the diagonal and sigma / sqrt(2) off it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from apportion.checks import number, whole
from apportion.errors import ParameterError
from apportion.privacy.bounds import ROUNDING, UserBound
from apportion.privacy.discrete import Scales
from apportion.privacy.ledger import Record


def packed_width(dimension: int) -> int:
    """Entries in the upper triangle of a symmetric matrix, with its diagonal, row by row."""
    return dimension * (dimension + 1) // 2


@dataclass(frozen=True)
class Part:
    """One array of a release: for every task a sum over users, with the bound that makes it safe.

    Attributes
        name: of the array, for example "A".
        what: what is summed, in words.
        bound: the largest L2 norm of a user's part over all tasks (Frobenius, if symmetric).
        width: numbers per task; for symmetric matrices the dimension d.
        symmetric: the sums are packed upper triangles of symmetric d x d matrices.
    """

    name: str
    what: str
    bound: UserBound
    width: int = 1
    symmetric: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", whole("width of a part", self.width, at_least=0))

    @property
    def columns(self) -> int:
        """Numbers per task as they are released."""
        return packed_width(self.width) if self.symmetric else self.width

    def record(self, name: str, tasks: int, mu: float, **more: Any) -> Record:
        """What is to be written down of this part if a release of it costs ``mu``."""
        sensitivity = self.bound.norm * (1 + ROUNDING)
        return Record(
            name=name,
            what=self.what,
            shape=(tasks, self.columns),
            sensitivity=sensitivity,
            because=self.bound.because,
            noise_scale=sensitivity / mu,
            grid=self.bound.grid(mu),
            **more,
        )

    def scales(self, record: Record) -> Scales:
        """The variances of the noise, in units of the grid."""
        return _scales((record.noise_scale / record.grid) ** 2, self.width, self.symmetric)


@lru_cache(maxsize=64)
def _scales(variance: float, width: int, symmetric: bool) -> Scales:
    """Kept for the next sweep, and for the next of many small trainings."""
    variances = np.full(packed_width(width) if symmetric else width, variance)
    if symmetric:
        rows, columns = np.triu_indices(width)
        variances[rows != columns] /= 2
    # 9 for the grid (see ``release``); the last factor is for rounding here.
    return Scales.of((variances + 9.0) * (1 + 2.0**-50))


def record_names(name: str, parts: Sequence[Part]) -> list[str]:
    """The names of a release's records: its own, or ``name.part`` if it has several parts."""
    return [name] if len(parts) == 1 else [f"{name}.{part.name}" for part in parts]


def records_of(
    name: str,
    parts: Sequence[Part],
    tasks: int,
    mu: float,
    shares: Sequence[float] | None = None,
    steps: int = 1,
    sampling_rate: float = 1.0,
    delta: float = 0.0,
) -> list[Record]:
    """The records of a joint release that costs ``mu`` in all, one for each part.

    ``shares`` are the parts' portions of mu^2 (default: equal). A release to sampled users has one part:
    several on one sample are one event, not as many independent ones.
    """
    shares = [1.0] * len(parts) if shares is None else shares
    if len(shares) != len(parts) or not all(0 < share < 1e100 for share in shares):
        raise ParameterError(f"shares must be {len(parts)} positive numbers, got {shares!r}")
    portions = [number("a share", share, above=0) for share in shares]
    mu = number("mu of a release", mu, above=0, at_most=1e100)
    tasks, steps = whole("tasks", tasks, at_least=0), whole("steps", steps, at_least=1)
    total = math.fsum(portions)
    records = [
        part.record(
            own,
            tasks,
            mu * math.sqrt(portion / total / steps),
            steps=steps,
            sampling_rate=sampling_rate,
            delta=delta,
        )
        for own, part, portion in zip(record_names(name, parts), parts, portions, strict=True)
    ]
    if len(records) > 1 and records[0].sampling_rate < 1:
        raise ParameterError(
            f"a release to sampled users has one part, got {len(parts)}: side by side in one part, "
            "scaled to one bound, they are accounted as the one event that they are"
        )
    return records
