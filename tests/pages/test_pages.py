"""Pieces of HTML: whatever is in a text, it stays text; charts tell every value."""

import math
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from apportion import pages

HOSTILE = "<script>alert(1)</script>\"'&\x1b[2J\u202e"


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in {"meta"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open
    return reader


SERIES = [pages.Series("a", [1.0, math.nan, 3.0]), pages.Series(HOSTILE, [0.5, -2.0, 0.0])]


@pytest.mark.parametrize(
    "piece",
    [
        pages.heading(HOSTILE),
        pages.paragraph(HOSTILE, "bad"),
        pages.notes([HOSTILE]),
        pages.facts({HOSTILE: HOSTILE}),
        pages.table([HOSTILE, "b"], [[HOSTILE, HOSTILE]], numbers=1),
        pages.details(HOSTILE),
        pages.card(HOSTILE, verdict=HOSTILE),
        pages.page(HOSTILE),
        pages.bar_chart(HOSTILE, [HOSTILE, 2, 3], SERIES),
        pages.line_chart(HOSTILE, [HOSTILE, 2, 3], SERIES, unit=HOSTILE),
    ],
)
def test_text_stays_text(piece: str) -> None:
    found = read(piece)
    assert "script" not in found.tags
    assert "<script>alert(1)</script>" in found.text
    assert not {"\x1b", "\u202e"} & set(piece)


def test_a_page_forbids_whatever_it_does_not_hold() -> None:
    whole = pages.page("A page", pages.paragraph("text"))
    assert whole.startswith("<!DOCTYPE html>")
    assert "default-src &#x27;none&#x27;" in whole
    assert "http" not in whole.replace("http-equiv", "")
    assert "prefers-color-scheme: dark" in whole


def test_nothing_is_shown_of_nothing() -> None:
    assert pages.notes([]) == pages.facts({}) == pages.join("", "") == ""


@pytest.mark.parametrize("chart", [pages.bar_chart, pages.line_chart])
def test_charts_tell_every_value_and_keep_within_their_frame(chart: object) -> None:
    drawn = chart("chart", ["x", "y", "z"], SERIES)  # type: ignore[operator]
    root = ET.fromstring(drawn)
    titles = [each.text for each in root.iter("title")]
    assert "a, x: 1" in titles
    assert "a, z: 3" in titles
    assert not any("nan" in (title or "") for title in titles)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for each in root.iter():
        for name, most in (("x", width), ("cx", width), ("y", height), ("cy", height)):
            assert 0 <= float(each.attrib.get(name, 0)) <= most
    assert ("0" in [each.text for each in root.iter("text")]) or chart is pages.line_chart


@pytest.mark.parametrize("values", [[], [0.0], [5.0, 5.0], [1e-9, 2e-9], [-1e12, 1e12]])
def test_charts_of_odd_values(values: list[float]) -> None:
    for chart in (pages.bar_chart, pages.line_chart):
        ET.fromstring(chart("chart", range(len(values)), [pages.Series("a", values)]))
