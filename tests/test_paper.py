"""docs/explanation/paper.md has every item of the paper, and what it names exists."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import apportion as ap

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/explanation/paper.md").read_text("utf-8")
# What LaTeX numbers in the paper; and what has no number but a name.
THEOREMS = {
    "Definition": ("2.1", "2.2"),
    "Remark": ("3.1", "3.2", "3.4", "3.5", "3.7", "B.1", "D.1"),
    "Assumption": ("3.6", "3.9", "3.10", "4.1"),
    "Theorem": ("3.3", "3.8", "3.11", "3.12", "4.2", "B.2"),
    "Lemma": ("A.1", "A.2", "A.3", "A.4"),
    "Section": ("3", "3.1", "3.2", "4", "A", "B", "C", "D"),
}
LINES = ("Algorithm 1, line 5", "Algorithm 1, line 6", "Algorithm 2, line 5", "Algorithm 3, line 5")
ITEMS = [
    *(f"{kind} {number}" for kind, numbers in THEOREMS.items() for number in numbers),
    *(f"Equation {number}" for number in range(1, 22)),
    *(f"Figure {number}" for number in range(1, 12)),
    *(f"Table {number}" for number in range(1, 5)),
    *(f"Algorithm {number}" for number in range(1, 4)),
    *LINES,
    *("R_0", "R_1", "Single task", "Complete bipartite graph", "RMSE", "Recall@k"),
]
VERDICTS = ("as in the paper", "deviates", "false as stated", "no code")


def tables() -> Iterator[tuple[list[str], list[list[str]]]]:
    """The header of every table of the page, and its rows."""
    for block in re.findall(r"(?:^\|.*\|\n)+", PAGE, re.MULTILINE):
        header, _, *rows = (
            [cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()
        )
        yield header, rows


ROWS = [row for header, rows in tables() if header[0] == "item" for row in rows]
# What looks like a function, a command or a test must exist.
CODE = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL))
FUNCTIONS = sorted({code for code in CODE if re.match(r"(ap|apportion)\.\w", code)})
COMMANDS = sorted({code for code in CODE if code.startswith("apportion ")})
TESTS = sorted({code for code in CODE if code.startswith("tests/")})


def test_the_page_was_read() -> None:
    assert len(ROWS) > 80
    assert min(len(FUNCTIONS), len(TESTS)) > 40
    assert len(COMMANDS) > 15


@pytest.mark.parametrize("item", ITEMS)
def test_every_item_has_its_row(item: str) -> None:
    assert any(re.match(rf"{re.escape(item)}(?![\w.])", row[0]) for row in ROWS), item


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_row_says_where_or_why_not(row: list[str]) -> None:
    _, here, run, verdict, test = row
    assert verdict.startswith(VERDICTS), verdict
    if verdict.startswith("no code"):
        assert re.match("no code[^:]*: .{10,}", verdict), "a reason is needed"
        return
    assert "`" in here, "a function is needed"
    assert "`apportion " in run or run == "the example at the top", "a command is needed"
    assert re.fullmatch("`tests/[^`]+`", test), "a test is needed"
    if not verdict.startswith("as in the paper"):
        assert re.match("(deviates|false as stated)[^:]*: .", verdict), "a reason is needed"


def test_deviations_are_those_of_the_table() -> None:
    [table] = [rows for header, rows in tables() if header[0] == "number"]
    numbers = [int(row[0]) for row in table]
    assert numbers == list(range(1, len(numbers) + 1))
    assert all(cell for row in table for cell in row)
    for row in ROWS:
        named = re.match(r"deviates: ((?:\d+(?:, | to )?)+)", row[3])
        if named:
            assert {int(each) for each in re.findall(r"\d+", named[1])} <= set(numbers), row


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_called_exists(name: str) -> None:
    first, *rest = re.match(r"[\w.]+", name)[0].split(".")
    found: Any = ap
    path = "apportion"
    for part in rest:
        path = f"{path}.{part}"
        if not hasattr(found, part):
            importlib.import_module(path)
        found = getattr(found, part)
    assert first in ("ap", "apportion")


@pytest.mark.parametrize("name", TESTS)
def test_tests_exist(name: str) -> None:
    file, *path = name.split("::")
    body = ast.parse((ROOT / file).read_text("utf-8")).body
    for part in path:
        [body] = [each.body for each in body if getattr(each, "name", None) == part]  # type: ignore[attr-defined]


def test_docstrings_use_the_paper_s_names() -> None:
    """Names and numbers, not the labels of its source."""
    label = re.compile(r"\b(eq|thm|lem|alg|assump|app|fig|tbl|sec|def|line):[a-z]\w*[_-]?\w*")
    for file in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            kinds = ast.Module | ast.ClassDef | ast.FunctionDef
            if isinstance(node, kinds) and (text := ast.get_docstring(node)):
                assert not label.search(text), f"{file.name}: {label.search(text)}"
