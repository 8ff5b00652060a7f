"""What to expect at other epsilons, as a panel: forecasts, or what a study measured.

In the explorer a slider chooses the epsilon. Where no script runs, all of it is in one chart and a table.
"""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apportion.data import Interactions
from apportion.errors import DataError, ParameterError
from apportion.json_text import parse_json
from apportion.pages import (
    Section,
    Series,
    details,
    escape,
    join,
    line_chart,
    panel,
    panels,
    paragraph,
    table,
)
from apportion.recommend import MatrixFactorization
from apportion.recommend.outlook import Outlook, outlook
from apportion.recommend.preparation import Preparation

_FIFTHS = ("rarest fifth", "second", "third", "fourth", "top fifth")
_RATINGS, _EVENTS = "RMSE", "share of tastes lost"
_FORECAST = "A forecast from numbers of users per item: nothing was trained or spent for it."
_NOTHING, _EVERYTHING = "knowing nothing", "not private"
_MOST_BYTES = 2**26


@dataclass(frozen=True)
class Line:
    """A value of all items, and by popularity, rarest first."""

    overall: float
    by_popularity: tuple[float, ...]


@dataclass(frozen=True)
class Quality:
    """What to expect by epsilon.

    Attributes
        metric: what is told; ``better`` says which way.
        source: where the figures come from.
        private: a line for each epsilon, ascending.
        others: lines that have no epsilon, by name.
    """

    metric: str
    better: str
    source: str
    private: Mapping[float, Line]
    others: Mapping[str, Line]


def of_outlook(found: Outlook, unit: float, explicit: bool) -> Quality:
    """Forecasts; ``unit`` is the label bound, of which errors of ratings are multiples."""
    scale = unit if explicit else 1.0

    def line(one: Any) -> Line:
        return Line(scale * one.error, tuple(scale * error for error in one.by_bucket))

    everything = _EVERYTHING if explicit else "hardly any noise (epsilon = 60)"
    return Quality(
        _RATINGS if explicit else _EVENTS,
        "lower",
        _FORECAST,
        {e: line(one) for e, one in zip(found.epsilons, found.forecasts, strict=True)},
        {_NOTHING: line(found.nothing), everything: line(found.everything)},
    )


def read_quality(paths: Sequence[Path], rating_range: tuple[float, float] | None) -> Quality:
    """From files: one preparation, several ``plan --json``, or the table of a study (CSV).

    ``rating_range`` is that of the model, None for one of events.
    """
    texts = [_read(path) for path in paths]
    if all(path.suffix == ".csv" for path in paths):
        return of_study([row for text in texts for row in csv.DictReader(io.StringIO(text))])
    values = [_object(path, text) for path, text in zip(paths, texts, strict=True)]
    if len(values) == 1 and "sums" in values[0]:
        return _of_preparation(Preparation.from_json(texts[0]), rating_range)
    return _of_plans(values, explicit=rating_range is not None)


def of_study(rows: Sequence[Mapping[str, str]]) -> Quality:
    """Means over repetitions of what a study measured, for its first data set and protocol."""
    try:
        first = rows[0]
        here = [row for row in rows if all(row[n] == first[n] for n in ("data", "protocol"))]
        buckets = [name for name in first if name.startswith("bucket_")]
        found: dict[tuple[str, float], list[Line]] = {}
        for row in here:
            line = Line(float(row["test"]), tuple(float(row[name]) for name in buckets))
            found.setdefault((row["method"], float(row["epsilon"])), []).append(line)
        means = {key: _mean(lines) for key, lines in found.items()}
        methods = list(dict.fromkeys(name for name, epsilon in means if math.isfinite(epsilon)))
        better = "lower" if first["metric"] == _RATINGS else "higher"
        sign = 1 if better == "lower" else -1

        def average(name: str) -> float:
            own = [
                sign * line.overall
                for (n, e), line in means.items()
                if n == name and math.isfinite(e)
            ]
            return sum(own) / len(own)

        best = min(methods, key=average)
        others = {f"{n}, not private": line for (n, e), line in means.items() if math.isinf(e)}
        return Quality(
            first["metric"],
            better,
            f"Measured on {first['data']}, {first['protocol']}: test data, {best}.",
            {e: line for (n, e), line in sorted(means.items()) if n == best and math.isfinite(e)},
            others,
        )
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise DataError(f"not the table of a study ({type(error).__name__})") from None


def _of_preparation(known: Preparation, rating_range: tuple[float, float] | None) -> Quality:
    feedback: Any = known.training["feedback"]
    explicit = feedback == "explicit"
    if explicit != (rating_range is not None):
        raise DataError(f"the preparation is for {feedback} feedback, and the model is not")
    epsilon = float(known.training["epsilon"])
    try:
        found = outlook(MatrixFactorization(epsilon=epsilon, feedback=feedback), known)
    except ParameterError as error:
        raise DataError(f"the preparation has no forecast: {error}") from None
    unit = 1.0 if rating_range is None else _label_bound(rating_range)
    return of_outlook(found, unit, explicit)


def _label_bound(rating_range: tuple[float, float]) -> float:
    """What errors are multiples of: it follows from the range alone."""
    one = Interactions([0], [0], [rating_range[0]], items=1, rating_range=rating_range)
    return MatrixFactorization().label_bound_of(one)


