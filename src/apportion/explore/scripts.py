"""The page's scripts: ES modules as they are, or as one classic script for a page that is a single file.

A browser loads no modules from a disk. So for a single file every module becomes a function that returns
what it exports, in the order in which they import each other. The modules keep to what this needs: imports by
name at the top, ``export`` in front of a declaration.
"""

import re
from functools import cache
from importlib.resources import files

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function (\w+)|const (\w+))", re.MULTILINE)

PAGE, WORKER = "main.js", "worker.js"


@cache
def app_file(name: str) -> str:
    """The text of a file of the page."""
    return (files("apportion.explore") / "app" / name).read_text("utf-8")


def module_names() -> list[str]:
    """All modules that the page and its worker need, each after those that it imports."""
    found: list[str] = []
    for entry in (PAGE, WORKER):
        _collect(entry, found)
    return found


def classic_script(entry: str) -> str:
    """This module with all that it imports as one script, which is no module."""
    names: list[str] = []
    _collect(entry, names)
    return '"use strict";\n' + "".join(_as_function(name) for name in names)


def _collect(name: str, found: list[str]) -> None:
    for _, other in _IMPORT.findall(app_file(name)):
        if other not in found:
            _collect(other, found)
    if name not in found:
        found.append(name)


def _as_function(name: str) -> str:
    text = app_file(name)
    exported = [first or second for first, second in _EXPORT.findall(text)]

    def imported(match: re.Match[str]) -> str:
        wanted = " ".join(match[1].split())
        return f"const {{ {wanted} }} = {_variable(match[2])};\n"

    body = _EXPORT.sub("", _IMPORT.sub(imported, text))
    return (
        f"const {_variable(name)} = (() => {{\n{body}return {{ {', '.join(exported)} }};\n}})();\n"
    )


def _variable(name: str) -> str:
    return "module_" + name.removesuffix(".js")
