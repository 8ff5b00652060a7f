"""How a training will spend its budget, before it spends any of it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apportion.accounts.declared import Declared
from apportion.errors import ParameterError
from apportion.privacy import Curator, OpenRelease, PrivacyTarget

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Plan:
    """All releases of a training to come, in their order. Made from parameters alone, not from data.

    Attributes
        target: the budget.
        releases: as they are declared.
        rest: the portion of the budget (of mu^2) for releases that are chosen once counts are released.
        of_rest: which these are.
    """

    target: PrivacyTarget
    releases: tuple[Declared, ...]
    rest: float = 0.0
    of_rest: str = "sweeps"

    def __post_init__(self) -> None:
        total = math.fsum(release.share for release in self.releases) + self.rest
        positive = all(release.share > 0 for release in self.releases) and self.rest >= 0
        if not positive or total > 1 + 1e-9:
            raise ParameterError(
                "the shares of the budget leave nothing for training: "
                + ", ".join(f"{release.name} {release.share:.3g}" for release in self.releases)
            )

    def __getitem__(self, name: str) -> Declared:
        """The release of this name."""
        [found] = [release for release in self.releases if release.name == name]
        return found

    def open(self, name: str, curator: Curator, tasks: int) -> OpenRelease:
        """Record the release of this name, and wait for its sums.

        If it is the last, and nothing is left to be chosen, it gets what is left, to the last digit.
        """
        last = self.releases[-1].name == name and self.rest == 0
        return self[name].open(curator, tasks, curator.ledger.affordable_mu() if last else None)

    def __contains__(self, name: str) -> bool:
        return any(release.name == name for release in self.releases)

    @property
    def training_mu(self) -> float:
        """What is left for releases that are chosen later."""
        return self.target.mu * math.sqrt(self.rest)

    def _lines(self) -> Iterator[tuple[str, str, float, Declared | None]]:
        """Name, what is released, portion of the budget and the release, of every part."""
        for release in self.releases:
            total = math.fsum(release.shares)
            names = release.part_names()
            for name, part, portion in zip(names, release.parts, release.shares, strict=True):
                yield name, part.what, release.share * portion / total, release
        if self.rest > 0:
            yield "training", f"{self.of_rest}, chosen after counts", self.rest, None

    def rows(self) -> Iterator[tuple[str, str, str, str]]:
        """Of every release: name, what, portion of the budget and noise, as text."""
        for name, what, share, release in self._lines():
            noise = self._noise(share, release)
            text = "none" if math.isinf(self.target.mu) else "as sampling asks"
            if noise is not None:
                text = f"{noise:.3g}"
            if release is not None and release.steps > 1:
                text += f" x {release.steps} steps"
            yield name, what, f"{share:.1%}", text

    def to_dict(self) -> dict[str, Any]:
        """As plain values: the target, and of each release its name, what it is, its share and its noise.

        >>> from apportion import MatrixFactorization
        >>> MatrixFactorization(epsilon=1.0).plan().to_dict()["epsilon"]
        1.0
        """
        private = not math.isinf(self.target.mu)
        releases = [
            {
                "name": name,
                "what": what,
                "share": share,
                "noise": self._noise(share, release) if private else 0.0,
            }
            for name, what, share, release in self._lines()
        ]
        return {
            "epsilon": self.target.epsilon,
            "delta": self.target.delta,
            "mu": self.target.mu,
            "releases": releases,
        }

    def __str__(self) -> str:
        lines = (
            f"  {name:<20} {what:<44} {share:>6}, noise {noise}"
            for name, what, share, noise in self.rows()
        )
        return "\n".join([self._title, *lines])

    def __repr__(self) -> str:
        return f"Plan({self._title.removeprefix('plan ').partition(';')[0]}; {len(self.releases)} releases)"

    def _repr_html_(self) -> str:
        from apportion.accounts.cards import plan_sections
        from apportion.pages import card, folded

        title, _, note = self._title.partition("; ")
        return card(title.capitalize(), folded(plan_sections(self)), verdict=note, tone="dim")

    def __rich__(self) -> "RenderableType":
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, padding=(0, 2, 0, 0))
        table.add_column("release")
        table.add_column("what")
        table.add_column("budget", justify="right")
        table.add_column("noise", justify="right")
        for row in self.rows():
            table.add_row(*row)
        return Group(Text(self._title, style="bold"), table)

    @property
    def _title(self) -> str:
        if math.isinf(self.target.epsilon):
            return "plan: NOT PRIVATE, no noise"
        return (
            f"plan for epsilon = {self.target.epsilon:g} at delta = {self.target.delta:g} "
            f"(mu = {self.target.mu:.4g}); noise in units of one user's part"
        )

    def _noise(self, share: float, release: Declared | None) -> float | None:
        """In units of one user's part, of every step; None where there is none, or sampling decides."""
        if math.isinf(self.target.mu) or (release is not None and release.sampling_rate < 1):
            return None
        steps = 1 if release is None else release.steps
        return math.sqrt(steps) / (self.target.mu * math.sqrt(share))