def _of_plans(values: Sequence[Mapping[str, Any]], explicit: bool) -> Quality:
    try:
        lines = {
            float(each["plan"]["epsilon"]): Line(
                float(each["forecasts"][0]["error"]),
                tuple(map(float, each["forecasts"][0]["error_by_popularity"])),
            )
            for each in values
        }
    except (KeyError, TypeError, ValueError, IndexError):
        raise DataError(
            "expected a preparation, what plan --json prints with a forecast, or a study's CSV file"
        ) from None
    metric = _RATINGS if explicit else _EVENTS
    return Quality(metric, "lower", _FORECAST, dict(sorted(lines.items())), {})


def chosen_panel(quality: Quality, at: float) -> str:
    """The panel of the explorer: a slider, and a chart for each epsilon; ``at`` is the model's own."""
    epsilons = list(quality.private)
    start = min(range(len(epsilons)), key=lambda i: abs(math.log(epsilons[i]) - math.log(at)))
    charts = "".join(
        f'<div data-epsilon="{epsilon:g}"{"" if place == start else " hidden"}>'
        f"{_chart(quality, epsilon)}</div>"
        for place, epsilon in enumerate(epsilons)
    )
    slider = (
        '<div class="epsilon"><label for="epsilon">less privacy, more quality</label>'
        f'<input id="epsilon" type="range" min="0" max="{len(epsilons) - 1}" step="1" value="{start}"/>'
        "<output></output></div>"
    )
    lead = paragraph(
        f"{quality.source} The {quality.metric}; {quality.better} is better. Rare items need more people or "
        "a larger epsilon: noise drowns them first."
    )
    overview = _overview(quality)
    if len(epsilons) == 1:
        return panels(
            panel(f"By popularity, at epsilon = {epsilons[0]:g}", lead, charts, *overview)
        )
    first = panel("Move epsilon", lead, slider, charts)
    return panels(first, panel("At other epsilons", *overview))


def quality_sections(quality: Quality, at: float) -> list[Section]:
    """The same for a page without scripts, at one epsilon and over all."""
    lead = paragraph(f"{quality.source} The {quality.metric}; {quality.better} is better.")
    return [
        Section(f"By popularity, at epsilon = {at:g}", join(lead, _chart(quality, at))),
        Section("At other epsilons", join(*_overview(quality))),
    ]


def _chart(quality: Quality, epsilon: float) -> str:
    lines = {f"epsilon = {epsilon:g}": quality.private[epsilon], **quality.others}
    every = [v for line in (*quality.private.values(), *lines.values()) for v in line.by_popularity]
    known = [value for value in every if math.isfinite(value)] or [0.0]
    labels = _names(len(quality.private[epsilon].by_popularity))
    said = ", ".join(f"{name}: {line.overall:.3f}" for name, line in lines.items())
    chart = line_chart(
        f"{quality.metric} by popularity of items, each a fifth; of all items {said}",
        labels,
        [Series(name, line.by_popularity) for name, line in lines.items()],
        within=(min(known), max(known)),
    )
    overall = "".join(
        f"<li>{escape(name)}: <strong>{line.overall:.3f}</strong></li>"
        for name, line in lines.items()
    )
    return f"{chart}<p>Of all items:</p><ul>{overall}</ul>"


def _overview(quality: Quality) -> list[str]:
    epsilons = list(quality.private)
    tail = [quality.private[e].by_popularity[0] for e in epsilons]
    head = [quality.private[e].by_popularity[-1] for e in epsilons]
    series = [
        Series("all items", [quality.private[e].overall for e in epsilons]),
        Series("rarest fifth", tail),
        Series("top fifth", head),
        *(
            Series(f"{name}, all", [line.overall] * len(epsilons))
            for name, line in quality.others.items()
        ),
    ]
    columns = ("", "all items", *_names(len(quality.private[epsilons[0]].by_popularity)))
    rows = [
        *((f"epsilon = {e:g}", *_cells(line)) for e, line in quality.private.items()),
        *((name, *_cells(line)) for name, line in quality.others.items()),
    ]
    chart = line_chart(f"{quality.metric} by epsilon", [f"{e:g}" for e in epsilons], series)
    return [
        chart if len(epsilons) > 1 else "",
        details("as numbers", table(columns, rows, numbers=len(columns) - 1)),
    ]


def _cells(line: Line) -> list[str]:
    return [f"{value:.3f}" for value in (line.overall, *line.by_popularity)]


def _names(buckets: int) -> tuple[str, ...]:
    return _FIFTHS if buckets == len(_FIFTHS) else tuple(str(b + 1) for b in range(buckets))


def _mean(lines: Sequence[Line]) -> Line:
    columns = zip(*((line.overall, *line.by_popularity) for line in lines), strict=True)
    overall, *by_popularity = (sum(column) / len(lines) for column in columns)
    return Line(overall, tuple(by_popularity))


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise DataError(f"{path} is too large")
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({type(error).__name__})") from None


def _object(path: Path, text: str) -> dict[str, Any]:
    try:
        values = parse_json(text)
    except (DataError, json.JSONDecodeError) as error:
        raise DataError(f"{path} cannot be used: {error}") from None
    if not isinstance(values, dict):
        raise DataError(f"{path} is not a JSON object")
    return values
