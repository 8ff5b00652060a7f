"""Files that are no budgets, or damaged ones: an error of ours, and nothing is counted less."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import apportion as ap
from tests.fuzz.harness import Fuzz, mutated, seeds
from tests.fuzz.values import ABSURD

CAP = ap.PrivacyTarget(2.0, 1e-5)


def use(path: Path) -> Any:
    budget = ap.Budget(path, timeout=0.1)
    budget.history()
    return budget.epsilon, budget.left


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("budget") / "budget.db"
    budget = ap.Budget.create(path, CAP)
    budget.set_aside("elsewhere", ap.PrivacyTarget(1.0, 1e-5))
    budget.reserve("training", ap.PrivacyTarget(0.5, 1e-5))
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    return path.read_bytes()


def test_bytes_changed(fuzz: Fuzz, tmp_path: Path, content: bytes) -> None:
    for number, source in enumerate(seeds(250)):
        path = tmp_path / f"{number}.db"
        path.write_bytes(mutated(content, source))
        found = fuzz.case(lambda: use(path))
        if isinstance(found, Exception):
            assert isinstance(found, ap.BudgetFileError)


def test_random_bytes(fuzz: Fuzz, tmp_path: Path) -> None:
    for number, source in enumerate(seeds(60)):
        path = tmp_path / f"{number}.db"
        start = b"SQLite format 3\0" if source.random() < 0.5 else b""
        path.write_bytes(start + source.randbytes(source.randrange(1, 9000)))
        assert isinstance(fuzz.case(lambda: use(path)), ap.BudgetFileError)


def test_odd_values_in_the_tables(fuzz: Fuzz, tmp_path: Path, content: bytes) -> None:
    values: tuple[Any, ...] = (
        None,
        -1,
        1e999,
        "nan",
        "",
        "x",
        b"\xff",
        "[]",
        "[[]]",
        "{}",
        "[{}]",
        "[" * 90_000,
        "1" * 9000,
        '[{"name": 1}]',
        2**62,
        "[NaN]",
        "\0",
    )
    columns = {
        "format": ("needs",),
        "events": ("number", "at", "kind", "training", "body", "hash"),
    }
    for table, names in columns.items():
        for name in names:
            for number, value in enumerate(values):
                path = tmp_path / f"{table}-{name}-{number}.db"
                path.write_bytes(content)
                connection = sqlite3.connect(path)
                try:
                    connection.execute(f"UPDATE {table} SET {name} = ?", (value,))
                    connection.commit()
                except sqlite3.Error:  # the table itself refuses it
                    continue
                finally:
                    connection.close()
                fuzz.case(lambda: use(path))


def test_odd_places(fuzz: Fuzz, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("link")
    (tmp_path / "empty").write_bytes(b"")
    for name in ("folder", "link", "empty", "none", "a/b", "a\0b", "x" * 300):
        found = fuzz.case(lambda: use(tmp_path / name))
        assert isinstance(found, ap.BudgetFileError), name


def test_odd_caps(fuzz: Fuzz, tmp_path: Path) -> None:
    for number, value in enumerate(ABSURD):
        path = tmp_path / f"{number}.db"
        found = fuzz.case(lambda: ap.Budget.create(path, value))
        assert isinstance(found, ap.ApportionError)
        assert not path.exists()
        fuzz.case(lambda: ap.Budget.create(path, CAP, timeout=value))
