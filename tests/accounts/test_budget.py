"""Several trainings, one budget: what is counted, what is refused, and what is told."""

import math
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import apportion as ap
from apportion.accounts import Budget
from apportion.accounts.costs import sampled_cost, whole_cost
from apportion.errors import (
    BudgetExceededError,
    BudgetFileError,
    DataError,
    ParameterError,
)
from apportion.privacy import Curator, NoiseSource, PrivacyTarget, Record, UserBound
from apportion.privacy.ledger import total_epsilon
from apportion.recommend.preparation import Preparation
from apportion.tasks.private_fit import open_curator

CAP = PrivacyTarget(2.0, 1e-5)
ONE = PrivacyTarget(1.0, 1e-5)
BOUND = UserBound(1.0, "given")
ZEROS = np.zeros((2, 1), dtype=np.int64)
TASKS = ap.simulate_tasks(users=200, tasks=5, tasks_per_user=2)
RATINGS = ap.simulate_interactions(users=300, items=20, rows=3000)


@pytest.fixture
def budget(tmp_path: Path) -> Budget:
    return Budget.create(tmp_path / "budget.db", CAP)


def record(name: str, mu: float, delta: float = 0.0) -> Record:
    return Record(name, "", (1,), mu, "", 1.0, delta=delta)


# --- what is counted ---


def test_trainings_add_up_as_their_releases_do(budget: Budget) -> None:
    ap.MultiTaskRidge(epsilon=1.0).fit(TASKS, budget=budget)
    assert budget.epsilon == pytest.approx(1.0, rel=1e-9)
    ap.MultiTaskDescent(epsilon=0.5, steps=3).fit(TASKS, budget)
    releases = [one for training in budget.history() for one in training.releases]
    assert len(releases) == 8 + 2
    both = math.hypot(ONE.mu, PrivacyTarget(0.5, 1e-5).mu)
    assert budget.epsilon == pytest.approx(ap.epsilon_from_mu(both, 1e-5), rel=1e-9)
    assert budget.epsilon == pytest.approx(total_epsilon(releases, 1e-5), rel=1e-12)


def test_the_whole_cap_can_be_spent_and_no_more(budget: Budget) -> None:
    ap.MultiTaskRidge(epsilon=1.0).fit(TASKS, budget=budget)
    left = budget.left
    model = ap.MultiTaskRidge(epsilon=left).fit(TASKS, budget=budget)
    assert budget.epsilon == pytest.approx(2.0, rel=1e-9)
    assert budget.epsilon <= 2.0
    assert budget.left < 1e-3
    with pytest.raises(BudgetExceededError, match=r"refused a training with epsilon 0\.01"):
        model.set_params(epsilon=0.01).fit(TASKS, budget=budget)
    assert len(budget.history()) == 2


def test_a_training_is_counted_in_full_before_its_first_release(budget: Budget) -> None:
    reservation = budget.reserve("x", ONE)
    assert budget.epsilon == pytest.approx(1.0, rel=1e-9)
    with pytest.raises(BudgetExceededError):
        budget.reserve("y", PrivacyTarget(1.9, 1e-5))
    reservation.commit([record("a", ONE.mu / 2)])
    assert budget.epsilon == pytest.approx(1.0, rel=1e-9)
    reservation.settle()
    assert budget.epsilon == pytest.approx(ap.epsilon_from_mu(ONE.mu / 2, 1e-5), rel=1e-9)


def test_what_is_returned_is_committed_before(budget: Budget) -> None:
    curator = Curator(ONE, reservation=budget.reserve("x", ONE))
    curator.release("a", ZEROS, BOUND, ONE.mu / 2)
    [training] = budget.history()
    assert training.releases == tuple(curator.ledger)
    counts, ids = np.array([50, 3]), np.array([1, 2])
    target = PrivacyTarget(1.0, 1e-5, 1e-6)
    curator = Curator(target, reservation=budget.reserve("y", target))
    curator.select("counts", ids, counts, 1, target.mu / 2, 1e-6)
    assert budget.history()[1].releases == tuple(curator.ledger)


def test_nothing_is_returned_when_it_cannot_be_committed(budget: Budget) -> None:
    curator = Curator(ONE, reservation=budget.reserve("x", ONE))
    budget.path.unlink()
    with pytest.raises(BudgetFileError, match="there is no budget"):
        curator.release("a", ZEROS, BOUND, ONE.mu / 2)
    assert len(curator.ledger) == 0
    Budget.create(budget.path, CAP)  # another budget knows nothing of this training
    with pytest.raises(BudgetExceededError, match="not in the budget"):
        curator.release("a", ZEROS, BOUND, ONE.mu / 2)


