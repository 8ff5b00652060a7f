"""A privacy report for people: its promise in words, the best attacker, what was released, what is left open.

The same parts in ``apportion report --html``, in the explorer and in notebooks. Everything follows from the
report; nothing else is read.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal

from apportion.accounts.attacker import (
    LARGE_EPSILON,
    detection_rate,
    percent,
    success_rate,
    success_rate_from_epsilon,
)
from apportion.accounts.report import PrivacyReport
from apportion.pages import (
    Axis,
    Curve,
    Mark,
    Section,
    curve_chart,
    details,
    facts,
    join,
    long_bars,
    notes,
    paragraph,
    table,
)
from apportion.privacy.gaussian import mu_from_epsilon

# What people compare an epsilon with.
_KNOWN = (1.0, 3.0, 10.0)
_NOT_PROTECTED = (
    "What is true of people in general. That smoking causes cancer is learned, and holds for each of them, "
    "whether they took part or not.",
    "Groups. A family that always rates together is hidden less well than one person: k people together "
    "have k times the mu.",
    "Other trainings on the same people. Each spends a budget of its own, and the costs add up, unless one "
    "budget pays for all of them.",
    "What was declared public. Bounds, the catalog and settings must not have been chosen by looking at "
    "the data.",
    "The machine that trained. The guarantee is about what was released, not about who may see the data.",
)


def report_sections(report: PrivacyReport) -> list[Section]:
    """All parts of a report."""
    return [
        _promise(report),
        *([_curve(report), _alarms(report)] if report.private else []),
        _prices(report),
        Section("What is not protected", notes(_NOT_PROTECTED, "")),
        _inputs(report),
    ]


def tone_of(report: PrivacyReport) -> Literal["good", "warn", "bad"]:
    """Green only for what is private, has no warnings and a moderate epsilon."""
    if not report.private:
        return "bad"
    return "warn" if report.warnings or report.epsilon > LARGE_EPSILON else "good"


def _promise(report: PrivacyReport) -> Section:
    if report.private:
        lead = (
            "Take any one person. Whoever sees everything that was released, and knows everything about "
            "everybody else, can say whether this person took part and be right in at most "
            f"{percent(report.attack)} of cases. Guessing is right in 50 %."
        )
    else:
        lead = "This model protects nobody. It is there to compare with, and must not be published."
    known = {
        "epsilon": f"{report.epsilon:.4g}",
        "delta": f"{report.delta:g}",
        "mu": f"{report.mu:.4g}",
        "unit": report.unit,
        "neighboring": report.neighboring,
        **({"Renyi": report.renyi[0]} if report.renyi else {}),
    }
    body = join(
        paragraph(lead, "lead"),
        paragraph(report.verdict, tone_of(report)),
        notes(report.warnings),
        notes(report.cautions, "dim"),
        facts(known) if report.private else "",
    )
    return Section("What this promises", body, wide=True)


def _curve(report: PrivacyReport) -> Section:
    """The best attacker's success by epsilon: where this model is, and what is usual."""
    low, high = 0.05, max(20.0, 1.5 * min(report.epsilon, 1e3))

    def success(epsilon: float) -> float:
        return 100 * success_rate(mu_from_epsilon(epsilon, report.delta))

    steps = 60
    epsilons = [low * (high / low) ** (step / steps) for step in range(steps + 1)]
    points = [(epsilon, success(epsilon)) for epsilon in epsilons]
    here = Mark(
        f"this model: {percent(report.attack)}",
        min(max(report.epsilon, low), high),
        100 * report.attack,
        strong=True,
        below=report.epsilon < 2,
    )
    marks = [
        Mark(f"{epsilon:g}: {success(epsilon):.0f} %", epsilon, success(epsilon), below=epsilon < 2)
        for epsilon in _KNOWN
        if abs(math.log(epsilon / here.x)) > 0.6
    ]
    ticks = [tick for tick in (0.1, 0.3, 1, 3, 10, 30, 100) if low <= tick <= high]
    chart = curve_chart(
        f"How often the best attacker is right, by epsilon; {here.name}",
        Axis(f"epsilon, at delta = {report.delta:g}", low, high, ticks, log=True),
        Axis("right, of 100 cases", 50, 100, (50, 60, 70, 80, 90, 100), unit=" %"),
        [Curve("the best attacker", points)],
        [*marks, here],
    )
    rows = [
        (f"{epsilon:g}", f"{success(epsilon):.1f} %", f"{_found(epsilon, report.delta):.1f} %")
        for epsilon in _KNOWN
    ]
    body = join(
        paragraph(
            "The curve is an upper bound for every attacker, however clever, with any knowledge. One who "
            "knows less, or only sees recommendations, does worse."
        ),
        chart,
        details(
            "epsilon of 1, 3 and 10",
            table(("epsilon", "right", "found, at 1 % false alarms"), rows, numbers=2),
        ),
    )
    return Section("What an attacker can tell", body)


