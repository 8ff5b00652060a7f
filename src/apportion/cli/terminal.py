"""What the command line prints through: text of files and arguments never commands the terminal."""

import io
import sys
from collections.abc import Iterable

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from apportion.errors import printable


class Terminal(Console):
    """A console whose colors and cursor are moved by what it prints with, never by what it prints."""

    def __init__(self, **settings: object) -> None:
        super().__init__(emoji=False, **settings)  # type: ignore[arg-type]

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As a console does; but control characters in texts are replaced."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text, lines=True), segment.style)


def print_json(text: str) -> None:
    """Print JSON, in which all but ASCII is escaped already; one control character is ASCII."""
    typer.echo(text.replace("\x7f", "\\u007f"))


def replace_what_cannot_be_shown() -> None:
    """Let both streams print a replacement for what their encoding does not have."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