def test_what_was_not_used_is_given_back_and_cannot_be_used_any_more(budget: Budget) -> None:
    curator = Curator(ONE)

    def train() -> None:
        nonlocal curator
        with open_curator(ONE, None, budget=budget) as curator:
            curator.release("a", ZEROS, BOUND, ONE.mu / 2)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train()
    assert budget.epsilon == pytest.approx(ap.epsilon_from_mu(ONE.mu / 2, 1e-5), rel=1e-9)
    with pytest.raises(BudgetExceededError, match="has ended"):
        curator.release("b", ZEROS, BOUND, ONE.mu / 2)
    reservation = budget.reserve("nothing", ONE)
    reservation.settle()
    ended = budget.history()[1].ended
    reservation.settle()
    assert budget.history()[1].ended == ended
    assert budget.history()[1].cost == ()


def test_a_training_cannot_pass_what_it_has_reserved(budget: Budget) -> None:
    reservation = budget.reserve("x", ONE)
    reservation.commit([record("a", 0.8 * ONE.mu)])
    for wrong in (
        [record("b", 0.61 * ONE.mu)],
        [record("b", 0.1, delta=1e-9)],
        [record("a", 0.1)],
        [record("b", 0.5 * ONE.mu), record("c", 0.5 * ONE.mu)],
        [Record("b", "", (1,), 0.01, "", 1.0, sampling_rate=0.5)],
    ):
        with pytest.raises(BudgetExceededError, match="refused"):
            reservation.commit(wrong)
    reservation.commit([record("b", 0.6 * ONE.mu)])
    assert [one.name for one in budget.history()[0].releases] == ["a", "b"]


def test_selections_take_their_delta_off_the_cap(budget: Budget) -> None:
    target = PrivacyTarget(0.1, 1e-5, selection_delta=4e-6)
    for _ in range(2):
        reservation = budget.reserve("x", target)
        reservation.commit([record("counts", target.mu / 2, 4e-6)])
        reservation.settle()
    assert budget.epsilon == pytest.approx(
        ap.epsilon_from_mu(math.sqrt(2) * target.mu / 2, 2e-6), rel=1e-9
    )
    with pytest.raises(BudgetExceededError):
        budget.reserve("x", target)  # no delta is left for it, whatever its epsilon
    budget.reserve("x", PrivacyTarget(0.1, 1e-5))


def test_a_training_goes_on_under_its_own_key(budget: Budget) -> None:
    reservation = budget.reserve("x", ONE)
    reservation.commit([record("a", 0.8 * ONE.mu)])
    reservation.leave()
    again = budget.resume(reservation.token)
    again.commit([record("a", 0.8 * ONE.mu), record("b", 0.6 * ONE.mu)])
    assert [one.name for one in budget.history()[0].releases] == ["a", "b"]
    with pytest.raises(BudgetExceededError):  # the name again, but not the same
        again.commit([record("a", 0.1 * ONE.mu)])
    again.settle()
    with pytest.raises(BudgetExceededError, match="has ended"):
        budget.resume(reservation.token)


def test_a_reservation_knows_its_noise_key(budget: Budget) -> None:
    # Otherwise hundreds of views of one release, each with fresh noise, would cost one.
    key = bytes(range(32))
    reservation = budget.reserve("x", ONE)
    first = Curator(ONE, NoiseSource.from_key(key), reservation)
    first.release("a", ZEROS, BOUND, 0.1)
    reservation.leave()
    for noise in (None, NoiseSource.from_key(bytes(32))):
        resumed = budget.resume(reservation.token)
        with pytest.raises(BudgetExceededError, match="another noise key"):
            Curator(ONE, noise, resumed)
        resumed.leave()
    again = Curator(ONE, NoiseSource.from_key(key), budget.resume(reservation.token))
    again.release("a", ZEROS, BOUND, 0.1)
    assert [one.name for one in budget.history()[0].releases] == ["a"]
    with pytest.raises(BudgetExceededError, match="another noise key"):  # nor while it is fresh
        Curator(ONE, NoiseSource(), reservation)


def test_a_budget_does_not_hold_the_key_itself(budget: Budget) -> None:
    key = bytes(range(32))
    reservation = budget.reserve("x", ONE)
    Curator(ONE, NoiseSource.from_key(key), reservation)
    other = budget.reserve("y", PrivacyTarget(0.1, 1e-5))
    Curator(PrivacyTarget(0.1, 1e-5), NoiseSource.from_key(key), other)
    digests = [training.key for training in budget.history()]
    assert len(set(digests)) == 2  # also whether two trainings share a key stays unknown
    assert all(digests)
    assert key.hex() not in budget.path.read_bytes().decode("latin-1")


