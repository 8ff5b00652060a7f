"""The file of a budget: made once, for its owner alone; who may only read it; copies; speed."""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from apportion.accounts import Budget, durable
from apportion.accounts.costs import gaussian_cost, sampled_cost
from apportion.errors import BudgetFileError, ParameterError
from apportion.privacy import PrivacyTarget, Record
from apportion.privacy.gaussian import mu_from_epsilon
from apportion.privacy.ledger import total_epsilon

CAP = PrivacyTarget(4.0, 1e-6)
ONE = PrivacyTarget(1.0, 1e-6)


@pytest.fixture
def budget(tmp_path: Path) -> Budget:
    return Budget.create(tmp_path / "budget.db", CAP)


def test_opening_what_is_not_there_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(BudgetFileError, match=r"there is no budget .*Budget\.create"):
        Budget(tmp_path / "budget.db")
    assert list(tmp_path.iterdir()) == []


def test_a_budget_is_made_once(budget: Budget) -> None:
    budget.set_aside("x", ONE)
    before = budget.path.read_bytes()
    for cap in (CAP, PrivacyTarget(5.0, 1e-6)):
        with pytest.raises(ParameterError, match="exists already"):
            Budget.create(budget.path, cap)
    assert budget.path.read_bytes() == before


def test_two_budgets_have_two_names(budget: Budget, tmp_path: Path) -> None:
    other = Budget.create(tmp_path / "other.db", CAP)
    assert other.id != budget.id
    assert Budget(budget.path).id == budget.id


def test_the_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        budget = Budget.create(tmp_path / "budget.db", CAP)
        (tmp_path / "touched.db").touch(0o666)
        Budget.create(tmp_path / "touched.db", CAP)
        with sqlite3.connect(budget.path) as connection:  # keeps the log alive
            connection.execute("SELECT * FROM events").fetchall()
            budget.reserve("x", ONE).leave()
            found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        connection.close()
    finally:
        os.umask(before)
    assert len(found) == 5  # with the log, its index, and a lock
    assert set(found.values()) == {0o600}


def test_a_link_leads_to_the_one_budget_and_a_second_name_is_refused(
    budget: Budget, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    link = tmp_path / "folder" / "link.db"
    link.symlink_to(budget.path)
    Budget(link).reserve("x", ONE).leave()
    assert len(list(tmp_path.glob("budget.db-*.lock"))) == 1
    os.link(budget.path, tmp_path / "second.db")
    for path in (budget.path, tmp_path / "second.db"):
        with pytest.raises(BudgetFileError, match="another name too"):
            Budget(path)


def test_a_pipe_is_no_budget(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BudgetFileError, match="is not a budget"):
        Budget(tmp_path / "pipe")


# --- those who may only read ---

READER = """
import json, os, sys
import apportion as ap
os.setuid(65534)
budget = ap.Budget(sys.argv[1])
print(json.dumps([budget.epsilon, len(budget.history()), budget.doubt]))
try:
    budget.reserve("x", ap.PrivacyTarget(0.1, 1e-6))
except ap.BudgetFileError as error:
    print(error)
"""


def read_as_another(budget: Budget) -> tuple[float, int, str | None, str]:
    import json

    place = budget.path.parent
    for path in place.iterdir():
        path.chmod(0o644)
    for parent in (place, *place.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o055)
    told = subprocess.run(
        [sys.executable, "-c", READER, str(budget.path)], capture_output=True, text=True, check=True
    )
    values, error = told.stdout.splitlines()
    return (*json.loads(values), error)


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
def test_a_reader_sees_what_is_counted_also_in_the_log(budget: Budget) -> None:
    budget.set_aside("x", ONE)
    epsilon, trainings, doubt, error = read_as_another(budget)
    assert epsilon == pytest.approx(1.0)
    assert (trainings, doubt) == (1, None)
    assert "cannot write" in error
    with sqlite3.connect(budget.path) as connection:  # what follows stays in the log
        connection.execute("SELECT * FROM events").fetchall()
        budget.set_aside("y", ONE)
        assert Path(f"{budget.path}-wal").stat().st_size > 0
        epsilon, trainings, doubt, _ = read_as_another(budget)
    connection.close()
    assert epsilon == pytest.approx(budget.epsilon)
    assert trainings == 2
    assert doubt is not None
    assert "may count less" in doubt


def test_a_copy_made_while_a_training_runs_says_so(budget: Budget, tmp_path: Path) -> None:
    reservation = budget.reserve("x", ONE)
    copy = tmp_path / "elsewhere" / "budget.db"
    copy.parent.mkdir()
    shutil.copyfile(budget.path, copy)
    assert budget.doubt is None
    assert Budget(copy).doubt is not None
    assert "may count less" in str(Budget(copy).doubt)
    reservation.settle()
    shutil.copyfile(budget.path, copy)
    assert Budget(copy).doubt is None


# --- how much is left ---

MANY: list[list[Record]] = [
    [sampled_cost(1.5, 200, 0.05)],
    [sampled_cost(1.5, 200, 0.05)] * 6,
    [sampled_cost(2.0, 1000, 0.01), sampled_cost(3.0, 50, 0.1), gaussian_cost(0.3)],
    [sampled_cost(0.3, 10, 0.5), gaussian_cost(0.3, 1e-7)],
]


@pytest.mark.parametrize("counted", MANY, ids=["one", "six", "mixed", "small"])
def test_what_is_left_with_sampled_users(budget: Budget, counted: list[Record]) -> None:
    budget.reserve("x", PrivacyTarget(3.9, 1e-6, 1e-7), counted).leave()
    began = time.process_time()  # whatever else the machine has to do
    left = budget.left
    assert time.process_time() - began < 5  # it takes about a tenth of that
    mu = mu_from_epsilon(left, CAP.delta)
    assert total_epsilon([*counted, gaussian_cost(mu)], CAP.delta) <= CAP.epsilon
    assert total_epsilon([*counted, gaussian_cost(mu * 1.002)], CAP.delta) > CAP.epsilon
    budget.reserve("y", PrivacyTarget(left, CAP.delta)).leave()


# --- disks ---


def test_what_is_written_passes_the_memory_of_the_disk() -> None:
    """As on macOS, where ``fsync`` is not enough. A pipe shows which is called: it knows no ``fsync``."""
    calls: list[tuple[int, int]] = []

    def known(file: int, command: int) -> None:
        calls.append((file, command))

    def unknown(file: int, command: int) -> None:
        raise OSError(25, "not for this device")

    def broken(file: int, command: int) -> None:
        raise OSError(5, "the disk is broken")

    out, pipe = os.pipe()
    try:
        durable.sync(pipe, SimpleNamespace(F_FULLFSYNC=51, fcntl=known))
        assert calls == [(pipe, 51)]
        for system in (SimpleNamespace(F_FULLFSYNC=51, fcntl=unknown), SimpleNamespace(), None):
            with pytest.raises(OSError, match="Invalid argument"):  # of fsync
                durable.sync(pipe, system)
        with pytest.raises(OSError, match="broken"):
            durable.sync(pipe, SimpleNamespace(F_FULLFSYNC=51, fcntl=broken))
    finally:
        os.close(out)
        os.close(pipe)
