"""What one training has set aside: what it may commit, and how it ends."""

from pathlib import Path

import pytest

from apportion.accounts import Budget
from apportion.accounts.costs import sampled_cost
from apportion.accounts.reservation import end
from apportion.accounts.running import lock_path
from apportion.errors import BudgetExceededError
from apportion.privacy import PrivacyTarget, Record

CAP, ONE = PrivacyTarget(2.0, 1e-5), PrivacyTarget(1.0, 1e-5)


@pytest.fixture
def budget(tmp_path: Path) -> Budget:
    return Budget.create(tmp_path / "budget.db", CAP)


def record(name: str, mu: float = 0.05) -> Record:
    return Record(name, "", (1,), mu, "", 1.0)


def test_what_is_reserved_for_sampled_steps(budget: Budget) -> None:
    costs = [
        sampled_cost(0.10, 10, 0.1),
        sampled_cost(0.12, 10, 0.1),
        sampled_cost(0.14, 20, 0.1),
        sampled_cost(0.16, 10, 0.2),
    ]
    reservation = budget.reserve("x", ONE, costs)
    for steps, rate, mu in ((10, 0.1, 0.12), (20, 0.1, 0.14), (10, 0.2, 0.16)):
        assert reservation.sampled_mu(steps, rate) == pytest.approx(mu, rel=1e-14, abs=0)
    assert reservation.sampled_mu(11, 0.1) == reservation.sampled_mu(1, 1.0) == 0.0


def test_a_release_is_committed_once(budget: Budget) -> None:
    reservation = budget.reserve("x", ONE)
    reservation.commit([record("a")])
    for again in ([record("a")], [record("b"), record("a")], [record("b"), record("b")]):
        with pytest.raises(BudgetExceededError, match="released it already"):
            reservation.commit(again)
    assert [one.name for one in budget.history()[0].releases] == ["a"]


def test_who_resumes_commits_the_same_again_and_nothing_is_written(budget: Budget) -> None:
    reservation = budget.reserve("x", ONE)
    reservation.commit([record("a")])
    reservation.leave()
    resumed = budget.resume(reservation.token)
    before = budget.last_hash
    resumed.commit([record("a")])
    resumed.commit([])
    assert budget.last_hash == before
    with pytest.raises(BudgetExceededError, match="released it already"):
        resumed.commit([record("a", 0.04)])
    resumed.commit([record("a"), record("b")])
    assert [one.name for one in budget.history()[0].releases] == ["a", "b"]


def test_a_training_ends_once(budget: Budget) -> None:
    reservation = budget.reserve("x", ONE)
    lock = lock_path(budget.path, reservation.token)
    assert lock.exists()
    reservation.settle()
    assert not lock.exists()
    before = budget.last_hash
    reservation.settle()
    with reservation.file.transaction() as connection:
        end(connection, reservation.token)
        end(connection, "nobody")
    assert budget.last_hash == before


def test_what_cannot_be_ended_keeps_its_lock(budget: Budget) -> None:
    # So that whoever opens the budget later can know that it does not run any more.
    reservation = budget.reserve("x", ONE)
    moved = budget.path.rename(budget.path.with_name("moved.db"))
    with pytest.warns(RuntimeWarning, match="stays counted"):
        reservation.settle()
    assert lock_path(budget.path, reservation.token).exists()
    assert Budget(moved).history()[0].ended is None


def test_what_is_kept_is_counted_in_full(budget: Budget) -> None:
    for keep, names in ((True, ["all"]), (False, ["all"])):
        reservation = budget.reserve("x", PrivacyTarget(0.5, 1e-5))
        reservation.commit([record("a"), record("b")])
        with reservation.file.transaction() as connection:
            end(connection, reservation.token, keep=keep)
        training = budget.history()[-1]
        assert training.ended is not None
        assert [one.name for one in training.cost] == names
        spent = sum(one.mu**2 for one in training.releases)
        counted = sum(one.mu**2 for one in training.cost)
        expected = PrivacyTarget(0.5, 1e-5).mu ** 2 if keep else spent
        assert counted == pytest.approx(expected, rel=1e-9)
