"""Pieces of HTML that notebooks and pages share. Everything is inline: nothing is fetched from anywhere.

A piece is a ``str`` of HTML. Only functions here make one, and they escape every text that they are given:
ids, titles and warnings of a file never become markup. Arguments named ``body`` take pieces, all others
take text.
"""

from apportion.pages.charts import Series, bar_chart, line_chart
from apportion.pages.pieces import card, details, facts, heading, join, notes, paragraph, table
from apportion.pages.text import escape, page

__all__ = [
    "Series",
    "bar_chart",
    "card",
    "details",
    "escape",
    "facts",
    "heading",
    "join",
    "line_chart",
    "notes",
    "page",
    "paragraph",
    "table",
]
