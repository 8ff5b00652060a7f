"""How trainings end in a budget: closed by hand, or settled by what their checkpoint holds."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from apportion.accounts import Budget
from apportion.accounts.running import State, lock_path
from apportion.errors import BudgetExceededError, BudgetFileError, ParameterError
from apportion.privacy import PrivacyTarget, Record
from apportion.privacy.ledger import total_epsilon

ONE = PrivacyTarget(1.0, 1e-5)
HALF = Record("a", "", (1,), ONE.mu / 2, "", 1.0)
OTHER = Record("a", "", (1,), ONE.mu / 4, "", 1.0)


@pytest.fixture
def budget(tmp_path: Path) -> Budget:
    return Budget.create(tmp_path / "budget.db", PrivacyTarget(2.0, 1e-5))


def left_behind(budget: Budget) -> str:
    """A training that has committed one release and runs no more; its name."""
    reservation = budget.reserve("x", ONE)
    reservation.commit([HALF])
    reservation.leave()
    return reservation.token


def files(budget: Budget) -> list[str]:
    return sorted(path.name for path in budget.path.parent.iterdir())


# --- settled by a checkpoint ---


def test_what_checkpoint_and_budget_agree_on_is_counted(budget: Budget) -> None:
    token = left_behind(budget)
    budget.settle(token, [HALF])  # a warning would be an error here
    [training] = budget.history()
    assert budget.state(training) == State.ended
    assert [one.mu for one in training.cost] == [HALF.mu]
    assert files(budget) == ["budget.db"]


@pytest.mark.parametrize("records", [[], [OTHER], [HALF, Record("b", "", (1,), 0.1, "", 1.0)]])
def test_where_they_differ_the_whole_reservation_stays_counted(
    budget: Budget, records: list[Record]
) -> None:
    token = left_behind(budget)
    with pytest.warns(RuntimeWarning, match="other releases of it than its checkpoint"):
        budget.settle(token, records)
    [training] = budget.history()
    assert budget.state(training) == State.ended
    assert budget.epsilon == pytest.approx(1.0, rel=1e-9)
    assert files(budget) == ["budget.db"]


def test_a_training_that_the_budget_does_not_know_settles_nothing(budget: Budget) -> None:
    with pytest.warns(RuntimeWarning, match="other releases of it than its checkpoint"):
        budget.settle("nobody", [])
    assert budget.history() == []
    assert files(budget) == ["budget.db"]


def test_a_training_that_runs_is_not_settled(budget: Budget) -> None:
    reservation = budget.reserve("x", ONE)
    reservation.commit([HALF])
    with pytest.warns(RuntimeWarning, match="runs already"):
        budget.settle(reservation.token, [HALF])
    assert budget.history()[0].ended is None
    assert lock_path(budget.path, reservation.token).exists()


@pytest.mark.parametrize("how", ["settle", "close"])
def test_an_end_that_cannot_be_written_keeps_the_lock(budget: Budget, how: str) -> None:
    # So that whoever opens the budget later can know that it does not run any more.
    token = left_behind(budget)
    impatient = Budget(budget.path, timeout=0.05)
    with sqlite3.connect(budget.path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        if how == "settle":
            with pytest.warns(RuntimeWarning, match="locked by another process"):
                impatient.settle(token, [HALF])
        else:
            with pytest.raises(BudgetFileError, match="locked by another process"):
                impatient.close(token)
        other.execute("ROLLBACK")
    other.close()
    assert lock_path(budget.path, token).exists()
    [training] = budget.history()
    assert budget.state(training) == State.dead  # nobody holds its lock
    assert budget.close(token).ended is not None
    assert files(budget) == ["budget.db"]


def test_history_waits_for_nobody(budget: Budget) -> None:
    token = left_behind(budget)
    impatient = Budget(budget.path, timeout=0.05)
    with sqlite3.connect(budget.path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        assert [one.token for one in impatient.history()] == [token]
        assert impatient.knows(token)
        assert impatient.last_hash == budget.last_hash
        other.execute("ROLLBACK")
    other.close()


def test_a_cap_can_be_spent_to_its_last_digit(tmp_path: Path) -> None:
    whole = PrivacyTarget(total_epsilon([HALF], 1e-5), 1e-5)
    budget = Budget.create(tmp_path / "budget.db", whole)
    budget.reserve("x", ONE, [HALF]).leave()
    assert budget.epsilon == whole.epsilon
    with pytest.raises(BudgetExceededError):
        budget.reserve("y", ONE, [Record("a", "", (1,), 1e-6, "", 1.0)])


def test_a_name_is_taken_once(budget: Budget) -> None:
    budget.reserve("x", PrivacyTarget(0.1, 1e-5), token="ab").settle()
    with pytest.raises(ParameterError, match="has a training named ab already"):
        budget.reserve("y", PrivacyTarget(0.1, 1e-5), token="ab")
    assert [one.what for one in budget.history()] == ["x"]


# --- what is given ---


@pytest.mark.parametrize("timeout", [-1, float("nan"), 1.001e6, "soon"])
def test_times_that_are_none(budget: Budget, timeout: Any) -> None:
    with pytest.raises(ParameterError, match="timeout"):
        Budget(budget.path, timeout=timeout)
    with pytest.raises(ParameterError, match="timeout"):
        Budget.create(budget.path.with_name("second.db"), ONE, timeout=timeout)
    assert files(budget) == ["budget.db"]


@pytest.mark.parametrize("timeout", [0, 1e6])
def test_who_waits_for_nobody_and_who_waits_for_days(tmp_path: Path, timeout: float) -> None:
    made = Budget.create(tmp_path / "budget.db", ONE, timeout=timeout)
    assert Budget(made.path, timeout=timeout).epsilon == 0


@pytest.mark.parametrize("label", [3, None, "x" * 201])
def test_labels_that_are_none(budget: Budget, label: Any) -> None:
    with pytest.raises(ParameterError, match="a text of at most 200 letters"):
        Budget(budget.path, label=label)


def test_the_longest_label_is_kept(budget: Budget) -> None:
    Budget(budget.path, label="x" * 200).reserve("x", ONE).settle()
    assert budget.history()[0].label == "x" * 200


@pytest.mark.parametrize("cap", [2.0, (2.0, 1e-5), None])
def test_caps_of_another_type(tmp_path: Path, cap: Any) -> None:
    with pytest.raises(ParameterError, match="cap must be a PrivacyTarget, got a"):
        Budget.create(tmp_path / "budget.db", cap)
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_private_is_not_set_aside(budget: Budget) -> None:
    with pytest.raises(ParameterError, match="no budget is enough"):
        budget.set_aside("elsewhere", PrivacyTarget(float("inf"), 1e-5))
    assert budget.history() == []


def test_names_are_long_enough_that_nobody_guesses_them(budget: Budget) -> None:
    budget.set_aside("elsewhere", PrivacyTarget(0.5, 1e-5))
    budget.reserve("here", PrivacyTarget(0.5, 1e-5)).settle()
    names = [budget.id, *(one.token for one in budget.history())]
    assert [len(bytes.fromhex(name)) for name in names] == [16, 16, 16]
    assert len(set(names)) == 3


def test_what_a_budget_says_of_itself(budget: Budget) -> None:
    assert repr(budget) == f"Budget({str(budget.path)!r}, cap of epsilon=2, delta=1e-05)"
    budget.set_aside("elsewhere", PrivacyTarget(0.5, 1e-5))
    card = budget._repr_html_()
    assert "elsewhere" in card
    assert "1e-05" in card


def test_a_model_is_noted_with_the_training_that_paid_for_it(budget: Budget) -> None:
    token = left_behind(budget)
    budget.note_saved(token, "abc", "model")
    assert (budget.history()[0].digest, budget.history()[0].output) == ("abc", "model")
    with pytest.raises(BudgetFileError, match="training nobody is not in the budget"):
        budget.note_saved("nobody", "abc", "model")
    assert budget.knows(token)
    assert not budget.knows("nobody")
