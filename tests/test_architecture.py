"""The shape of the house: who may import whom, and where randomness may come from."""

import ast
from pathlib import Path

import pytest

import apportion

ROOT = Path(apportion.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

# What each room may import of ours. Data flows one way.
ROOMS = {
    "privacy": {"privacy", "native"},
    "data": {
        "data",
        "native",
        "engine.sorting",
        "engine.threads",
        "engine.twins",
        "privacy.errors",
        "privacy.checks",
    },
    "allocation": {"allocation", "data", "privacy"},
    "engine": {"engine", "native"},
    "tasks": {"tasks", "engine", "allocation", "data", "privacy", "version"},
    "studies": {"studies", "recommend", "tasks", "allocation", "data", "privacy"},
    "recommend": {"recommend", "tasks", "engine", "allocation", "data", "privacy", "version"},
    "audit": {"audit", "recommend", "tasks", "allocation", "data", "privacy", "studies.output"},
    "cli": {
        "cli",
        "recommend",
        "allocation",
        "data",
        "studies",
        "privacy.errors",
        "privacy.budget",
        "privacy.checkpoint",
        "privacy.ledger",
        "audit",
        "version",
    },
}
KERNEL_LIBRARIES = {"numpy", "scipy", "cryptography", "numba", "dp_accounting", "rich"}
STANDARD = {
    "math", "json", "hashlib", "secrets", "collections", "dataclasses", "typing", "functools", "numbers",
    "decimal", "contextlib", "datetime", "pathlib", "sqlite3", "warnings", "types", "os", "stat", "fcntl",
    "concurrent", "threading", "sys",
}  # fmt: skip


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_only_what_is_upstream(room: str) -> None:
    for path in (ROOT / room).rglob("*.py"):
        for name in imports(path):
            if name.split(".")[0] == "apportion":
                ours = name.removeprefix("apportion.")
                allowed = any(
                    ours == place or ours.startswith(place + ".") for place in ROOMS[room]
                )
                assert allowed, f"{path.relative_to(ROOT)} imports {name}"


def test_every_room_is_known() -> None:
    rooms = {path.parent.relative_to(ROOT).parts[0] for path in MODULES if path.parent != ROOT}
    assert rooms == set(ROOMS)


def test_the_kernel_rests_on_little() -> None:
    for path in (ROOT / "privacy").glob("*.py"):
        others = {name.split(".")[0] for name in imports(path)} - {"apportion"}
        assert others <= KERNEL_LIBRARIES | STANDARD, path.name


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_noise_is_drawn_in_one_place_and_added_in_one_other(path: Path) -> None:
    place = str(path.relative_to(ROOT))
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr == "standard_normal":
            assert place == "data/simulate.py"
        if isinstance(node, ast.Attribute) and node.attr == "discrete_gaussian":
            assert place == "privacy/release.py"
        random = isinstance(node, ast.Attribute) and node.attr in {"random", "default_rng"}
        if random or (
            isinstance(node, ast.Import | ast.ImportFrom) and "random" in ast.unparse(node)
        ):
            harmless = {"data/simulate.py", "studies/jester.py", "recommend/factorization.py"}
            harmless |= {"audit/trainings.py", "audit/one_run.py"}
            assert place in {"privacy/noise.py", *harmless}, ast.unparse(node)
