"""The log of a budget: what was changed is seen, and by whoever kept a hash also what was put back."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import apportion as ap
from apportion.accounts import Budget
from apportion.accounts.log import _hash
from apportion.errors import BudgetExceededError, BudgetFileError, ParameterError
from apportion.privacy import PrivacyTarget, Record

CAP = PrivacyTarget(2.0, 1e-5)
ONE = PrivacyTarget(1.0, 1e-5)
RECORD = Record("a", "", (1,), ONE.mu / 2, "", 1.0)


@pytest.fixture
def budget(tmp_path: Path) -> Budget:
    """With every event that one training makes."""
    budget = Budget.create(tmp_path / "budget.db", CAP)
    reservation = budget.reserve("x", ONE)
    reservation.tie("digest")
    reservation.commit([RECORD])
    reservation.leave()
    budget.resume(reservation.token).settle()
    budget.note_saved(reservation.token, "sha256", "model")
    budget.set_aside("y", PrivacyTarget(0.1, 1e-5))
    return budget


def rows(path: Path) -> list[list[Any]]:
    with sqlite3.connect(path) as connection:
        found = connection.execute("SELECT * FROM events ORDER BY number").fetchall()
    connection.close()
    return [list(row) for row in found]


def rewrite(path: Path, changed: list[list[Any]], *, forged: bool = False) -> None:
    """Replace the log; ``forged`` with a chain of hashes that fits."""
    last = ""
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM events")
        for row in changed:
            if forged:
                row[5] = last = _hash(last, *row[1:5])
            connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", row)
    connection.close()


def check_refused(path: Path) -> None:
    """Every use of the budget ends in an error of ours."""
    uses: list[Callable[[Budget], object]] = [
        Budget.history,
        lambda one: one.epsilon,
        lambda one: one.left,
        lambda one: one.reserve("z", PrivacyTarget(0.1, 1e-5)),
        lambda one: one.set_aside("z", PrivacyTarget(0.1, 1e-5)),
        lambda one: one.events_since(one.last_hash),
    ]
    for use in uses:
        with pytest.raises(BudgetFileError):
            use(Budget(path))


def test_every_event_is_in_the_log(budget: Budget) -> None:
    kinds = [row[2] for row in rows(budget.path)]
    assert kinds == [
        "created", "reserved", "tied", "released", "resumed", "ended", "saved", "set aside",
    ]  # fmt: skip
    [training, _] = budget.history()
    assert (training.digest, training.output, training.key) == ("sha256", "model", "digest")
    assert training.releases == (RECORD,)


def test_an_edit_anywhere_is_seen(budget: Budget, tmp_path: Path) -> None:
    original, content = rows(budget.path), budget.path.read_bytes()
    other = {0: 99, 1: "2020-01-01T00:00:00+00:00", 2: "else", 3: "0" * 32, 4: "{}", 5: "0" * 64}
    path = tmp_path / "edited.db"
    for place in range(len(original)):
        for column, value in other.items():
            path.write_bytes(content)
            changed = [list(row) for row in original]
            changed[place][column] = value
            rewrite(path, changed)
            check_refused(path)


def test_what_is_taken_out_put_in_or_exchanged_is_seen(budget: Budget, tmp_path: Path) -> None:
    original, content = rows(budget.path), budget.path.read_bytes()
    path = tmp_path / "edited.db"
    for place in range(1, len(original) - 1):
        without = [list(row) for row in original[:place] + original[place + 1 :]]
        swapped = [list(row) for row in original]
        swapped[place][1:], swapped[place + 1][1:] = swapped[place + 1][1:], swapped[place][1:]
        twice = [list(row) for row in original] + [list(original[place])]
        for changed in (without, swapped, twice):
            for number, row in enumerate(changed, 1):
                row[0] = number
            path.write_bytes(content)
            rewrite(path, changed)
            check_refused(path)


def test_whoever_kept_a_hash_sees_an_old_copy(budget: Budget, tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    shutil.copyfile(budget.path, old)
    kept = budget.last_hash
    assert (len(kept), budget.events_since(kept)) == (64, 0)
    budget.set_aside("z", PrivacyTarget(0.1, 1e-5))
    assert budget.events_since(kept) == 1
    newest = budget.last_hash
    shutil.copyfile(old, budget.path)
    assert Budget(budget.path).epsilon > 0  # nothing is wrong with it by itself
    with pytest.raises(BudgetFileError, match="older copy"):
        Budget(budget.path).events_since(newest)


def test_whoever_kept_a_hash_sees_a_forged_log(budget: Budget) -> None:
    kept = budget.last_hash
    changed = rows(budget.path)
    record = json.loads(changed[5][4])
    record["cost"][0]["sensitivity"] = 1e-6
    changed[5][4] = json.dumps(record)
    rewrite(budget.path, changed, forged=True)
    assert Budget(budget.path).epsilon < 0.2  # the chain fits: nobody else can tell
    with pytest.raises(BudgetFileError, match="does not have the hash"):
        Budget(budget.path).events_since(kept)


def test_forged_events_are_errors_of_ours_and_never_count_less(
    budget: Budget, tmp_path: Path
) -> None:
    original, content = rows(budget.path), budget.path.read_bytes()
    path, epsilon = tmp_path / "forged.db", budget.epsilon
    odd_values: tuple[Any, ...] = (None, -1, "x", [{}])
    for place, row in enumerate(original):
        values = json.loads(row[4])
        for name in values:
            for odd in odd_values:
                changed = [list(each) for each in original]
                changed[place][4] = json.dumps({**values, name: odd})
                path.write_bytes(content)
                rewrite(path, changed, forged=True)
                try:
                    again = Budget(path)
                    again.history()
                    assert again.epsilon >= epsilon or name in ("cost", "epsilon", "delta")
                except (BudgetFileError, ParameterError):
                    pass
    for kind in ("created", "migrated", "none", ""):
        changed = [list(each) for each in original]
        changed[3][2] = kind
        path.write_bytes(content)
        rewrite(path, changed, forged=True)
        with pytest.raises(BudgetFileError, match="damaged"):
            Budget(path).history()


# --- budgets of older and of newer formats ---

GOLDEN = Path(__file__).parents[1] / "golden"


def test_a_budget_of_format_2_is_migrated_in_place(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    shutil.copyfile(GOLDEN / "budget-2.db", path)
    budget = Budget(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (3,)
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    connection.close()
    # What only knows format 2 finds no table of it, and refuses the number.
    assert not tables & {"cap", "trainings", "releases"}
    assert (budget.cap.epsilon, budget.cap.delta) == (4.0, 1e-6)
    assert budget.epsilon == pytest.approx(1.8141790776378497, rel=1e-12)
    assert budget.left == pytest.approx(3.4307701268825426, rel=1e-9)
    ended, elsewhere, running = budget.history()
    assert (ended.what, elsewhere.what) == ("MultiTaskRidge", "elsewhere")
    assert [one.name for one in ended.releases] == ["counts", "A"]
    assert ended.epsilon == pytest.approx(0.7665108121148057, rel=1e-12)
    assert (ended.ended, running.ended) == ("2026-11-19T02:08:37+00:00", None)
    # The one that had not ended goes on, under its own noise key only.
    resumed = budget.resume("ab" * 16)
    with pytest.raises(BudgetExceededError, match="another noise key"):
        resumed.tie("another")
    resumed.tie(running.key)
    resumed.settle()
    assert budget.epsilon < 1.2


def test_a_reader_sees_a_budget_of_format_2_without_changing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "budget.db"
    shutil.copyfile(GOLDEN / "budget-2.db", path)
    before = path.read_bytes()
    monkeypatch.setattr("os.access", lambda _, mode: mode == 4)
    assert Budget(path).epsilon == pytest.approx(1.8141790776378497, rel=1e-12)
    assert path.read_bytes() == before


def test_a_migration_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "budget.db"
    shutil.copyfile(GOLDEN / "budget-2.db", path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE trainings SET cost = '[{}]' WHERE number = 2")
    connection.close()
    with pytest.raises(BudgetFileError, match="damaged"):
        Budget(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
        assert connection.execute("SELECT count(*) FROM trainings").fetchone() == (3,)
    connection.close()


def test_a_newer_budget_names_the_version_that_it_needs(budget: Budget) -> None:
    with sqlite3.connect(budget.path) as connection:
        connection.execute("PRAGMA user_version = 7")
        connection.execute("UPDATE format SET needs = '1.4.0'")
    connection.close()
    with pytest.raises(BudgetFileError, match=r"needs apportion 1\.4\.0 or later"):
        Budget(budget.path)
    with pytest.raises((BudgetFileError, ParameterError)):
        Budget.create(budget.path, CAP)


def test_labels(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    Budget.create(path, CAP)
    data = ap.simulate_tasks(users=100, tasks=3, tasks_per_user=2)
    ap.MultiTaskRidge(epsilon=0.5).fit(data, budget=Budget(path, label="May"))
    Budget(path, label="by hand").set_aside("x", PrivacyTarget(0.1, 1e-5))
    assert [one.label for one in Budget(path).history()] == ["May", "by hand"]
    assert {one.version for one in Budget(path).history()} == {ap.__version__}
    for wrong in (1, None, "x" * 201):
        with pytest.raises(ParameterError, match="label must be a text"):
            Budget(path, label=wrong)
