"""Docstrings as Sphinx reads them: they are written for readers of the source, and get marks for the page."""

import re
from typing import Any

_HEADINGS = {"Attributes", "Guarantee", "Sensitivity", "Assumes public"}


def as_sections(app: Any, what: str, name: str, one: Any, options: Any, lines: list[str]) -> None:
    """Headings get the colon that they lack; bars and trailing underscores mean themselves."""
    del app, what, name, one, options
    for place, line in enumerate(lines):
        following = lines[place + 1] if place + 1 < len(lines) else ""
        if line.strip() in _HEADINGS and following.startswith(_indent(line) + " "):
            lines[place] = line.rstrip() + ":"
        elif not line.lstrip().startswith(">>>"):
            lines[place] = "``".join(
                part if number % 2 else _plain(part) for number, part in enumerate(line.split("``"))
            )


def _plain(text: str) -> str:
    text = re.sub(r"(?<!\\)\|", r"\\|", text)
    return re.sub(r"(?<=\w)_(?!\w)", r"\\_", text)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


# What type hints of arrays become when they are printed in full, by the names of their types alone.
_ARRAY_LIKE = (
    "_Buffer | _SupportsArray[dtype[Any]] | _NestedSequence[_SupportsArray[dtype[Any]]] | complex | bytes | "
    "str | _NestedSequence[complex | bytes | str]"
)
_ARRAY = re.compile(r"ndarray\[tuple\[Any, \.\.\.\], dtype\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\]")
_PATH = re.compile(r"~?\b(?:numpy|typing|collections)\.(?:\w+\.)*(?=\w)")


def short_types(
    app: Any, what: str, name: str, one: Any, options: Any, found: Any, gives: Any
) -> Any:
    """Signatures with NumPy's own names of the types of arrays."""
    del app, what, name, one, options

    def short(text: str | None) -> str | None:
        if text is None:
            return None
        text = _PATH.sub("", text).replace(_ARRAY_LIKE, "ArrayLike")
        return _ARRAY.sub(r"NDArray[\1]", text)

    return short(found), short(gives)
