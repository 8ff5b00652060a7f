"""Charts of what has a place on both axes or is told by length: curves with marked points, and long bars."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from apportion.pages.charts import color
from apportion.pages.text import escape

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 430, 300, 58, 18, 18, 46
_LINE, _NAMES, _LETTER = 26, 150, 6.8


@dataclass(frozen=True)
class Curve:
    """A line through points (x, y); a dashed one is there to compare with."""

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


@dataclass(frozen=True)
class Mark:
    """A point with its name beside it; ``below`` its point if that is where there is room."""

    name: str
    x: float
    y: float
    strong: bool = False
    below: bool = False


@dataclass(frozen=True)
class Axis:
    """From where to where, which values are written, and what they are."""

    name: str
    low: float
    high: float
    ticks: Sequence[float]
    log: bool = False
    unit: str = ""

    def part(self, value: float) -> float:
        """Where a value is, from 0 to 1."""
        low, high = (math.log(end) if self.log else end for end in (self.low, self.high))
        return ((math.log(value) if self.log else value) - low) / (high - low)


def curve_chart(
    title: str, x: Axis, y: Axis, curves: Sequence[Curve], marks: Sequence[Mark] = ()
) -> str:
    """Curves within two axes. Screen readers are told the title, which should say what the marks do."""
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def at(point: tuple[float, float]) -> tuple[float, float]:
        return _LEFT + wide * x.part(point[0]), _TOP + high * (1 - y.part(point[1]))

    parts = []
    for value in y.ticks:
        _, py = at((x.low, value))
        parts.append(
            f'<line class="ap-axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{py:.1f}" y2="{py:.1f}"/>'
            f'<text x="{_LEFT - 7}" y="{py + 4:.1f}" text-anchor="end">{value:g}{escape(y.unit)}</text>'
        )
    for value in x.ticks:
        px, _ = at((value, y.low))
        parts.append(
            f'<text x="{px:.1f}" y="{_TOP + high + 17}" text-anchor="middle">{value:g}{escape(x.unit)}</text>'
        )
    middle = _TOP + high / 2
    parts.append(
        f'<text x="{_LEFT + wide / 2:.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{escape(x.name)}</text>'
        f'<text transform="translate(13 {middle:.1f}) rotate(-90)" text-anchor="middle">'
        f"{escape(y.name)}</text>"
    )
    for number, curve in enumerate(curves):
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in map(at, curve.points))
        dashes = ' stroke-dasharray="4 4"' if curve.dashed else ""
        paint = "var(--ap-dim)" if curve.dashed else color(number)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{paint}" stroke-width="2"{dashes}>'
            f"<title>{escape(curve.name)}</title></polyline>"
        )
    for mark in marks:
        px, py = at((mark.x, mark.y))
        right = px > _WIDTH * 0.62
        paint = "var(--ap-bad)" if mark.strong else color(0)
        parts.append(
            f'<circle cx="{px:.1f}" cy="{py:.1f}" r="{6 if mark.strong else 4}" fill="{paint}"/>'
            f'<text x="{px + (-9 if right else 9):.1f}" y="{py + (21 if mark.below else -8):.1f}" '
            f'text-anchor="{"end" if right else "start"}"{_weight(mark.strong)}>{escape(mark.name)}</text>'
        )
    return _svg(title, _WIDTH, _HEIGHT, parts)


def long_bars(
    title: str,
    values: Sequence[tuple[str, float]],
    unit: str = " %",
    limits: Sequence[float] = (),
) -> str:
    """A horizontal bar for each name, from zero, with its value beside it, and a line for its limit if any.

    A bar that passes its limit is red.
    """
    most = max((*(value for _, value in values), *limits), default=1.0) or 1.0
    wide = _WIDTH - _NAMES - 70
    parts = []
    for row, (name, value) in enumerate(values):
        y = _LINE * row
        end = wide * max(value, *limits[row : row + 1], 0.0) / most  # beside the bar and its limit
        short = name if len(name) * _LETTER < _NAMES else f"{name[: int(_NAMES / _LETTER) - 1]}…"
        parts.append(
            f'<text x="{_NAMES - 8}" y="{y + 17}" text-anchor="end">{escape(short)}</text>'
            f'<rect x="{_NAMES}" y="{y + 5}" width="{max(1.0, wide * value / most):.1f}" height="16" rx="3" '
            f'fill="{_paint(value, limits[row : row + 1])}">'
            f"<title>{escape(name)}: {value:.3g}{escape(unit)}</title></rect>"
            f'<text x="{_NAMES + end + 7:.1f}" y="{y + 17}">{value:.3g}{escape(unit)}</text>'
        )
        for limit in limits[row : row + 1]:
            x = _NAMES + wide * limit / most
            parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y + 2}" y2="{y + 24}" stroke="var(--ap-ink)" '
                f'stroke-width="2"><title>{escape(name)}: limit {limit:.3g}{escape(unit)}</title></line>'
            )
    return _svg(title, _WIDTH, _LINE * len(values) + 4, parts)


def _paint(value: float, limit: Sequence[float]) -> str:
    return "var(--ap-bad)" if any(value > most for most in limit) else color(0)


def _weight(strong: bool) -> str:
    return ' font-weight="700"' if strong else ""


def _svg(title: str, width: int, height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )
