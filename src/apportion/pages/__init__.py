"""Pieces of HTML that notebooks and pages share. Everything is inline: nothing is fetched from anywhere.

A piece is a ``str`` of HTML. Only functions here make one, and they escape every text that they are given:
ids, titles and warnings of a file never become markup. Arguments named ``body`` take pieces, all others
take text.
"""

from apportion.pages.charts import Series, bar_chart, line_chart
from apportion.pages.curves import Axis, Curve, Mark, curve_chart, long_bars
from apportion.pages.pieces import (
    Section,
    Tone,
    as_panels,
    card,
    details,
    facts,
    folded,
    heading,
    join,
    notes,
    panel,
    panels,
    paragraph,
    table,
)
from apportion.pages.text import escape, page

__all__ = [
    "Axis",
    "Curve",
    "Mark",
    "Section",
    "Series",
    "Tone",
    "as_panels",
    "bar_chart",
    "card",
    "curve_chart",
    "details",
    "escape",
    "facts",
    "folded",
    "heading",
    "join",
    "line_chart",
    "long_bars",
    "notes",
    "page",
    "panel",
    "panels",
    "paragraph",
    "table",
]
