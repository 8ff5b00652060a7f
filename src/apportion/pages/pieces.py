"""Tables, lists of facts, notes, and the card that a notebook shows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from apportion.pages.style import STYLE
from apportion.pages.text import escape

Tone = Literal["", "good", "warn", "bad", "dim", "lead"]


def join(*body: str) -> str:
    """Pieces, one after the other."""
    return "\n".join(piece for piece in body if piece)


def heading(text: object, level: int = 2) -> str:
    """A heading within a page."""
    return f"<h{level}>{escape(text)}</h{level}>"


def paragraph(text: object, tone: Tone = "") -> str:
    """One paragraph of text; the tone colors it."""
    return f"<p{_class(tone)}>{escape(text)}</p>"


def notes(texts: Iterable[object], tone: Tone = "warn") -> str:
    """A list of sentences; nothing if there are none."""
    found = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f"<ul{_class(tone)}>{found}</ul>" if found else ""


def facts(values: Mapping[str, Any]) -> str:
    """Names and what they are, one a row; nothing if there are none."""
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>'
        for name, value in values.items()
    )
    return f'<table class="ap-facts"><tbody>{rows}</tbody></table>' if rows else ""


def table(columns: Sequence[object], rows: Iterable[Sequence[object]], numbers: int = 0) -> str:
    """A table of text; the last ``numbers`` columns are to the right."""
    left = len(columns) - numbers

    def cells(row: Sequence[object], kind: str) -> str:
        scope = ' scope="col"' if kind == "th" else ""
        return "".join(
            f"<{kind}{scope}{_class('number' if place >= left else '')}>{escape(value)}</{kind}>"
            for place, value in enumerate(row)
        )

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    head = f"<thead><tr>{cells(columns, 'th')}</tr></thead>"
    return f'<div class="ap-wide"><table>{head}<tbody>{body}</tbody></table></div>'


def details(summary: object, *body: str, opened: bool = False) -> str:
    """Pieces that a click on their summary shows."""
    return (
        f"<details{' open' if opened else ''}><summary>{escape(summary)}</summary>"
        f"{join(*body)}</details>"
    )


def panel(title: object, *body: str, wide: bool = False) -> str:
    """A part of a page with a title; a wide one takes the whole width."""
    kind = "ap-panel ap-whole" if wide else "ap-panel"
    return f'<section class="{kind}">{heading(title)}{join(*body)}</section>'


class Section(NamedTuple):
    """A part with a title: a panel of a page, or what a click shows in a card.

    Attributes
        title: text.
        body: a piece.
        wide: whether its panel takes the whole width.
    """

    title: str
    body: str
    wide: bool = False


def as_panels(sections: Iterable[Section]) -> str:
    """Parts as panels of a page."""
    return panels(*(panel(title, body, wide=wide) for title, body, wide in sections))


def folded(sections: Sequence[Section], opened: int = 1) -> str:
    """The same parts in a card: so many are open, the others show at a click."""
    return join(
        *(
            details(part.title, part.body, opened=place < opened)
            for place, part in enumerate(sections)
        )
    )


def panels(*body: str) -> str:
    """Panels side by side where there is room."""
    return f'<div class="ap-panels">{join(*body)}</div>'


def card(title: object, *body: str, verdict: object = "", tone: Tone = "") -> str:
    """What a notebook shows of one object: its title, a line that says most, and pieces."""
    line = f"<div{_class(tone)}>{escape(verdict)}</div>" if verdict else ""
    return (
        f'<div class="apportion ap-card"><style>{STYLE}</style>'
        f'<div class="ap-title">{escape(title)}</div>{line}{join(*body)}</div>'
    )


def _class(tone: str) -> str:
    return f' class="ap-{tone}"' if tone else ""
