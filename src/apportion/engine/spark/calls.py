"""What a session was told so far: tasks tell it to their shard again wherever they run."""

from dataclasses import dataclass
from typing import Any

# What a call makes of no consequence among the earlier ones, unless users were solved in between.
_REPLACES = {
    "choose": {"choose", "weigh", "center"},
    "weigh": {"weigh"},
    "center": {"center"},
    "bound_features": {"bound_features", "solve_users"},
    "solve_users": {"bound_features", "solve_users"},
}
# What solved users rest on.
_SOLVED_FROM = {"choose", "center"}


@dataclass(frozen=True, eq=False)
class Call:
    """A call of a session's method.

    Attributes
        serial: they go up.
        name: of the method.
        arguments: travel to the tasks: positional ones, and those by name.
    """

    serial: int
    name: str
    arguments: Any


def needed(calls: tuple[Call, ...]) -> tuple[Call, ...]:
    """The calls without those that later ones have made of no consequence.

    >>> names = ["choose", "weigh", "center", "center", "solve_users", "center", "solve_users"]
    >>> [call.serial for call in needed(tuple(Call(*each, None) for each in enumerate(names)))]
    [0, 1, 5, 6]
    """
    kept: list[Call] = []
    replaced: set[str] = set()
    for call in reversed(calls):
        if call.name in replaced:
            continue
        kept.append(call)
        if call.name == "solve_users":
            replaced -= _SOLVED_FROM
        replaced |= _REPLACES[call.name]
    return tuple(reversed(kept))
