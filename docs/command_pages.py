"""The page of the command line, from the help texts of the commands themselves."""

import os
from pathlib import Path
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

from apportion.cli import app


def write_command_page(folder: Path) -> None:
    """``command-line.md``: every command with its help; not kept in the repository."""
    os.environ["TERMINAL_WIDTH"] = os.environ["COLUMNS"] = "84"  # what a page has room for
    os.environ["NO_COLOR"] = "1"
    parts = [
        "# The command line\n",
        "[Run it from a script](../how-to/automate.md) has what is printed where, exit codes and "
        "settings in files; [the fields of `--json`](json.md) are listed by command.\n",
        *_pages(get_command(app), ()),
    ]
    path = folder / "command-line.md"
    text = "\n".join(parts)
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")


def _pages(command: Any, words: tuple[str, ...]) -> list[str]:
    found = []
    if words:
        said = CliRunner().invoke(app, [*words, "--help"]).output
        plain = "\n".join(line.rstrip() for line in said.splitlines())
        found.append(f"## apportion {' '.join(words)}\n\n```text\n{plain.strip()}\n```\n")
    for name, one in getattr(command, "commands", {}).items():
        if not one.hidden:
            found += _pages(one, (*words, name))
    return found