# --- estimators ---


@pytest.mark.slow  # the accounting of sampled users takes its time
def test_sampled_users_are_reserved_as_they_are_spent(tmp_path: Path) -> None:
    budget = Budget.create(tmp_path / "budget.db", PrivacyTarget(1.5, 1e-5))
    model = ap.MultiTaskDescent(epsilon=1.0, steps=ap.Steps(5, sampling_rate=0.2))
    with mock.patch.object(Budget, "reserve", autospec=True, side_effect=Budget.reserve) as spy:
        model.fit(TASKS, budget=budget)
    reserved = spy.call_args.args[3]
    assert total_epsilon(reserved, 1e-5) == pytest.approx(1.0, rel=2e-3)
    [training] = budget.history()
    assert [one.name for one in training.releases] == ["counts", "gradients"]
    assert training.releases[1].sampling_rate == 0.2
    assert budget.epsilon == pytest.approx(model.privacy.epsilon, rel=1e-6)
    assert budget.epsilon < ap.epsilon_from_mu(training.releases[1].mu, 1e-5)
    with pytest.raises(BudgetExceededError):
        budget.reserve("x", PrivacyTarget(1.3, 1e-5))
    budget.reserve("x", PrivacyTarget(1.0, 1e-5))
    with pytest.raises(ParameterError, match="no cost that is known beforehand"):
        ap.MultiTaskDescent(
            steps=ap.Steps("theory", users=200, sampling_rate=0.2),
            allocation=ap.AdaptiveWeights(counts=ap.PublicCounts([80] * 5)),
        ).fit(TASKS, budget=budget)  # fmt: skip


def test_a_reservation_for_sampled_users_is_for_these_steps(budget: Budget) -> None:
    reservation = budget.reserve("x", ONE, [sampled_cost(0.5, 10, 0.1)])
    for wrong in (
        Record("g", "", (1,), 0.5 / math.sqrt(10), "", 1.0, steps=10, sampling_rate=0.2),
        Record("g", "", (1,), 0.5 / math.sqrt(11), "", 1.0, steps=11, sampling_rate=0.1),
        Record("g", "", (1,), 0.5001 / math.sqrt(10), "", 1.0, steps=10, sampling_rate=0.1),
        record("g", 0.01),
    ):
        with pytest.raises(BudgetExceededError):
            reservation.commit([wrong])
    step = 0.5 / math.sqrt(10)
    reservation.commit([Record("g", "", (1,), step, "", 1.0, steps=10, sampling_rate=0.1)])
    with pytest.raises(BudgetExceededError):
        reservation.commit([Record("h", "", (1,), step, "", 1.0, steps=10, sampling_rate=0.1)])


def test_a_classifier_pays_too(budget: Budget) -> None:
    model = ap.MultiTaskClassifier(epsilon=1.0, steps=3).fit(TASKS, budget=budget)
    assert budget.epsilon == pytest.approx(model.privacy.epsilon, rel=1e-9)


@pytest.mark.parametrize("catalog", ["public", "private"])
def test_a_preparation_is_paid_once(tmp_path: Path, catalog: str) -> None:
    budget = Budget.create(tmp_path / "budget.db", PrivacyTarget(20.0, 1e-5))
    model = ap.MatrixFactorization(2, sweeps=1, epsilon=5.0, catalog=catalog)
    first = model.prepare(RATINGS, budget=budget)
    assert budget.epsilon == pytest.approx(first.ledger.epsilon(1e-5), rel=1e-9)
    model.fit(RATINGS, preparation=Preparation.from_json(first.to_json()), budget=budget)
    assert budget.epsilon == pytest.approx(5.0, rel=1e-9)
    assert budget.epsilon == pytest.approx(model.privacy.epsilon, rel=1e-9)
    names = [[one.name for one in training.releases] for training in budget.history()]
    assert names[0] + names[1] == [one.name for one in model.privacy.ledger]
    # Again from the same: only the rest is paid again.
    rest = [one for one in model.privacy.ledger if one.name not in names[0]]
    model.fit(RATINGS, preparation=first, budget=budget)
    everything = [*model.privacy.ledger, *rest]
    assert budget.epsilon == pytest.approx(total_epsilon(everything, 1e-5), rel=1e-9)


