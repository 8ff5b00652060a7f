"""docs/explanation/proofs.md has every public name of the kernel, and the sizes on it are right."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
KERNEL = ROOT / "src/apportion/privacy"
# The NumPy definition of the sampler is proved on the page, too.
PROVED = (*sorted(KERNEL.glob("*.py")), ROOT / "src/apportion/twins/noise.py")
PAGE = (ROOT / "docs/explanation/proofs.md").read_text("utf-8")
ROWS = re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)
SIZES = re.findall(r"^\| `([^`]+/[^`]+)` \| (\d+) \|", PAGE, re.MULTILINE)


def public_names(source: str) -> set[str]:
    """Functions, classes and their methods and properties, without those that begin with an underscore."""
    found = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[0] != "_":
            found.add(node.name)
            if isinstance(node, ast.ClassDef):
                inside = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
                found |= {f"{node.name}.{name}" for name in inside if name[0] != "_"}
    return found


@pytest.mark.parametrize("module", PROVED, ids=lambda path: path.stem)
def test_every_public_name_of_the_kernel_has_its_entry(module: Path) -> None:
    missing = public_names(module.read_text("utf-8")) - set(ROWS)
    assert not missing, f"docs/explanation/proofs.md says nothing of {sorted(missing)}"


def test_what_is_gone_has_no_entry() -> None:
    known = set().union(*(public_names(path.read_text("utf-8")) for path in PROVED))
    assert {row for row in ROWS if "/" not in row} <= known


@pytest.mark.parametrize(("place", "said"), SIZES)
def test_sizes_are_right(place: str, said: str) -> None:
    files = sorted(ROOT.glob(place))
    assert files, f"{place} is gone"
    lines = sum(len(path.read_text("utf-8").splitlines()) for path in files)
    assert abs(lines - int(said)) <= max(5, 0.05 * lines), f"{place} has {lines} lines"


def test_the_trusted_base_has_all_files_that_bound_sum_or_keep_count() -> None:
    listed = {path for place, _ in SIZES for path in ROOT.glob(place)}
    rooms = ("privacy/*.py", "twins/*.py", "engine/*.py")
    for path in (each for room in rooms for each in (ROOT / "src/apportion").glob(room)):
        assert path in listed or path.name == "__init__.py", path


def test_the_kernel_is_small() -> None:
    lines = sum(len(path.read_text("utf-8").splitlines()) for path in KERNEL.glob("*.py"))
    assert lines <= 1800
