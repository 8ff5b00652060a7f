"""Docstrings as Sphinx reads them: headings get the colon that they lack, for the page alone."""

from typing import Any

_HEADINGS = {"Attributes", "Guarantee", "Sensitivity", "Assumes public"}


def as_sections(app: Any, what: str, name: str, one: Any, options: Any, lines: list[str]) -> None:
    """Turn ``Attributes`` above indented lines into ``Attributes:``."""
    del app, what, name, one, options
    for place, line in enumerate(lines[:-1]):
        following = lines[place + 1]
        if line.strip() in _HEADINGS and following.startswith(_indent(line) + " "):
            lines[place] = line.rstrip() + ":"


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
