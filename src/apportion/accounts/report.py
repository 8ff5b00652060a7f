"""What a model's guarantee is, for people and for programs."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from apportion.accounts.attacker import (
    LARGE_EPSILON,
    percent,
    success_rate,
    success_rate_from_epsilon,
)
from apportion.accounts.formats import REPORT
from apportion.accounts.ledgers import ledger_from_dict, ledger_to_dict
from apportion.accounts.rdp import epsilon_from_rdp, rdp_budget
from apportion.accounts.trail import Trail
from apportion.errors import BudgetExceededError, DataError, printable
from apportion.json_text import parse_json
from apportion.privacy.ledger import ADD_OR_REMOVE, Ledger, Record

if TYPE_CHECKING:
    from rich.console import RenderableType

NOT_COUNTED = (
    "counted alone: other trainings on the same people add to this (their mu^2 add up); "
    "fit(..., budget=ap.Budget(...)) keeps count of all of them"
)


@dataclass(frozen=True)
class PrivacyReport:
    """The guarantee of a trained model, computed from its ledger.

    Attributes
        ledger: every release of the training.
        secret_noise: False when the noise came from a fixed seed; then nothing is private.
        public_inputs: everything that the guarantee takes as known to all.
        chosen: settings that followed from released values, and so are no inputs: nobody had to know them.
        warnings: what a reader should not overlook.
        neighboring: which data sets the guarantee cannot tell apart.
        budget: whether a ``Budget`` paid, which counts all trainings on these people together.
        trail: which training this was, and when; None in reports that do not say.

    A report is not signed: whoever can change its file can change what it says.
    """

    ledger: Ledger
    secret_noise: bool = True
    public_inputs: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    neighboring: str = ADD_OR_REMOVE
    chosen: Mapping[str, Any] = field(default_factory=dict)
    budget: bool = False
    trail: Trail | None = field(default=None, compare=False)

    unit = "one user, with all of its rows"

    @property
    def private(self) -> bool:
        """Whether there is any guarantee at all."""
        return (
            self.secret_noise
            and math.isfinite(self.ledger.target.epsilon)
            and math.isfinite(self.ledger.mu)
        )

    @property
    def delta(self) -> float:
        """The delta of the guarantee."""
        return self.ledger.target.delta

    @property
    def mu(self) -> float:
        """The noise's cost as Gaussian differential privacy; infinite if not private."""
        return self.ledger.mu if self.private else math.inf

    @cached_property
    def epsilon(self) -> float:
        """The epsilon of the guarantee at ``delta``; infinite if not private."""
        return self.ledger.epsilon(self.delta) if self.private else math.inf

    @property
    def verdict(self) -> str:
        """The guarantee in one line."""
        if not self.secret_noise:
            return "NOT PRIVATE: the noise comes from a fixed seed and can be subtracted"
        if not self.private:
            return "NOT PRIVATE: no noise was added"
        sampled = any(record.sampling_rate < 1 for record in self.ledger)
        mu = "with sampling" if sampled else f"mu = {self.mu:.4g}"
        return f"epsilon = {self.epsilon:.4g} at delta = {self.delta:g} ({mu})"

    @property
    def beta(self) -> float:
        """The same noise as (alpha, alpha beta)-Renyi privacy for all alpha > 1; infinite if it is not so.

        Neither users sampled in steps nor selections by a threshold have such a beta.
        """
        plain = all(record.sampling_rate == 1 and record.delta == 0 for record in self.ledger)
        return rdp_budget(self.mu) if plain else math.inf

    @cached_property
    def attack(self) -> float:
        """How often the best attacker can be right about whether one user was in the data.

        At most, if that user was there in half of all cases; one half is then what guessing achieves. The
        attacker knows everything else and sees all that was released.
        """
        if not self.private:
            return 1.0
        plain = all(record.sampling_rate == 1 and record.delta == 0 for record in self.ledger)
        return (
            success_rate(self.mu) if plain else success_rate_from_epsilon(self.epsilon, self.delta)
        )

    @property
    def cautions(self) -> tuple[str, ...]:
        """What follows from the figures and is easily overlooked; ``warnings`` are about the inputs."""
        if not self.private:
            return ()
        found = () if self.budget else (NOT_COUNTED,)
        if self.epsilon > LARGE_EPSILON:
            found = (
                f"epsilon is large: whoever knows everything else can tell whether one user was in the data, "
                f"and be right in up to {percent(self.attack)} of cases (guessing: 50 %)",
                *found,
            )
        return found

    @property
    def renyi(self) -> tuple[str, ...]:
        """What follows for readers of papers that account by Renyi divergences; not used for epsilon."""
        if not math.isfinite(self.beta):
            return ()
        converted = epsilon_from_rdp(self.beta, self.delta)
        return (
            f"(alpha, alpha * {self.beta:.4g})-RDP for all alpha > 1; its usual conversion would give "
            f"epsilon = {converted:.4g}",
        )

    def to_json(self) -> str:
        """The whole report as JSON text."""
        values = {
            **REPORT.stamp,
            "private": self.private,
            "epsilon": "inf" if math.isinf(self.epsilon) else self.epsilon,
            "delta": self.delta,
            "mu": "inf" if math.isinf(self.mu) else self.mu,
            "unit": self.unit,
            "neighboring": self.neighboring,
            "secret_noise": self.secret_noise,
            "budget": self.budget,
            "public_inputs": dict(self.public_inputs),
            "chosen": dict(self.chosen),
            "warnings": list(self.warnings),
            "ledger": ledger_to_dict(self.ledger),
            **({} if self.trail is None else {"trail": self.trail.to_dict()}),
        }
        return json.dumps(values, indent=2, allow_nan=False, default=_plain)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a report. Epsilon and mu are computed again from the ledger, never read."""
        try:
            values = parse_json(text)
            _check_texts(values)
            values = REPORT.read("this", values)
            return cls(
                ledger=ledger_from_dict(values["ledger"]),
                secret_noise=values["secret_noise"] is True,
                public_inputs=dict(values["public_inputs"]),
                warnings=_texts(values["warnings"]),
                neighboring=str(values["neighboring"]),
                chosen=dict(values.get("chosen", {})),
                budget=values.get("budget") is True,
                trail=Trail.from_dict(values["trail"]) if "trail" in values else None,
            )
        except (KeyError, TypeError, ValueError, BudgetExceededError) as error:
            raise DataError(f"not a privacy report: {error}") from error

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Of every release: name, what, shape, sensitivity, noise and portion of the budget, as text."""
        for record in self.ledger:
            numbers = (f"{record.sensitivity:.4g}", f"{record.noise_scale:.4g}{_steps(record)}")
            yield record.name, record.what, _shape(record), *numbers, self._share(record)

    def __repr__(self) -> str:
        what = f"{self.verdict}; {len(list(self.ledger))} releases, {len(self.warnings)} warnings"
        return f"PrivacyReport({what})"

    def _repr_html_(self) -> str:
        from apportion.accounts.cards import report_card

        return report_card(self)

    def __str__(self) -> str:
        lines = [
            self.verdict,
            f"  unit         {self.unit}",
            f"  neighboring {self.neighboring}",
            *(f"  Renyi       {line}" for line in self.renyi),
        ]
        lines += [f"  WARNING      {warning}" for warning in self.warnings]
        lines += [f"  note         {caution}" for caution in self.cautions]
        lines.append("  releases")
        for record in self.ledger:
            lines.append(
                f"    {record.name}: {record.what}, {_shape(record)}; "
                f"sensitivity {record.sensitivity:.4g} ({record.because}); "
                f"noise {record.noise_scale:.4g}{_steps(record)}; {self._share(record)} of the budget"
            )
        lines.append("  public inputs")
        lines += [f"    {name}: {value}" for name, value in self.public_inputs.items()]
        if self.chosen:
            lines.append("  chosen from released values")
            lines += [f"    {name}: {value}" for name, value in self.chosen.items()]
        if self.trail is not None:
            lines.append("  trail")
            lines += [f"    {name}: {value}" for name, value in self.trail.facts().items()]
        return "\n".join(printable(line) for line in lines)

    def __rich__(self) -> "RenderableType":
        from rich import markup
        from rich.console import Group
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        def escape(text: object) -> str:
            return markup.escape(printable(text))

        releases = Table(box=None, padding=(0, 2, 0, 0))
        for title in ("release", "what", "shape"):
            releases.add_column(title)
        for title in ("sensitivity", "noise", "budget"):
            releases.add_column(title, justify="right")
        for row in self.rows():
            releases.add_row(*map(escape, row))

        def listed(values: Mapping[str, Any]) -> Table:
            table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
            for name, value in values.items():
                table.add_row(f"[dim]{escape(name)}[/dim]", escape(value))
            return table

        chosen: list[RenderableType] = ["", "[bold]chosen from released values[/bold]"]
        trail: list[RenderableType] = ["", "[bold]trail[/bold]"]
        return Panel(
            Group(
                Text(self.verdict, style="bold green" if self.private else "bold red"),
                f"[dim]unit:[/dim] {self.unit}",
                f"[dim]neighboring:[/dim] {escape(self.neighboring)}",
                *(f"[dim]Renyi:[/dim] {line}" for line in self.renyi),
                *(f"[yellow]warning:[/yellow] {escape(warning)}" for warning in self.warnings),
                *(f"[yellow]note:[/yellow] {escape(caution)}" for caution in self.cautions),
                "",
                releases,
                "",
                "[bold]taken as public[/bold]",
                listed(self.public_inputs),
                *([*chosen, listed(self.chosen)] if self.chosen else []),
                *([*trail, listed(self.trail.facts())] if self.trail is not None else []),
            ),
            title="privacy report",
            title_align="left",
            border_style="green" if self.private else "red",
        )

    def _share(self, record: Record) -> str:
        total = self.ledger.mu
        return f"{record.mu**2 / total**2:.1%}" if math.isfinite(total) else "-"


def _shape(record: Record) -> str:
    return " x ".join(str(size) for size in record.shape)


def _steps(record: Record) -> str:
    """How often, for which part of the users, and with which delta, if not once, all and zero."""
    times = f" x {record.steps} steps" if record.steps > 1 else ""
    times += f", {record.sampling_rate:.3g} of users" if record.sampling_rate < 1 else ""
    return times + (f", delta {record.delta:.2g}" if record.delta > 0 else "")


def _plain(value: object) -> Any:
    """NumPy numbers and arrays as JSON knows them; anything else by its text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _check_texts(values: object) -> None:
    """Refuse control characters: a report is shown on terminals, which they might command."""
    if isinstance(values, str) and any(map(_commands, values)):
        raise DataError("a text holds control characters")
    if isinstance(values, (list, dict)):
        for value in values:
            _check_texts(value)
    if isinstance(values, dict):
        _check_texts(list(values.values()))


def _commands(c: str) -> bool:
    """Control characters, and halves of surrogate pairs, which no terminal can show."""
    return c < " " or "\x7f" <= c <= "\x9f" or "\ud800" <= c <= "\udfff"


def _texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise DataError("warnings must be a list of texts")
    return tuple(values)
