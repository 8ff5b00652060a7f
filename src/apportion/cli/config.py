"""Options of a command in a TOML file: ``--config`` reads them, a model folder keeps them."""

import json
import tomllib
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import typer

from apportion.errors import DataError, ParameterError

# What says how a command is run, not what it does.
_HOW = {"config", "help", "json", "quiet"}


def read_config(ctx: typer.Context, path: Path | None) -> Path | None:
    """Take the values of a file for the options that are not typed. Called before they are read."""
    if path is None or ctx.resilient_parsing:
        return path
    try:
        values = tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DataError(f"{path} is not TOML: {error}") from None
    known = {_written(each): each for each in ctx.command.params if each.name not in _HOW}
    taken: dict[str, Any] = {}
    for written, value in values.items():
        option = known.get(written.replace("_", "-"))
        if option is None or option.name is None:
            raise ParameterError(
                f"{path}: {ctx.info_name} has no option {written!r}; it has {', '.join(sorted(known))}"
            )
        if option.name in taken:
            raise ParameterError(f"{path}: {written!r} stands there twice, in two spellings")
        flag = bool(getattr(option, "is_flag", False))
        taken[option.name] = _as_typed(path, written, value, flag=flag)
    ctx.default_map = taken
    return path


def remember(ctx: typer.Context) -> dict[str, Any]:
    """The options that were typed or stood in a file, by the names that a file has, as plain values."""
    given = {}
    for each in ctx.command.params:
        source = None if each.name is None else ctx.get_parameter_source(each.name)
        if each.name in _HOW or source is None or source.name == "DEFAULT":
            continue
        given[_written(each)] = _plain(ctx.params.get(each.name))
    return given


def to_toml(values: Mapping[str, Any]) -> str:
    """Plain values by name as the text of a TOML file."""
    return "".join(f"{name} = {_text(value)}\n" for name, value in values.items())


def _written(parameter: Any) -> str:
    """The name of an option in a file: as it is typed, without dashes before it."""
    longest = max(parameter.opts, key=len)
    return str(longest).lstrip("-").replace("_", "-").lower()


def _as_typed(path: Path, name: str, value: Any, *, flag: bool) -> Any:
    """A value as the command line has it; the same checks follow."""
    if flag or isinstance(value, bool):
        if not (flag and isinstance(value, bool)):
            raise ParameterError(
                f"{path}: {name} must be "
                + ("true or false" if flag else "a value, not true or false")
            )
        return value
    if isinstance(value, list):
        return [_as_typed(path, name, each, flag=False) for each in value]
    if isinstance(value, (str, int, float)):
        return str(value)
    raise ParameterError(f"{path}: {name} must be a number, a text or a list of these")


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(_text(each) for each in value) + "]"
    if isinstance(value, str):
        # A text of JSON is one of TOML, but for letters beyond 16 bits and one control character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