def test_a_preparation_that_nobody_paid_is_paid_with_the_training(tmp_path: Path) -> None:
    budget = Budget.create(tmp_path / "budget.db", PrivacyTarget(20.0, 1e-5))
    other = Budget.create(tmp_path / "other.db", PrivacyTarget(20.0, 1e-5))
    model = ap.MatrixFactorization(2, sweeps=1, epsilon=5.0)
    for preparation in (model.prepare(RATINGS), model.prepare(RATINGS, budget=other)):
        model.fit(RATINGS, preparation=preparation, budget=budget)
        assert [one.name for one in budget.history()[-1].releases] == [
            one.name for one in model.privacy.ledger
        ]
    mu = PrivacyTarget(5.0, 1e-5).mu
    assert budget.epsilon == pytest.approx(ap.epsilon_from_mu(mu * math.sqrt(2), 1e-5), rel=1e-9)


def test_a_preparation_is_known_by_its_releases(tmp_path: Path) -> None:
    budget = Budget.create(tmp_path / "budget.db", PrivacyTarget(20.0, 1e-5))
    model = ap.MatrixFactorization(2, sweeps=1, epsilon=5.0)
    paid = model.prepare(RATINGS, budget=budget)
    assert budget.holds(paid.paid, paid.ledger)
    assert not budget.holds(paid.paid, list(paid.ledger)[:-1])
    assert not budget.holds(None, paid.ledger)
    assert not budget.holds("0" * 32, paid.ledger)
    running = budget.reserve("x", PrivacyTarget(5.0, 1e-5))
    running.commit(list(paid.ledger)[:1])
    assert not budget.holds(running.token, list(paid.ledger)[:1])


def test_what_fails_early_costs_nothing(budget: Budget) -> None:
    model = ap.MatrixFactorization(2, sweeps=1, epsilon=1.0)
    other = ap.MatrixFactorization(2, sweeps=1, epsilon=0.9).prepare(RATINGS)
    with pytest.raises(ParameterError, match="another epsilon"):
        model.fit(RATINGS, preparation=other, budget=budget)
    assert budget.epsilon == 0
    with pytest.raises(DataError):
        ap.MultiTaskRidge().fit(RATINGS, budget=budget)
    assert budget.history() == []


def test_what_is_not_private_is_not_paid(budget: Budget) -> None:
    for estimator, data in (
        (ap.MultiTaskRidge, TASKS),
        (ap.MultiTaskDescent, TASKS),
        (ap.MultiTaskClassifier, TASKS),
        (ap.MatrixFactorization, RATINGS),
    ):
        with pytest.raises(ParameterError, match="NOT PRIVATE"):
            estimator(noise_seed=0).fit(data, budget=budget)
        with pytest.raises(ParameterError, match="without privacy"):
            estimator(epsilon=math.inf).fit(data, budget=budget)
        with pytest.raises(ParameterError, match="budget must be a Budget, got a str"):
            estimator().fit(data, budget="budget.db")
    with pytest.raises(ParameterError, match="NOT PRIVATE"):
        ap.MatrixFactorization(noise_seed=0).prepare(RATINGS, budget=budget)
    seeded = ap.MatrixFactorization(noise_seed=0).prepare(RATINGS)
    with pytest.raises(ParameterError, match="no budget pays"):
        ap.MatrixFactorization().fit(RATINGS, preparation=seeded, budget=budget)
    assert budget.history() == []
    with pytest.raises(ParameterError, match="NOT PRIVATE"):
        Curator(ONE, NoiseSource.from_seed(0), budget.reserve("x", ONE))


# --- the file ---


def test_a_file_is_opened_again_with_its_cap(budget: Budget) -> None:
    budget.set_aside("elsewhere", ONE)
    for again in (Budget(budget.path), Budget(str(budget.path), timeout=1)):
        assert (again.cap, again.id) == (CAP, budget.id)
        assert again.epsilon == budget.epsilon == pytest.approx(1.0, rel=1e-9)
    assert budget.history()[0].ended is not None
    assert budget.history()[0].cost == whole_cost(ONE)


def test_the_file_is_durable(budget: Budget) -> None:
    with budget._file.transaction() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        for name in ("fullfsync", "checkpoint_fullfsync"):
            assert connection.execute(f"PRAGMA {name}").fetchone() == (1,)
    assert {path.name for path in budget.path.parent.iterdir()} == {"budget.db"}