def _found(epsilon: float, delta: float) -> float:
    return 100 * detection_rate(mu_from_epsilon(epsilon, delta), 0.01)


def _alarms(report: PrivacyReport) -> Section:
    """Whom an attacker finds who must not raise many false alarms."""
    if not math.isfinite(report.beta):  # no mu: only what epsilon and delta say
        bound = success_rate_from_epsilon(report.epsilon, report.delta)
        said = (
            f"By epsilon and delta alone an attacker is right in at most {percent(bound)} of cases."
        )
        return Section("Alarms and false alarms", paragraph(said))
    rates = [step / 50 for step in range(51)]
    points = [(100 * rate, 100 * detection_rate(report.mu, rate)) for rate in rates]
    few = 100 * detection_rate(report.mu, 0.01)
    some = 100 * detection_rate(report.mu, 0.1)
    said = (
        f"Who may raise a false alarm about 1 in 100 people who did not take part finds at most {few:.3g} of "
        f"100 who did; at 10 false alarms {some:.3g}."
    )
    ticks = (0, 20, 40, 60, 80, 100)
    chart = curve_chart(
        f"Those who are found, by false alarms. {said}",
        Axis("false alarms, of 100 who did not take part", 0, 100, ticks, unit=" %"),
        Axis("found, of 100 who did", 0, 100, ticks, unit=" %"),
        [
            Curve("the best attacker", points),
            Curve("who only guesses", [(0, 0), (100, 100)], dashed=True),
        ],
        [Mark(f"10 %: {some:.3g} %", 10, some, strong=True, below=some < 30)],
    )
    return Section("Alarms and false alarms", join(paragraph(said), chart))


def _prices(report: PrivacyReport) -> Section:
    total = report.ledger.mu
    shares = [
        (record.name, 100 * record.mu**2 / total**2)
        for record in report.ledger
        if math.isfinite(total) and total > 0
    ]
    columns = ("release", "what", "shape", "sensitivity", "noise", "budget")
    body = join(
        paragraph(
            "Every release has noise of its own. Its price is its part of mu squared; together they make "
            "the guarantee. Nothing else left the training."
        ),
        long_bars("The part of the budget that each release took, in percent", shares)
        if shares
        else "",
        details("with sensitivities and noise", table(columns, report.rows(), numbers=3)),
    )
    return Section("What was released, at what price", body)


def _inputs(report: PrivacyReport) -> Section:
    body = join(
        paragraph("The guarantee takes these as known to all.", "dim"),
        facts(_said_of(report.public_inputs)),
        join(
            paragraph("Chosen from released values, at no further price:", "dim"),
            facts(_said_of(report.chosen)),
        )
        if report.chosen
        else "",
    )
    return Section("Taken as public", body, wide=True)


def _said_of(settings: Mapping[str, Any]) -> dict[str, str]:
    return {name: _said(value) for name, value in settings.items()}


def _said(value: Any) -> str:
    """A setting as people write it: short numbers, lists without brackets."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_said(each)}" for name, each in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_said(each) for each in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
