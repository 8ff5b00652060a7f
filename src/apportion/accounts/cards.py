"""What notebooks show of reports and budgets. Every text is escaped: names and labels never become markup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from apportion.accounts.attacker import LARGE_EPSILON, percent
from apportion.errors import ApportionError
from apportion.pages import card, details, facts, join, notes, paragraph, table

if TYPE_CHECKING:
    from apportion.accounts.budget import Budget
    from apportion.accounts.report import PrivacyReport

# So many trainings are shown, the latest.
_SHOWN = 20
_NOT_TO_BE_PUBLISHED = "not private: to compare with, on the owner's side; not to be published"


def report_card(report: PrivacyReport) -> str:
    """A privacy report, its releases behind a click."""
    known = {
        "unit": report.unit,
        "neighboring": report.neighboring,
        "best attacker": f"right in at most {percent(report.attack)} of cases (guessing: 50 %)",
        **({"Renyi": report.renyi[0]} if report.renyi else {}),
    }
    return card(
        "Privacy report",
        facts(known),
        report_pieces(report),
        verdict=report.verdict,
        tone=tone_of(report),
    )


def model_card(title: object, report: PrivacyReport, known: dict[str, object], use: str) -> str:
    """A trained model: its guarantee, what is ``known`` to everybody, and what it may be used for."""
    return card(
        title,
        facts({**known, "use": use if report.private else _NOT_TO_BE_PUBLISHED}),
        report_pieces(report),
        verdict=report.verdict,
        tone=tone_of(report),
    )


def report_pieces(report: PrivacyReport) -> str:
    """Warnings, releases and inputs of a report, without a card around them."""
    columns = ("release", "what", "shape", "sensitivity", "noise", "budget")
    return join(
        notes(report.warnings),
        notes(report.cautions, "dim"),
        details("releases", table(columns, report.rows(), numbers=3)),
        details("taken as public", facts(report.public_inputs)),
        details("chosen from released values", facts(report.chosen), opened=True)
        if report.chosen
        else "",
        details("trail", facts(report.trail.facts())) if report.trail is not None else "",
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


def tone_of(report: PrivacyReport) -> Literal["good", "warn", "bad"]:
    """Green only for what is private, has no warnings and a moderate epsilon."""
    if not report.private:
        return "bad"
    return "warn" if report.warnings or report.epsilon > LARGE_EPSILON else "good"
