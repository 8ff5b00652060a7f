"""Small charts as inline SVG: bars and lines, in the colors of the style.

Each has a title that screen readers tell, and every value as a tooltip: no value is told by color alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from apportion.pages.text import escape

# Letters of a chart that is shrunk to a phone are still read: it is hardly wider than one.
_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 430, 56, 12, 12, 34
_COLORS = 5
_LETTER, _ROW = 6.8, 18


@dataclass(frozen=True)
class Series:
    """One line or one kind of bars: its name, and a value for every label; NaN for none."""

    name: str
    values: Sequence[float]


def bar_chart(
    title: str, labels: Sequence[object], series: Sequence[Series], unit: str = ""
) -> str:
    """Bars from zero on, side by side where there are several series."""
    plot = _Plot(title, labels, series, unit, from_zero=True)
    step = plot.wide / max(1, len(labels))
    width = 0.8 * step / max(1, len(series))
    marks = []
    for number, one in enumerate(series):
        for place, value in enumerate(one.values):
            if not math.isfinite(value):
                continue
            x, y = _LEFT + place * step + 0.1 * step + number * width, plot.y(value)
            top, bottom = min(y, plot.y(0)), max(y, plot.y(0))
            marks.append(
                f'<rect x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" height="{bottom - top:.1f}" '
                f'fill="{color(number)}"><title>{plot.told(one, place, value)}</title></rect>'
            )
    return plot.drawn(marks, [_LEFT + (place + 0.5) * step for place in range(len(labels))])


def line_chart(
    title: str,
    labels: Sequence[object],
    series: Sequence[Series],
    unit: str = "",
    within: tuple[float, float] | None = None,
) -> str:
    """A line with a point for every value, labels at even distances; ``within`` is what it must show."""
    plot = _Plot(title, labels, series, unit, from_zero=False, within=within or ())
    step = plot.wide / max(1, len(labels) - 1)
    places = [_LEFT + place * step for place in range(len(labels))]
    marks = []
    for number, one in enumerate(series):
        points = [
            (places[place], plot.y(value), place, value)
            for place, value in enumerate(one.values)
            if math.isfinite(value)
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in points)
        marks.append(
            f'<polyline points="{path}" fill="none" stroke="{color(number)}" stroke-width="2"/>'
        )
        marks += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color(number)}">'
            f"<title>{plot.told(one, place, value)}</title></circle>"
            for x, y, place, value in points
        ]
    return plot.drawn(marks, places)


class _Plot:
    """Axes, labels and legend around what is drawn."""

    def __init__(
        self,
        title: str,
        labels: Sequence[object],
        series: Sequence[Series],
        unit: str,
        *,
        from_zero: bool,
        within: Sequence[float] = (),
    ) -> None:
        self.title, self.labels, self.series, self.unit = title, labels, series, unit
        self.wide, self.high = _WIDTH - _LEFT - _RIGHT, 180
        values = [v for one in series for v in one.values if math.isfinite(v)] or [0.0]
        values += within
        low, high = min(values), max(values)
        if from_zero:
            low, high = min(low, 0.0), max(high, 0.0)
        self.step = _round_step((high - low) or abs(high) or 1.0)
        self.low = math.floor(low / self.step + 1e-9) * self.step
        self.most = max(math.ceil(high / self.step - 1e-9) * self.step, self.low + self.step)

    def y(self, value: float) -> float:
        return _TOP + self.high * (self.most - value) / (self.most - self.low)

    def told(self, one: Series, place: int, value: float) -> str:
        return escape(f"{one.name}, {self.labels[place]}: {value:.4g}{self.unit}")

    def drawn(self, marks: Sequence[str], places: Sequence[float]) -> str:
        bottom = _TOP + self.high
        legend, rows = self._legend(bottom + 28)
        height = bottom + _BOTTOM + _ROW * rows
        parts = [
            f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img">'
            f"<title>{escape(self.title)}</title>"
        ]
        for number in range(round((self.most - self.low) / self.step) + 1):
            value = self.low + number * self.step
            y = self.y(value)
            parts.append(
                f'<line class="ap-axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
                f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
                f"{value:.4g}{escape(self.unit)}</text>"
            )
        parts += marks
        parts += [
            f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="{_anchor(x)}">{escape(label)}</text>'
            for x, label in zip(places, self.labels, strict=True)
        ]
        parts += legend
        return "".join(parts) + "</svg>"

    def _legend(self, y: int) -> tuple[list[str], int]:
        """A square and a name for each of several series, and how many rows they take."""
        parts: list[str] = []
        x, row = float(_LEFT), 0
        for number, one in enumerate(self.series if len(self.series) > 1 else ()):
            wide = 30 + _LETTER * len(one.name)
            if x > _LEFT and x + wide > _WIDTH:
                x, row = float(_LEFT), row + 1
            top = y + _ROW * row
            parts.append(
                f'<rect x="{x:.1f}" y="{top}" width="10" height="10" fill="{color(number)}"/>'
                f'<text x="{x + 14:.1f}" y="{top + 9}">{escape(one.name)}</text>'
            )
            x += wide
        return parts, row + 1 if parts else 0


def color(number: int) -> str:
    """The color of a series, told apart from its neighbors on either ground."""
    return f"var(--ap-{number % _COLORS + 1})"


def _anchor(x: float) -> str:
    """The last label ends where the chart does."""
    return "end" if x > _WIDTH - 2 * _RIGHT else "middle"


def _round_step(span: float) -> float:
    """1, 2 or 5 times a power of ten, so that about five of them make the span."""
    power = 10.0 ** math.floor(math.log10(span / 5))
    return next(power * m for m in (1, 2, 5, 10) if span / 5 <= power * m * (1 + 1e-9))
