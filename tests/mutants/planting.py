"""Puts a fault into a module that is loaded already: a process forked for it need not start anew."""

import ast
import sys
from functools import cached_property
from types import FunctionType, ModuleType
from typing import Any

from tests.mutants.operators import Mutant


def plant(module: ModuleType, mutant: Mutant) -> None:
    """Exchange the code of the function that the fault is in, or the constant, wherever it was imported."""
    assert module.__file__ is not None
    code = compile(ast.fix_missing_locations(mutant.tree), module.__file__, "exec")
    changed: dict[str, Any] = {"__name__": module.__name__, "__file__": module.__file__}
    exec(code, changed)
    if mutant.function:
        live, other = (_function(vars(each), mutant.function) for each in (module, _Names(changed)))
        live.__code__ = other.__code__
        return
    [assignment] = [each for each in mutant.tree.body if each.lineno == mutant.first]
    assert isinstance(assignment, ast.Assign)
    for target in ast.walk(assignment.targets[0]):
        if isinstance(target, ast.Name):
            old, new = vars(module)[target.id], changed[target.id]
            for each in list(sys.modules.values()):
                name = getattr(each, "__name__", "")
                if name.startswith(("apportion", "tests")) and vars(each).get(target.id) is old:
                    setattr(each, target.id, new)


class _Names:
    """So that ``vars`` gives these names."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.__dict__ = names


def _function(names: Any, path: str) -> FunctionType:
    for name in path.split("."):
        found = names[name]
        names = getattr(found, "__dict__", {})
    if isinstance(found, property):
        found = found.fget
    if isinstance(found, cached_property):
        found = found.func
    if isinstance(found, staticmethod | classmethod):
        found = found.__func__
    while hasattr(found, "__wrapped__"):
        if hasattr(found, "cache_clear"):
            found.cache_clear()
        found = found.__wrapped__
    assert isinstance(found, FunctionType), path
    return found
