"""What a folder of task models keeps of its training, from which its releases follow."""

from collections.abc import Mapping
from typing import Any

from apportion.accounts.declared import Declared
from apportion.plain import to_plain

# The rules by which releases follow from settings, and the first version of the package that knows them.
PRESENT, NEEDS = 1, "0.1.0"


def declaration(
    estimator: str, settings: Mapping[str, Any], tasks: int, releases: list[Declared]
) -> dict[str, Any]:
    """The estimator, its settings and its releases, as plain values."""
    return {
        "rules": PRESENT,
        "needs": NEEDS,
        "estimator": estimator,
        "settings": {name: to_plain(value) for name, value in settings.items()},
        "tasks": tasks,
        "releases": to_plain(releases),
    }