@pytest.mark.parametrize(
    ("cap", "message"),
    [
        (PrivacyTarget(math.inf, 1e-5), "finite epsilon"),
        (PrivacyTarget(1.0, 1e-5, 1e-6), "one delta"),
    ],
)
def test_caps_that_are_none(tmp_path: Path, cap: PrivacyTarget, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Budget.create(tmp_path / "budget.db", cap)
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_no_budget(tmp_path: Path) -> None:
    text, empty, other, newer, damaged = (tmp_path / name for name in "abcde")
    text.write_text("no database at all\n" * 100)
    empty.touch()
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE x (y)")
    connection.close()
    Budget.create(newer, CAP)
    with sqlite3.connect(newer) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    Budget.create(damaged, CAP).set_aside("x", ONE)
    with sqlite3.connect(damaged) as connection:
        connection.execute(
            """UPDATE events SET body = '{"cost": [{"name": "a"}]}' WHERE number = 2"""
        )
    connection.close()
    before = other.read_bytes()
    for path, message in (
        (text, "is not a budget, or damaged"),
        (empty, "is not a budget$"),
        (other, "is not a budget$"),
        (newer, r"a budget of format 99, .* needs apportion 0\.1\.0 or later"),
        (tmp_path, "is a folder"),
        (tmp_path / "none.db", "there is no budget"),
        (tmp_path / "none" / "budget.db", "there is no folder"),
    ):
        with pytest.raises(BudgetFileError, match=message):
            Budget(path)
        if path not in (empty, tmp_path / "none.db"):
            with pytest.raises((BudgetFileError, ParameterError)):
                Budget.create(path, CAP)
    assert other.read_bytes() == before
    assert Budget.create(empty, CAP).epsilon == 0  # an empty file is as good as none
    for attempt in (Budget.history, lambda one: one.epsilon, lambda one: one.reserve("x", ONE)):
        with pytest.raises(BudgetFileError, match="event 2 is not what was written there"):
            attempt(Budget(damaged))


def test_a_file_cut_short_is_refused(budget: Budget) -> None:
    budget.set_aside("x", ONE)
    content = budget.path.read_bytes()
    for length in (100, 4096, 8192, len(content) - 4096):
        budget.path.write_bytes(content[:length])
        with pytest.raises(BudgetFileError):
            Budget(budget.path).reserve("x", ONE)


def test_a_lock_is_waited_for_and_told(budget: Budget) -> None:
    with sqlite3.connect(budget.path, isolation_level=None) as connection:
        connection.execute("BEGIN IMMEDIATE")
        impatient = Budget(budget.path, timeout=0.1)  # reading does not wait
        assert impatient.epsilon == 0
        with pytest.raises(BudgetFileError, match=r"locked by another process for 0\.1 s"):
            impatient.reserve("x", ONE)
        connection.execute("ROLLBACK")
    connection.close()
    impatient.reserve("x", ONE)


def test_a_full_disk_is_told(budget: Budget) -> None:
    reservation = budget.reserve("x", ONE)
    plain: Any = sqlite3.connect

    def full(*arguments: object, **options: object) -> sqlite3.Connection:
        connection = plain(*arguments, **options)
        connection.execute("PRAGMA max_page_count = 1")  # no page more than there are
        return connection

    curator = Curator(ONE, reservation=reservation)
    long = UserBound(1.0, "x" * 10_000)
    with (
        mock.patch.object(sqlite3, "connect", full),
        pytest.raises(BudgetFileError, match="the disk is full"),
    ):
        curator.release("a", ZEROS, long, ONE.mu / 2)
    assert len(curator.ledger) == 0
    assert budget.history()[0].releases == ()


def test_a_give_back_that_fails_leaves_the_model_and_the_count(budget: Budget) -> None:
    reservation = budget.reserve("x", ONE)
    Curator(ONE, reservation=reservation).release("a", ZEROS, BOUND, ONE.mu / 2)
    moved = budget.path.rename(budget.path.with_name("moved.db"))
    with pytest.warns(RuntimeWarning, match="stays counted"):
        reservation.settle()
    assert Budget(moved).epsilon == pytest.approx(1.0, rel=1e-9)


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
@pytest.mark.parametrize(("file", "folder"), [(0o444, 0o777), (0o666, 0o555), (0o444, 0o555)])
def test_read_only(tmp_path: Path, file: int, folder: int) -> None:
    place = tmp_path / "place"
    place.mkdir()
    budget = Budget.create(place / "budget.db", CAP)
    budget.set_aside("x", ONE)
    budget.path.chmod(file)
    place.chmod(folder)
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o055)
    script = (
        "import os, sys; import apportion as ap; os.setuid(65534)\n"
        "try: ap.Budget(sys.argv[1]).reserve('x', ap.PrivacyTarget(0.1, 1e-5))\n"
        "except ap.BudgetFileError as error: print(error)"
    )
    told = subprocess.run(
        [sys.executable, "-c", script, str(budget.path)], capture_output=True, text=True, check=True
    )
    assert ("read-only" in told.stdout) or ("Permission denied" in told.stdout), told.stdout
    assert len(budget.history()) == 1
