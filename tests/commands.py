"""What the command line knows: to check what pages say of it."""

import functools
import re
import shlex
from typing import Any

import typer.main

from apportion.cli import app


def unknown(words: list[str]) -> set[str]:
    """The options, or the command, that there are not, in a line that begins with ``apportion``."""
    command = _all()
    words = words[1:]
    while (
        words and (inner := getattr(command, "commands", None)) is not None and words[0][0] != "-"
    ):
        name = words.pop(0)
        if name not in inner:
            return {name}
        command = inner[name]
    known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    known |= {"--help", "-h", "--install-completion", "--show-completion"}
    return {word for word in words if re.match("--?[a-z]", word)} - known


def lines_of(block: str) -> list[list[str]]:
    """The commands of a block for the shell, as words; what joins or redirects them is a word, too."""
    found = []
    for line in block.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        if words := list(lexer):
            found.append(words)
    return found


@functools.cache
def _all() -> Any:
    return typer.main.get_command(app)
