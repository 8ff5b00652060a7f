"""The shape of the house: who may import whom, and where randomness may come from."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import apportion

ROOT = Path(apportion.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

# What every room may import of ours: they know nothing of any room.
EVERYONES = {
    "errors",
    "checks",
    "frames",
    "json_text",
    "native",
    "packing",
    "threads",
    "limits",
    "plain",
    "progress",
    "version",
}
# By which names others import what is in the rooms.
PUBLIC = {"datasets", "metrics", "theory"}
# What else each room may import of ours. Data flows one way.
ROOMS = {
    "pages": {"pages"},
    "privacy": {"privacy"},
    "twins": {"twins", "privacy"},
    "accounts": {"accounts", "pages", "privacy"},
    "data": {"data", "pages", "twins"},
    "engine": {"engine", "data", "privacy", "twins"},
    "allocation": {"allocation", "engine", "data", "accounts.declared", "accounts.rdp", "privacy"},
    "folders": {"folders", "accounts", "data", "privacy"},
    "tasks": {"tasks", "folders", "pages", "engine", "allocation", "data", "accounts", "privacy"},
    "recommend": {
        "recommend", "folders", "pages", "tasks", "engine", "allocation", "data", "accounts", "privacy",
    },
    "explore": {"explore", "folders", "pages", "recommend", "data", "accounts", "privacy.ledger"},
    "studies": {"studies", "pages", "recommend", "tasks", "allocation", "data", "accounts", "privacy"},
    "audit": {
        "audit", "pages", "recommend", "tasks", "allocation", "data", "accounts", "privacy", "studies.output",
    },
    "cli": {
        "cli", "pages", "recommend", "tasks", "folders", "allocation", "data", "studies", "accounts",
        "privacy.ledger", "audit", "engine", "explore",
    },
}  # fmt: skip
# The trusted kernel, and what defines its compiled functions, need even less.
LITTLE = {"privacy": {"errors", "checks", "native", "twins.noise"}, "twins": {"errors"}}
KERNEL_LIBRARIES = {"numpy", "scipy", "cryptography", "dp_accounting"}
STANDARD = {
    "math", "json", "hashlib", "secrets", "collections", "dataclasses", "typing", "functools", "numbers",
    "decimal", "contextlib", "contextvars", "warnings", "types", "concurrent", "threading", "sys", "os",
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
                    ours == place or ours.startswith(place + ".")
                    for place in ROOMS[room] | LITTLE.get(room, EVERYONES)
                )
                assert allowed, f"{path.relative_to(ROOT)} imports {name}"


def test_what_everyone_may_import_imports_nothing_of_a_room() -> None:
    allowed = {
        "plain": {"apportion.errors"},
        "json_text": {"apportion.errors"},
        "progress": {"apportion.errors"},
        "native": {"apportion"},
        "threads": {"apportion.limits"},
        "checks": {"apportion.errors"},
    }
    for name in EVERYONES:
        ours = {each for each in imports(ROOT / f"{name}.py") if each.split(".")[0] == "apportion"}
        assert ours <= allowed.get(name, set()), name


def test_every_file_at_the_top_is_known() -> None:
    top = {path.stem for path in MODULES if path.parent == ROOT}
    assert top == {"__init__", "__main__", *PUBLIC, *EVERYONES}


def test_public_modules_only_name_what_is_elsewhere() -> None:
    for name in PUBLIC:
        body = ast.parse((ROOT / f"{name}.py").read_text()).body
        assert all(isinstance(node, ast.Expr | ast.ImportFrom) for node in body), name


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_compiled_kernels_are_loaded_in_one_place_and_numba_in_one_other(path: Path) -> None:
    place = str(path.relative_to(ROOT))
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and any(each.name == "_native" for each in node.names):
            assert place == "native.py"
    if any(name.split(".")[0] == "numba" for name in imports(path)):
        assert place == "tasks/losses.py"


def test_every_room_is_known() -> None:
    rooms = {path.parent.relative_to(ROOT).parts[0] for path in MODULES if path.parent != ROOT}
    assert rooms == set(ROOMS)


def test_the_kernel_rests_on_little() -> None:
    for path in (*(ROOT / "privacy").glob("*.py"), ROOT / "errors.py", ROOT / "checks.py"):
        others = {name.split(".")[0] for name in imports(path)} - {"apportion"}
        assert others <= KERNEL_LIBRARIES | STANDARD, path.name


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_noise_is_drawn_in_one_place_and_added_in_one_other(path: Path) -> None:
    place = str(path.relative_to(ROOT))
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr == "standard_normal":
            assert place in {"data/simulate.py", "data/spark/simulate.py"}
        if isinstance(node, ast.Attribute) and node.attr == "discrete_gaussian":
            assert place == "privacy/release.py"
        random = isinstance(node, ast.Attribute) and node.attr in {"random", "default_rng"}
        if random or (
            isinstance(node, ast.Import | ast.ImportFrom) and "random" in ast.unparse(node)
        ):
            harmless = {
                "data/simulate.py",
                "data/spark/simulate.py",
                "studies/jester.py",
                "recommend/sweep.py",
            }
            harmless |= {"audit/trainings.py", "audit/one_run.py", "recommend/metrics/bootstrap.py"}
            assert place in {"privacy/noise.py", *harmless}, ast.unparse(node)


def test_importing_the_package_loads_nothing_that_few_need() -> None:
    code = "import sys, apportion; print(*(name for name in sys.argv[1:] if name in sys.modules))"
    seldom = (
        "polars",
        "scipy.optimize",
        "scipy.sparse",
        "scipy.stats",
        "matplotlib",
        "typer",
        "rich",
        "numba",
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *seldom], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
