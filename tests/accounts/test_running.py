"""Which trainings run, which are dead, and who may end them."""

import math
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from apportion.accounts import Budget
from apportion.accounts.running import State
from apportion.errors import BudgetExceededError, BudgetFileError, ParameterError
from apportion.privacy import Curator, PrivacyTarget, Record, UserBound

ONE = PrivacyTarget(1.0, 1e-5)
HALF = Record("a", "", (1,), ONE.mu / 2, "", 1.0)

CHILD = """
import sys
from apportion.accounts import Budget
from apportion.privacy import PrivacyTarget, Record
target = PrivacyTarget(1.0, 1e-5)
reservation = Budget(sys.argv[1]).reserve("child", target)
reservation.commit([Record("a", "", (1,), target.mu / 2, "", 1.0)])
print(reservation.token, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def budget(tmp_path: Path) -> Budget:
    return Budget.create(tmp_path / "budget.db", PrivacyTarget(2.0, 1e-5))


def child(budget: Budget) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(budget.path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_killed_training_can_be_closed_and_a_running_one_cannot(budget: Budget) -> None:
    with child(budget) as process:
        assert process.stdout is not None
        token = process.stdout.readline().strip()
        [training] = budget.history()
        assert budget.state(training) == State.running
        for unknown in (False, True):
            with pytest.raises(ParameterError, match="is running"):
                budget.close(token, unknown=unknown)
        assert budget.epsilon == pytest.approx(1.0)
        process.send_signal(signal.SIGKILL)
    assert budget.state(training) == State.dead
    assert budget.epsilon == pytest.approx(1.0)
    closed = budget.close(token[:6])
    assert (closed.token, closed.ended is not None) == (token, True)
    assert closed.releases[0].name == "a"
    assert math.isclose(closed.cost[0].mu, ONE.mu / 2)
    assert budget.state(closed) == State.ended
    with pytest.raises(ParameterError, match="has ended already"):
        budget.close(token)
    with pytest.raises(BudgetExceededError, match="has ended"):
        budget.resume(token)
    assert [path.name for path in budget.path.parent.iterdir()] == ["budget.db"]


def test_what_cannot_be_known_counts_as_running(budget: Budget) -> None:
    reservation = budget.reserve("x", ONE)
    [lock] = budget.path.parent.glob("*.lock")
    reservation.leave()
    assert budget.state(budget.history()[0]) == State.dead
    lock.unlink()
    assert budget.state(budget.history()[0]) == State.unknown
    with pytest.raises(ParameterError, match="cannot be known"):
        budget.close(reservation.token)
    assert budget.close(reservation.token, unknown=True).cost == ()


def test_a_lock_of_another_machine_says_nothing(
    budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget.reserve("x", ONE).leave()
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    assert budget.state(budget.history()[0]) == State.unknown


def test_one_that_is_closed_while_it_runs_releases_nothing_more(budget: Budget) -> None:
    """Nothing rests on the lock: whoever loses it, here by hand, is stopped by the budget."""
    curator = Curator(ONE, reservation=budget.reserve("x", ONE))
    bound = UserBound(1.0, "given")
    curator.release("a", np.zeros((2, 1), dtype=np.int64), bound, ONE.mu / 2)
    [lock] = budget.path.parent.glob("*.lock")
    lock.unlink()
    budget.close(budget.history()[0].token, unknown=True)
    with pytest.raises(BudgetExceededError, match="has ended"):
        curator.release("b", np.zeros((2, 1), dtype=np.int64), bound, ONE.mu / 2)
    assert len(curator.ledger) == 1


def test_a_training_runs_once(budget: Budget) -> None:
    reservation = budget.reserve("x", ONE)
    with pytest.raises(BudgetFileError, match="runs already"):
        budget.resume(reservation.token)
    reservation.leave()
    budget.resume(reservation.token).settle()


def test_names_that_are_none(budget: Budget) -> None:
    for letter in "bc":
        budget.reserve("x", PrivacyTarget(0.1, 1e-5), token="a" + letter * 31)
    for token, message in (
        ("", "no training"), ("xyz", "no training"), ("%", "no training"), ("a", "several trainings"),
    ):  # fmt: skip
        with pytest.raises(ParameterError, match=message):
            budget.close(token)


def test_a_training_that_is_refused_leaves_no_lock(budget: Budget) -> None:
    with pytest.raises(BudgetExceededError):
        budget.reserve("x", PrivacyTarget(3.0, 1e-5))
    budget.reserve("y", ONE).settle()
    assert [path.name for path in budget.path.parent.iterdir()] == ["budget.db"]


def test_what_nobody_holds_any_more_is_let_go(budget: Budget) -> None:
    Curator(ONE, reservation=budget.reserve("x", ONE))  # dropped at once
    assert budget.state(budget.history()[0]) == State.dead
