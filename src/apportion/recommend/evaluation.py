"""Judging a model before anybody relies on it: metrics, how sure they are, and what averages would do."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from apportion.recommend.metrics import RankingMetrics, RatingMetrics

if TYPE_CHECKING:
    from rich.console import RenderableType

BUCKETS = 5
NOTE = "exact statistics of the data given here: the model's guarantee does not cover these figures"
# What decides whether a model beats another: less of the one, more of the other.
_MAIN = {"rmse": -1.0, "recall": 1.0}
_TITLES = {
    "rmse": "RMSE",
    "mae": "MAE",
    "recall": "recall@{k}",
    "ndcg": "NDCG@{k}",
    "precision": "precision@{k}",
    "hit_rate": "hit rate@{k}",
    "mrr": "MRR@{k}",
    "novelty": "novelty (bits)",
    "coverage": "coverage@{k}",
}


@dataclass(frozen=True)
class Evaluation:
    """How good a model is on data that it has not seen, beside what needs no model.

    Attributes
        metrics: of the model.
        baselines: of what anybody could do with the same histories, by name.
        intervals: by metric, where it lies with the probability ``level`` if other such users had come.
        gains: by baseline, where the model's gain on it lies (in RMSE, or in recall); above 0 is better.
        level: of the intervals.
        users, rows: how many were measured. Not public.
        unknown_items: of the items to be predicted, how many the model does not know; ``unknown_rows``
            their rows.

    All of it is computed from the data without noise. The guarantee of the model does not cover it: who
    publishes it tells something about these users.
    """

    metrics: RankingMetrics | RatingMetrics
    baselines: Mapping[str, RankingMetrics | RatingMetrics]
    intervals: Mapping[str, tuple[float, float]]
    gains: Mapping[str, tuple[float, float]]
    level: float
    users: int
    rows: int
    unknown_items: int
    unknown_rows: int

    @property
    def verdict(self) -> str:
        """In one line, which baselines the model beats."""
        name, sign = next((n, s) for n, s in _MAIN.items() if hasattr(self.metrics, n))
        own = getattr(self.metrics, name)
        lost = [
            f"{each} ({name_of(name, self.metrics)} {getattr(other, name):.4f})"
            for each, other in self.baselines.items()
            if not sign * own > sign * getattr(other, name)
        ]
        if not lost:
            unsure = [each for each, (low, _) in self.gains.items() if not low > 0]
            if unsure:
                return f"better than every baseline, but over {', '.join(unsure)} it may be chance"
            return "better than every baseline"
        which = "no baseline" if len(lost) == len(self.baselines) else "not every baseline"
        return (
            f"this model beats {which}: {', '.join(lost)} is at least as good as its "
            f"{own:.4f}; a larger epsilon, more users or fewer items would help"
        )

    @property
    def beats(self) -> bool:
        """Whether the model is better than every baseline."""
        return self.verdict.startswith("better")

    @property
    def measured(self) -> str:
        """On how much this rests, in one line."""
        what = "ratings" if isinstance(self.metrics, RatingMetrics) else "events"
        unknown = ""
        if self.unknown_items:
            unknown = (
                f"; {self.unknown_items} items of {self.unknown_rows} of them are not in the model"
            )
        return f"measured on {self.rows} {what} of {self.users} users{unknown}"

    def to_json(self) -> str:
        """Everything as JSON text; where nothing could be measured there is null."""
        values = {
            **asdict(self.metrics),
            "intervals": dict(self.intervals),
            "level": self.level,
            "baselines": {name: asdict(each) for name, each in self.baselines.items()},
            "gains": dict(self.gains),
            "users": self.users,
            "rows": self.rows,
            "unknown_items": self.unknown_items,
            "unknown_rows": self.unknown_rows,
            "beats_every_baseline": self.beats,
            "verdict": self.verdict,
            "note": NOTE,
        }
        return json.dumps(_known(values), allow_nan=False)

    def overall(self) -> tuple[list[str], list[list[str]]]:
        """A table of all items: its columns, and a row for the model and for every baseline."""
        names = [name for name in _TITLES if hasattr(self.metrics, name)]
        rows = [["this model", *(self._with_interval(name) for name in names)]]
        for title, other in self.baselines.items():
            rows.append([title, *(_cell(getattr(other, name)) for name in names)])
        return ["", *(name_of(name, self.metrics) for name in names)], rows

    def by_popularity(self) -> tuple[list[str], list[list[str]]]:
        """A table by popularity of items, tail first, of the model and the best baseline."""
        named = {"this model": self.metrics}
        if self.baselines:
            best = min(self.baselines, key=lambda each: self._rank(self.baselines[each]))
            named[best] = self.baselines[best]
        columns: dict[str, tuple[float, ...]] = {}
        if isinstance(self.metrics, RankingMetrics):
            columns["k"] = self.metrics.k_by_bucket
        for name in ("rmse", "mae", "recall", "ndcg", "coverage"):
            for title, each in named.items():
                values = getattr(each, f"{name}_by_bucket", None)
                if values is not None and (title == "this model" or name in _MAIN):
                    head = _TITLES[name].format(k=self._k if name == "coverage" else "k")
                    columns[head if title == "this model" else f"{head}, {title}"] = values
        count = len(next(iter(columns.values())))
        rows = [
            [_bucket_name(bucket, count), *(_cell(values[bucket]) for values in columns.values())]
            for bucket in range(count)
        ]
        return ["items", *columns], rows

    @property
    def _k(self) -> int:
        return self.metrics.k if isinstance(self.metrics, RankingMetrics) else 0

    @staticmethod
    def _rank(metrics: RankingMetrics | RatingMetrics) -> float:
        return metrics.rmse if isinstance(metrics, RatingMetrics) else -metrics.recall

    def _with_interval(self, name: str) -> str:
        text = _cell(getattr(self.metrics, name))
        if name not in self.intervals:
            return text
        low, high = self.intervals[name]
        return f"{text} ({_cell(low)} to {_cell(high)})"

    def __str__(self) -> str:
        columns, rows = self.overall()
        wide = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, wide, strict=True)).rstrip()
            for row in (columns, *rows)
        ]
        return "\n".join([*lines, self.verdict, self.measured])

    __repr__ = __str__

    def __rich__(self) -> "RenderableType":
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        tables = []
        for columns, rows in (turned(*self.overall()), self.by_popularity()):
            table = Table()
            for place, title in enumerate(columns):
                table.add_column(title, justify="right" if place else "left")
            for row in rows:
                table.add_row(*map(Text, row))
            tables.append(table)
        color = "green" if self.beats else "bold yellow"
        return Group(
            *tables,
            Text(self.verdict, style=color),
            Text(f"{self.measured}; intervals hold {self.level:.0%}, by users drawn anew"),
        )

    def _repr_html_(self) -> str:
        from apportion.pages import card, folded
        from apportion.recommend.evaluated import evaluation_sections

        return card("Evaluation", folded(evaluation_sections(self)))


def name_of(metric: str, metrics: RankingMetrics | RatingMetrics) -> str:
    """How a metric is called where it is shown."""
    return _TITLES[metric].format(k=getattr(metrics, "k", ""))


def turned(columns: list[str], rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """A row for every metric: there are more of them than models."""
    turned = [list(each) for each in zip(columns, *rows, strict=True)]
    return ["all items", *turned[0][1:]], turned[1:]


def _cell(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    return f"{value:.4f}" if math.isfinite(value) else "-"


def _bucket_name(bucket: int, buckets: int) -> str:
    if bucket in (0, buckets - 1):
        return "least popular (tail)" if bucket == 0 else "most popular (head)"
    return f"{bucket + 1} of {buckets}"


def _known(values: Any) -> Any:
    """NaN, where there was nothing to measure, as null."""
    if isinstance(values, dict):
        return {name: _known(value) for name, value in values.items()}
    if isinstance(values, (tuple, list)):
        return [_known(value) for value in values]
    return None if isinstance(values, float) and math.isnan(values) else values
