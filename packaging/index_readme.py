"""The README for the page of a package index, where files of the source distribution cannot be linked to."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def dynamic_metadata(field: str, settings: Mapping[str, Any] | None = None) -> dict[str, str]:
    """What scikit-build-core asks for: the field ``readme``."""
    if field != "readme" or settings:
        raise ValueError("this makes the field readme, and has no settings")
    text = Path("README.md").read_text("utf-8")
    return {"content-type": "text/markdown", "text": without_links(text)}


def without_links(text: str) -> str:
    """Without pictures and links to files: their names stay, and links to other pages."""
    text = re.sub(r"!\[[^\]]*\]\((?!https?:)[^)]*\)\n*", "", text)
    return re.sub(r"\[([^\]]*)\]\((?!https?:)([^)#]*)[^)]*\)", _named, text)


def _named(link: re.Match[str]) -> str:
    words, path = link[1], link[2]
    return f"`{path}`" if words == path else f"{words} (`{path}`)"
