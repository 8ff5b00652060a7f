"""Releases as they are planned: a plan prints them, a step makes them, verification compares with them."""

import math
from dataclasses import dataclass

from apportion.privacy import Curator, OpenRelease, Part, PrivacyTarget, Record, records_of
from apportion.privacy.parts import record_names


@dataclass(frozen=True)
class Declared:
    """A release as it is planned.

    Attributes
        name: of the release; its record has it, and for several parts ``name.part``.
        parts: what is released.
        share: its portion of the budget (of mu^2).
        shares: the parts' portions of that.
        tasks: how many tasks the arrays have; None for those of the catalog.
        steps: how often they are released.
        sampling_rate: of users in each step.
        selects: whether it is a thresholded selection, which has the target's ``selection_delta`` besides.
    """

    name: str
    parts: tuple[Part, ...]
    share: float
    shares: tuple[float, ...] = (1.0,)
    tasks: int | None = None
    steps: int = 1
    sampling_rate: float = 1.0
    selects: bool = False

    def mu(self, target: PrivacyTarget) -> float:
        """What it costs."""
        return target.mu * math.sqrt(self.share)

    def part_names(self) -> list[str]:
        """The names of its records."""
        return record_names(self.name, self.parts)

    def records(self, tasks: int, mu: float, delta: float = 0.0) -> list[Record]:
        """What the ledger will hold if it costs ``mu``."""
        return records_of(
            self.name,
            self.parts,
            tasks if self.tasks is None else self.tasks,
            mu,
            self.shares,
            self.steps,
            self.sampling_rate,
            delta if self.selects else 0.0,
        )

    def open(self, curator: Curator, tasks: int, mu: float | None = None) -> OpenRelease:
        """Record it, at its planned cost or another, and wait for its sums."""
        return curator.open(
            self.name,
            self.parts,
            tasks if self.tasks is None else self.tasks,
            self.mu(curator.target) if mu is None else mu,
            self.shares,
            self.steps,
            self.sampling_rate,
        )
