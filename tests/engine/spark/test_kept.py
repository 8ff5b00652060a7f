"""What executors keep of a shard: written once, read where it lies, no more than later tasks need."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apportion.engine import CpuEngine
from apportion.engine.spark.kept import Kept
from tests.engine.contract.cases import answer, make_rows
from tests.engine.contract.test_users import RIGHT, solved

ROWS = make_rows(900, 160, 8, 20, seed=5)
SOLVED = 2  # the call that solved users' vectors; the first made all the rest
VECTORS = 900 * 16 * 2  # bytes


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    session: Any = solved(CpuEngine(), ROWS, 8)
    answer(session, RIGHT)
    found = Kept(session, tmp_path / "shard")
    found.serial = SOLVED
    return found


def files(folder: Path) -> dict[str, int]:
    """The files of arrays, and how many bytes they have."""
    return {each.name: each.stat().st_size for each in folder.rglob("*.arrays")}


def solve_again(one: Kept) -> None:
    one.session.solve_users(*_system(), stretch=False)
    one.serial += 1


def _system() -> tuple[Any, ...]:
    from apportion.engine.queries import UserSystems

    items = np.random.default_rng(4).normal(size=(160, 8)) / 8**0.5
    return items, 0.3 * items.T @ items, UserSystems(0.1, 0.5), 0.7


def same(mine: Any, theirs: Any) -> bool:
    return bool((answer(mine, RIGHT)[0] == answer(theirs, RIGHT)[0]).all())


def test_everything_is_written_once_and_read_where_it_lies(kept: Kept, tmp_path: Path) -> None:
    saved = kept.save(SOLVED)
    before = files(tmp_path)
    assert saved.serial == SOLVED
    assert not saved.session._chosen.task.flags.writeable, "a page of a file, not memory"
    assert same(saved.session, kept.session)
    assert saved.save(SOLVED) is saved
    assert files(tmp_path) == before


def test_vectors_that_nobody_needs_are_left_out(kept: Kept, tmp_path: Path) -> None:
    saved = kept.save(SOLVED - 1)
    assert saved.serial == SOLVED - 1
    before = files(tmp_path)
    solve_again(saved)
    assert same(saved.session, kept.session)
    assert saved.save(SOLVED - 1) is saved, "a sweep writes nothing"
    assert files(tmp_path) == before
    saved.save(SOLVED)
    assert sum(files(tmp_path).values()) == sum(before.values()) + VECTORS


def test_another_process_reads_what_is_new_alone(kept: Kept, tmp_path: Path) -> None:
    first = kept.save(SOLVED - 1)
    other = Kept.read(tmp_path / "shard", most=SOLVED)
    assert other is not None
    assert other.newer(least=0, most=SOLVED) is None, "nothing is new"
    solve_again(first)
    first.save(SOLVED)
    assert other.newer(least=0, most=SOLVED - 1) is None, "more than it may have been told"
    assert other.newer(least=SOLVED + 1, most=SOLVED + 1) is None, "less than is known here"
    newer = other.newer(least=SOLVED - 1, most=SOLVED)
    assert newer is not None
    assert same(newer.session, kept.session)
    weights = newer.session._bounded_weights()
    assert weights is other.session._bounded_weights(), "they are not checked again"


def test_files_that_another_process_has_replaced_are_written_again(
    kept: Kept, tmp_path: Path
) -> None:
    """Two tasks made one shard at a time: the later index has files of its own."""
    first = kept.save(SOLVED - 1)
    for each in (tmp_path / "shard").iterdir():
        each.unlink()
    solve_again(first)
    first.save(SOLVED)
    other = Kept.read(tmp_path / "shard", most=SOLVED)
    assert other is not None
    assert same(other.session, kept.session)


@pytest.mark.parametrize("spoil", [lambda path: path.unlink(), lambda path: path.write_bytes(b"")])
def test_files_that_are_missing_or_torn_are_none(kept: Kept, tmp_path: Path, spoil: Any) -> None:
    kept.save(SOLVED)
    [path] = (tmp_path / "shard").glob("*.arrays")
    spoil(path)
    assert Kept.read(tmp_path / "shard", most=SOLVED) is None
