"""What notebooks show of reports, plans and budgets. Every text is escaped: no name becomes markup."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from apportion.accounts.explained import report_sections, tone_of
from apportion.errors import ApportionError
from apportion.pages import (
    Section,
    card,
    details,
    facts,
    folded,
    join,
    long_bars,
    notes,
    paragraph,
    table,
)

if TYPE_CHECKING:
    from apportion.accounts.budget import Budget
    from apportion.accounts.plan import Plan
    from apportion.accounts.report import PrivacyReport

# So many trainings are shown, the latest.
_SHOWN = 20
_NOT_TO_BE_PUBLISHED = "not private: to compare with, on the owner's side; not to be published"


def report_card(report: PrivacyReport) -> str:
    """A privacy report: the parts of its page, the first of them open."""
    return card("Privacy report", _parts(report, opened=1))


def model_card(title: object, report: PrivacyReport, known: dict[str, object], use: str) -> str:
    """A trained model: its guarantee, what is ``known`` to everybody, and what it may be used for."""
    return card(
        title,
        facts({**known, "use": use if report.private else _NOT_TO_BE_PUBLISHED}),
        notes(report.warnings),
        _parts(report, opened=0),
        verdict=report.verdict,
        tone=tone_of(report),
    )


def plan_sections(plan: Plan) -> list[Section]:
    """How a training will spend its budget, in one part."""
    releases = plan.to_dict()["releases"]
    private = math.isfinite(plan.target.mu)
    note = "Noise is in units of one person's part." if private else "NOT PRIVATE: no noise."
    columns = ("release", "what", "budget", "noise")
    body = join(
        paragraph(f"Follows from the settings alone: no data was read. {note}"),
        long_bars(
            "The part of the budget of each release, in percent",
            [(each["name"], 100 * each["share"]) for each in releases],
        ),
        table(columns, plan.rows(), numbers=2),
    )
    return [Section("How the budget will be spent", body)]


def _parts(report: PrivacyReport, opened: int) -> str:
    trail = report.trail
    return join(
        folded(report_sections(report), opened),
        details("trail", facts(trail.facts())) if trail is not None else "",
    )


def budget_card(budget: Budget) -> str:
    """What a budget's file says now; an unreadable one says why."""
    title = f"Budget {budget.path}"
    try:
        left, trainings, doubt = budget.left, budget.history(), budget.doubt
        spent = budget.epsilon
    except ApportionError as error:
        return card(title, verdict=error, tone="bad")
    rows = [
        (
            one.began,
            one.what,
            one.label,
            f"{one.epsilon:.4g} at {one.target.delta:g}",
            "open" if one.ended is None else "ended",
        )
        for one in reversed(trainings[-_SHOWN:])
    ]
    older = len(trainings) - len(rows)
    columns = ("began (UTC)", "what", "label", "counted for", "state")
    return card(
        title,
        notes([doubt] if doubt else ()),
        facts(
            {"left": f"one more training of epsilon up to {left:.4g}", "trainings": len(trainings)}
        ),
        table(columns, rows) if rows else "",
        paragraph(f"and {older} before these", "dim") if older else "",
        verdict=f"epsilon = {spent:.4g} of {budget.cap.epsilon:g} is counted at delta = {budget.cap.delta:g}",
        tone="good" if left > 0 else "warn",
    )
