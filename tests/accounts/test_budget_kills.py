"""Whatever left is counted: real processes, killed or out of space, and many at once."""

import math
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from apportion.accounts import Budget
from apportion.accounts.costs import whole_cost
from apportion.errors import BudgetFileError
from apportion.privacy import PrivacyTarget
from tests.accounts import killing

SHORT, LONG = "short", "long"


@pytest.fixture(params=[SHORT, pytest.param(LONG, marks=pytest.mark.slow)])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(kind: str, budget: Path, first: int, stop: int, step: int = 1) -> tuple[list[str], str]:
    """How the children ended, and their errors; what was returned to them is in ``returned``."""
    returned = budget.parent / "returned"
    words = [kind, str(budget), str(returned), str(first), str(stop), str(step)]
    result = subprocess.run(
        [sys.executable, killing.__file__, *words], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr, result.stderr
    return result.stdout.split("\n")[:-1], result.stderr


def returned_in(folder: Path) -> dict[str, set[str]]:
    """The names of the releases that were returned, by training."""
    found: dict[str, set[str]] = defaultdict(set)
    for line in (folder / "returned").read_text().splitlines():
        token, name = line.split(" ", 1)
        found[token].add(name)
    return found


def check_counts(budget: Budget, left: dict[str, set[str]]) -> None:
    """Every release that was returned is in the budget; what has not ended is counted in full."""
    trainings = {training.token: training for training in budget.history()}
    [whole] = whole_cost(killing.TARGET)
    for token, training in trainings.items():
        names = {record.name for record in training.releases}
        assert left.get(token, set()) <= names
        counted = math.fsum(record.mu**2 for record in training.cost)
        spent = math.fsum(record.mu**2 for record in training.releases)
        assert counted >= spent * (1 - 1e-15)
        if training.ended is None:
            assert training.cost == (whole,)
    assert set(left) <= set(trainings)


def test_killed_at_lines_of_the_kernel(tmp_path: Path, form: str) -> None:
    path = tmp_path / "budget.db"
    Budget.create(path, PrivacyTarget(2.0, 1e-5))
    endings, _ = run("lines", path, 1, 5000, 70 if form == SHORT else 2)
    assert Counter(endings) == {"killed": len(endings) - 1, "ended 0": 1}
    assert len(endings) > (15 if form == SHORT else 400)
    left = returned_in(tmp_path)
    states = set()
    for own in tmp_path.glob("budget.db-*[0-9]"):
        budget = Budget(own)
        tokens = {training.token for training in budget.history()}
        check_counts(budget, {token: left[token] for token in tokens & set(left)})
        states |= {(one.ended is None, len(one.releases)) for one in budget.history()}
        # It goes on as if nothing had happened.
        budget.reserve("next", killing.TARGET).settle()
    assert states >= {(True, count) for count in range(killing.RELEASES + 1)} - {(True, 3)}


def test_killed_at_any_moment(tmp_path: Path, form: str) -> None:
    budget = Budget.create(tmp_path / "budget.db", PrivacyTarget(65.0, 1e-5))
    endings, _ = run("moments", budget.path, 0, 20 if form == SHORT else 400)
    assert set(endings) == {"killed"}
    check_counts(budget, returned_in(tmp_path))
    assert any(training.ended is None for training in budget.history())


@pytest.mark.slow
def test_killed_in_real_trainings(tmp_path: Path) -> None:
    budget = Budget.create(tmp_path / "budget.db", PrivacyTarget(65.0, 1e-5))
    endings, _ = run("fits", budget.path, 0, 100)
    assert set(endings) == {"killed"}
    left = returned_in(tmp_path)
    check_counts(budget, left)
    assert len(left) > 20


def test_killed_while_it_is_made(tmp_path: Path, form: str) -> None:
    run("creations", tmp_path / "budget.db", 0, 8 if form == SHORT else 100)
    made = (tmp_path / "returned").read_text().splitlines()
    assert made
    for name in made:
        [first] = Budget(name).history()
        assert first.what == "first"
    for path in tmp_path.glob("budget.db.*[0-9]"):  # also one that was killed in the making
        try:
            budget = Budget(path)
        except BudgetFileError:
            budget = Budget.create(path, PrivacyTarget(1.0, 1e-5))
        assert budget.epsilon <= 0.5


def test_many_at_once_never_pass_the_cap(tmp_path: Path, form: str) -> None:
    budget = Budget.create(
        tmp_path / "budget.db", PrivacyTarget(0.6 if form == SHORT else 1.6, 1e-5)
    )
    endings, _ = run("crowd", budget.path, 0, 6 if form == SHORT else 12)
    assert set(endings) == {"ended 3"}  # in the end all are refused
    left = returned_in(tmp_path)
    check_counts(budget, left)
    assert budget.epsilon <= budget.cap.epsilon
    # Nothing was lost either: no other training of this size would fit, and all have ended.
    assert budget.left < killing.TARGET.epsilon
    assert all(training.ended is not None for training in budget.history())
    spent = killing.RELEASES / 4 * killing.TARGET.mu**2
    room = PrivacyTarget(budget.cap.epsilon, 1e-5).mu ** 2
    assert len(left) == 1 + math.floor((room - killing.TARGET.mu**2) / spent)


def test_no_space_left(tmp_path: Path, form: str) -> None:
    budget = Budget.create(tmp_path / "budget.db", PrivacyTarget(65.0, 1e-5))
    endings, errors = run("space", budget.path, 1, 40, 5 if form == SHORT else 1)
    assert set(endings) == {"ended 0", "ended 2"}  # a typed error, or none
    assert set(errors.split("\n")[:-1]) == {
        f"BudgetFileError: cannot write or read {budget.path}: disk I/O error"
    }
    check_counts(budget, returned_in(tmp_path))
