"""What all commands share: ``--json``, ``--quiet``, ``--config``, and where each thing is printed.

A command is a function whose first argument is an ``Output``; ``add_command`` gives it these options.
"""

import inspect
import json as json_
import math
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from rich.console import RenderableType
from rich.markup import escape
from rich.progress import Progress
from typer.core import TyperCommand, TyperGroup

from apportion.cli.config import read_config, remember
from apportion.cli.progress import progress_bar
from apportion.cli.terminal import Terminal, print_json
from apportion.errors import printable

_EXAMPLE = 68  # letters of a line
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", help="Print nothing but warnings, errors and what --json asks for."
    ),
]
Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write it as a page, too: one HTML file."),
]
Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="TOML file with the values of options by their names; what is typed goes first.",
        callback=read_config,
        is_eager=True,
    ),
]


class Output:
    """Where a command prints.

    What was found goes to standard output: for people, as one JSON object with ``--json``, not at all with
    ``--quiet``. What is said on the way, and progress, go to standard error, and only if somebody watches
    there: if it is a terminal. Warnings always go to standard error.

    Attributes
        json: whether one JSON object is asked for.
        given: the options that were typed or stood in the file of ``--config``, by name, as plain values.
    """

    def __init__(
        self, json: bool = False, quiet: bool = False, given: Mapping[str, Any] | None = None
    ) -> None:
        self.json = json
        self.given = dict(given or {})
        self._found = Terminal(quiet=json or quiet)
        self._watched = Terminal(stderr=True, quiet=quiet or not sys.stderr.isatty())

    def show(self, *what: RenderableType, **how: Any) -> None:
        """Print what was found, for people. With ``--json`` and ``--quiet`` nothing."""
        self._found.print(*what, **{"highlight": False, "soft_wrap": _is_text(what), **how})

    def show_paths(self, paths: Sequence[Path | str]) -> None:
        """Say which files were written."""
        for path in paths:
            self.show(f"wrote {escape(printable(path))}")

    def result(self, values: Mapping[str, Any]) -> None:
        """With ``--json``: print this object, the only one; null for what is no JSON number."""
        if self.json:
            print_json(json_.dumps(_strict(values), indent=2))

    def say(self, *what: RenderableType) -> None:
        """Say something on the way, to whoever watches."""
        self._watched.print(*what, highlight=False, soft_wrap=_is_text(what))

    def warn(self, text: object) -> None:
        """Print a warning."""
        Terminal(stderr=True).print(
            f"[yellow]warning:[/yellow] {escape(printable(text))}", highlight=False, soft_wrap=True
        )

    def status(self, text: str) -> AbstractContextManager[Any]:
        """What is being done now, for whoever watches."""
        return self._watched.status(text)

    def progress(self, *, counted: bool = True, in_bytes: bool = False) -> Progress:
        """A bar for whoever watches."""
        return progress_bar(self._watched, counted=counted, in_bytes=in_bytes)


class _Command(TyperCommand):
    """A command whose help shows no type beside what is there or not: ``--json`` takes no value."""

    def get_params(self, ctx: Any) -> Any:
        """The options."""
        return _without_types(super().get_params(ctx))


class Commands(TyperGroup):
    """Several of them, likewise."""

    def get_params(self, ctx: Any) -> Any:
        """The options."""
        return _without_types(super().get_params(ctx))


def _without_types(options: Any) -> Any:
    for option in options:
        if getattr(option, "is_flag", False):
            option.metavar = ""
    return options


def add_command(
    app: typer.Typer, name: str, function: Callable[..., None], *, config: bool = False
) -> None:
    """Make a function whose first argument is an ``Output`` a command, with the options of all commands.

    Args:
        app: where to.
        name: of the command.
        function: the command; its other arguments are options as Typer knows them.
        config: whether options may come from a TOML file (``--config``).
    """

    def run(ctx: typer.Context, **options: Any) -> None:
        json, quiet = options.pop("json"), options.pop("quiet")
        options.pop("config", None)
        function(Output(json, quiet, remember(ctx)), **options)

    first, *own = inspect.signature(function).parameters.values()
    shared: dict[str, Any] = {"json": Json, "quiet": Quiet}
    if config:
        shared["config"] = Config
    hints = get_type_hints(function, include_extras=True)
    del hints[first.name]
    defaults = {"json": False, "quiet": False, "config": None}
    keyword = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
    parameters = [
        keyword("ctx", annotation=typer.Context),
        *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own),
        *(keyword(name, annotation=hint, default=defaults[name]) for name, hint in shared.items()),
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {"ctx": typer.Context, **hints, **shared}
    run.__doc__ = _flowing(inspect.getdoc(function) or "")
    app.command(name, cls=_Command)(run)


def _flowing(text: str) -> str:
    """Paragraphs in one line each, so that they break where the terminal ends; examples can be copied."""
    return "\n\n".join(
        _example(part) if part.startswith(" ") else " ".join(part.splitlines())
        for part in text.split("\n\n")
    )


def _example(text: str) -> str:
    """A command in lines that fit into any terminal, each but the last continued by a backslash."""
    if not text.lstrip().startswith("apportion"):
        return text
    # What is in quotes stays in one line, and so do an option and its value.
    whole = re.sub('"[^"]*"', lambda quoted: quoted[0].replace(" ", "\0"), " ".join(text.split()))
    whole = re.sub(r"( --?[\w-]+) (?=[^ -])", "\\1\0", whole)
    lines = textwrap.wrap(whole, _EXAMPLE, break_long_words=False, break_on_hyphens=False)
    return "  " + " \\\n      ".join(lines).replace("\0", " ")


def _is_text(what: Sequence[RenderableType]) -> bool:
    return all(isinstance(each, str) for each in what)


def _strict(value: Any) -> Any:
    """With null for numbers that are none, or infinite."""
    if isinstance(value, Mapping):
        return {str(name): _strict(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.item() if hasattr(value, "item") else value
