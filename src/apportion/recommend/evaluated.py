"""An evaluation for people: the same parts in ``apportion evaluate --html`` and in notebooks."""

import math

from apportion.pages import Section, Series, bar_chart, details, join, paragraph, table
from apportion.recommend.evaluation import NOTE, Evaluation, turned


def evaluation_sections(found: Evaluation) -> list[Section]:
    """How good a model is, beside what needs no model, overall and by popularity."""
    columns, rows = turned(*found.overall())
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
    overall = join(
        paragraph(found.verdict, "good" if found.beats else "warn"),
        table(columns, rows, numbers=len(columns) - 1),
        paragraph(f"{found.measured}; intervals hold {found.level:.0%}", "dim"),
        paragraph(
            f"These are {NOTE}: who publishes them tells something about these users.", "warn"
        ),
    )
    by_popularity = join(
        bar_chart(f"{metric} by popularity of items", _short(len(of_buckets)), series),
        details("as numbers", table(names, of_buckets, numbers=len(names) - 1)),
    )
    return [
        Section("All items", overall, wide=True),
        Section(f"{metric} by popularity of items", by_popularity),
    ]


def _short(buckets: int) -> list[str]:
    return ["tail", *map(str, range(2, buckets)), "head"]


def _value(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan
