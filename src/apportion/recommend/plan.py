"""How a training will spend its budget, before it spends any of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from apportion.errors import ParameterError
from apportion.privacy import PrivacyTarget

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class PlannedRelease:
    """One release to come: its name, what it is, and its portion of the budget (of mu^2)."""

    name: str
    what: str
    share: float


@dataclass(frozen=True)
class Plan:
    """All releases of a training to come, in their order. Made from parameters alone, not from data.

    Their portions of mu^2 add up to one.
    """

    target: PrivacyTarget
    releases: tuple[PlannedRelease, ...]

    def __post_init__(self) -> None:
        total = math.fsum(release.share for release in self.releases)
        if not all(release.share > 0 for release in self.releases) or total > 1 + 1e-9:
            raise ParameterError(
                "the shares of the budget leave nothing for training: "
                + ", ".join(f"{release.name} {release.share:.3g}" for release in self.releases)
            )

    @classmethod
    def with_sweeps(
        cls,
        target: PrivacyTarget,
        first: Sequence[PlannedRelease],
        sweeps: int,
        parts: Sequence[PlannedRelease],
    ) -> Self:
        """Some releases before all sweeps, then the same ``parts`` in every sweep, with equal budgets.

        A part's name follows that of its sweep ("sweep 1.b"); its share is that of a sweep's budget.
        """
        left = (1 - math.fsum(release.share for release in first)) / sweeps
        of_sweeps = (
            PlannedRelease(f"sweep {sweep}{part.name}", part.what, left * part.share)
            for sweep in range(1, sweeps + 1)
            for part in parts
        )
        return cls(target, (*first, *of_sweeps))

    def mu(self, name: str) -> float:
        """What the release may cost."""
        [share] = [release.share for release in self.releases if release.name == name]
        return self.target.mu * math.sqrt(share)

    def __str__(self) -> str:
        lines = (
            f"  {release.name:<20} {release.what:<44} {self._noise(release)}"
            for release in self.releases
        )
        return "\n".join([self._title, *lines])

    def __rich__(self) -> "RenderableType":
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, padding=(0, 2, 0, 0))
        table.add_column("release")
        table.add_column("what")
        table.add_column("budget", justify="right")
        table.add_column("noise", justify="right")
        for release in self.releases:
            noise = "none" if math.isinf(self.target.mu) else f"{1 / self.mu(release.name):.3g} x"
            table.add_row(release.name, release.what, f"{release.share:.1%}", noise)
        return Group(Text(self._title, style="bold"), table)

    @property
    def _title(self) -> str:
        if math.isinf(self.target.epsilon):
            return "plan: NOT PRIVATE, no noise"
        return (
            f"plan for epsilon = {self.target.epsilon:g} at delta = {self.target.delta:g} "
            f"(mu = {self.target.mu:.4g}); noise in units of one user's part"
        )

    def _noise(self, release: PlannedRelease) -> str:
        if math.isinf(self.target.mu):
            return f"{release.share:6.1%}, no noise"
        return f"{release.share:6.1%}, noise {1 / self.mu(release.name):.3g}"
