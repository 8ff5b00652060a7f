"""Reports as pages of their own: a guarantee, a plan, an evaluation. Nothing in them runs or fetches."""

import math
from pathlib import Path

from apportion.accounts import PrivacyReport
from apportion.accounts.explained import report_panels
from apportion.accounts.plan import Plan
from apportion.data.files import written_whole
from apportion.explore.quality import Quality, quality_panels
from apportion.pages import (
    Series,
    bar_chart,
    details,
    long_bars,
    page,
    panel,
    panels,
    paragraph,
    table,
)
from apportion.recommend.evaluation import NOTE, Evaluation


def report_page(report: PrivacyReport, title: str) -> str:
    """The guarantee of a model."""
    return page(f"Privacy report: {title}", report_panels(report))


def plan_page(plan: Plan, quality: Quality | None = None) -> str:
    """How a training will spend its budget, and what to expect of it if that is known."""
    releases = plan.to_dict()["releases"]
    rows = [
        (each["name"], each["what"], f"{each['share']:.1%}", f"{each['noise']:.3g}")
        for each in releases
    ]
    private = math.isfinite(plan.target.mu)
    columns = ("release", "what", "budget", "noise")
    note = "Noise is in units of one person's part." if private else "NOT PRIVATE: no noise."
    spent = panel(
        "How the budget will be spent",
        paragraph(f"Follows from the settings alone: no data was read. {note}"),
        long_bars(
            "The part of the budget of each release, in percent",
            [(each["name"], 100 * each["share"]) for each in releases],
        ),
        table(columns, rows, numbers=2),
    )
    expected = "" if quality is None else quality_panels(quality, plan.target.epsilon)
    title = f"Plan for epsilon = {plan.target.epsilon:g} at delta = {plan.target.delta:g}"
    return page(title, panels(spent, expected))


def evaluation_page(found: Evaluation, title: str) -> str:
    """How good a model is, beside what needs no model, overall and by popularity."""
    columns, rows = found.overall()
    names, of_buckets = found.by_popularity()
    metric = next(name for name in names[1:] if name != "k")
    shown = [place for place, name in enumerate(names) if name.partition(", ")[0] == metric]
    series = [
        Series(
            names[place].partition(", ")[2] or "this model",
            [_value(row[place]) for row in of_buckets],
        )
        for place in shown
    ]
    chart = bar_chart(f"{metric} by popularity of items", [row[0] for row in of_buckets], series)
    verdict = panel(
        "All items",
        paragraph(found.verdict, "good" if found.beats else "warn"),
        table(columns, rows, numbers=len(columns) - 1),
        paragraph(f"{found.measured}; intervals hold {found.level:.0%}", "dim"),
        paragraph(
            f"These are {NOTE}: who publishes them tells something about these users.", "warn"
        ),
        wide=True,
    )
    by_popularity = panel(
        f"{metric} by popularity of items",
        chart,
        details("as numbers", table(names, of_buckets, numbers=len(names) - 1)),
    )
    return page(f"Evaluation: {title}", panels(verdict, by_popularity))


def write_page(path: Path, text: str) -> None:
    """Write a page, whole or not at all."""
    with written_whole(path) as temporary:
        temporary.write_text(text, "utf-8")


def _value(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan
