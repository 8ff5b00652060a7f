"""A training that is killed and gone on with: the same model, the same ledger, nothing spent twice."""

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.accounts.reservation import Reservation
from apportion.audit.observer import observed
from apportion.errors import CheckpointError, ParameterError
from apportion.tasks import private_fit
from tests.accounts.test_log import rewrite, rows
from tests.recommend import killed

MODELS = tuple(killed.MODELS)


def play(folder: Path, games: list[list[Any]]) -> dict[str, dict[str, int]]:
    """How often processes were killed, and so on; see ``killed.main``."""
    root = Path(__file__).parents[2]
    path = os.pathsep.join(str(place) for place in (Path(ap.__file__).parents[1], root))
    result = subprocess.run(
        [sys.executable, killed.__file__, str(folder), json.dumps(games)],
        env={**os.environ, "PYTHONPATH": path, "APPORTION_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    ends: dict[str, dict[str, int]] = json.loads(result.stdout)
    return ends


# --- kill -9 ---


def test_kills_disks_that_are_full_and_two_at_once(tmp_path: Path) -> None:
    games: list[list[Any]] = [["again_and_again", model, 1, 3] for model in MODELS]
    games += [["each_operation", "ratings", 17], ["full_disk", 23], ["two_at_once", 1]]
    ends = play(tmp_path, [*games, ["files_too_large"]])
    kills = sum(count[killed.KILLED] for count in ends.values())
    # Some kills are at random moments: on a fast machine more trainings end before theirs.
    assert kills >= 8, ends
    assert ends["full_disk"][killed.REFUSED] >= 2, ends
    assert ends["files_too_large"][killed.REFUSED] == 2, ends


@pytest.mark.slow
def test_hundreds_of_kills(tmp_path: Path) -> None:
    games: list[list[Any]] = [["each_operation", model, 1] for model in MODELS]
    games += [["again_and_again", MODELS[seed % 6], seed, 8] for seed in range(36)]
    ends = play(tmp_path, [*games, ["full_disk", 1], ["two_at_once", 20]])
    assert sum(count[killed.KILLED] for count in ends.values()) >= 600, ends


# --- going on, in one process ---


class Crash(BaseException):
    """Like a kill, for this process to survive."""


@pytest.fixture(scope="module")
def data() -> ap.Interactions:
    return killed.data()


def model(**parameters: Any) -> ap.MatrixFactorization:
    fixed = {"factors": 3, "sweeps": 3, "epsilon": 5.0}
    return ap.MatrixFactorization(
        **{**fixed, "offsets": ap.Offsets(intercept_share=0.2), **parameters}
    )


def crash(folder: Path, data: ap.Interactions, sweep: int = 2, **parameters: Any) -> Path:
    """A training that was stopped after this sweep."""

    def stop(done: int, total: int) -> None:
        if done == sweep:
            raise Crash

    with pytest.raises(Crash):
        model(**parameters).fit(data, stop, checkpoint=folder)
    return folder


def test_finished_sweeps_are_not_repeated(tmp_path: Path, data: ap.Interactions) -> None:
    crash(tmp_path / "c", data)
    told: list[tuple[int, int]] = []
    with observed() as seen:
        went_on = model().fit(data, lambda *sweeps: told.append(sweeps), checkpoint=tmp_path / "c")
    swept = [name for name in seen.blocks if name.startswith("sweep")]
    assert swept == ["sweep 3 gramian", "sweep 3"]
    assert told == [(2, 3), (3, 3)]
    assert round(went_on.privacy.epsilon, 6) == 5.0
    assert went_on.privacy.private


def test_going_on_from_a_preparation(tmp_path: Path, data: ap.Interactions) -> None:
    preparation = model().prepare(data)
    for _ in range(2):
        with pytest.raises(Crash):
            model().fit(data, raise_crash, preparation, checkpoint=tmp_path / "c")
    other = replace(preparation, users=preparation.users + 1)
    with pytest.raises(CheckpointError, match="another preparation"):
        model().fit(data, None, other, checkpoint=tmp_path / "c")
    with pytest.raises(CheckpointError, match="another preparation"):
        model().fit(data, checkpoint=tmp_path / "c")
    model().fit(data, None, preparation, checkpoint=tmp_path / "c")


def raise_crash(done: int, total: int) -> None:
    raise Crash


def changed(data: ap.Interactions) -> ap.Interactions:
    """One user rates one item otherwise."""
    other = data.take(np.ones(len(data.by_user.other), dtype=bool))
    rating = np.array(data.by_user.rating)
    rating[7] = 6 - rating[7] if rating[7] != 3 else 4
    other.by_user = replace(other.by_user, rating=rating)
    return other


def test_other_data_is_refused_before_noise(tmp_path: Path, data: ap.Interactions) -> None:
    crash(tmp_path / "c", data)
    fewer = data.take(np.arange(len(data.by_user.other)) > 0)
    with observed() as seen:
        for other in (changed(data), fewer):
            with pytest.raises(CheckpointError, match="other data"):
                model().fit(other, checkpoint=tmp_path / "c")
    assert not seen.blocks


class Blind(ap.Interactions):
    """Whose fingerprint is that of any other."""

    def contents(self) -> list[Any]:
        return []


def blind(data: ap.Interactions) -> ap.Interactions:
    found = data.take(np.ones(len(data.by_user.other), dtype=bool))
    found.__class__ = Blind
    return found


def test_sums_that_differ_are_refused_whatever_the_reason(
    tmp_path: Path, data: ap.Interactions
) -> None:
    """As if fingerprints were blind, and sweep 1 had been released with other data."""
    crash(tmp_path / "d", blind(data), sweep=1)
    with pytest.raises(CheckpointError, match=r"'rating moments' was computed otherwise"):
        model().fit(blind(changed(data)), checkpoint=tmp_path / "d")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 6.0),
        ("delta", 1e-6),
        ("factors", 4),
        ("sweeps", 4),
        ("seed", 1),
        ("allocation", ap.TailSampling(3)),
        ("catalog", ap.MostFrequent(0.5)),
        ("regularization", 0.06),
        ("solver", ap.SufficientStatistics(clip="row")),
        ("bounds", ap.Bounds(feature=0.26)),
        ("offsets", ap.Offsets(intercept_share=0.21)),
        ("shares", ap.Shares(weights=0.03)),
    ],
)
def test_other_parameters_are_refused(
    tmp_path: Path, data: ap.Interactions, name: str, value: Any
) -> None:
    crash(tmp_path / "c", data, sweep=1)
    with pytest.raises(CheckpointError, match=f"another {name}"):
        model(**{name: value}).fit(data, checkpoint=tmp_path / "c")


def test_another_version_is_refused(
    tmp_path: Path, data: ap.Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash(tmp_path / "c", data)
    monkeypatch.setattr(private_fit, "__version__", "99")
    with pytest.raises(CheckpointError, match=r"another version of apportion: .*, not 99"):
        model().fit(data, checkpoint=tmp_path / "c")
    monkeypatch.undo()

    class Other(ap.CpuEngine):
        def identity(self) -> dict[str, str]:
            return {**super().identity(), "numpy": "1.0"}

    with pytest.raises(CheckpointError, match=r"another numpy: .*, not 1\.0"):
        model().set_params(engine=Other()).fit(data, checkpoint=tmp_path / "c")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("OPENBLAS_CORETYPE", "Prescott", "another BLAS"),
        ("NPY_DISABLE_CPU_FEATURES", "AVX512F", "another NumPy without"),
    ],
)
def test_other_instructions_of_the_same_processor_are_refused(
    tmp_path: Path, data: ap.Interactions, name: str, value: str, message: str
) -> None:
    """They round otherwise: told before anything is computed, not by the first sum that differs."""
    crash(tmp_path / "c", data, sweep=1)
    script = (
        "import sys; import apportion as ap; from tests.recommend import test_checkpoint as test\n"
        "try: test.model().fit(test.killed.data(), checkpoint=sys.argv[1])\n"
        "except ap.CheckpointError as error: print(error)"
    )
    root = Path(__file__).parents[2]
    path = os.pathsep.join(str(place) for place in (Path(ap.__file__).parents[1], root))
    told = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "c")],
        env={**os.environ, "PYTHONPATH": path, name: value},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert message in told.stdout, told.stdout


def test_another_engine_is_refused(tmp_path: Path, data: ap.Interactions) -> None:
    # Their sums may differ in the last bits: the same noise would show by how much.
    crash(tmp_path / "c", data)
    with pytest.raises(CheckpointError, match=r"another engine: cpu, not reference"):
        model(engine="reference").fit(data, checkpoint=tmp_path / "c")
    model(engine="cpu").fit(data, checkpoint=tmp_path / "c")  # as "auto" was


def test_a_finished_training_gives_its_model_again(tmp_path: Path, data: ap.Interactions) -> None:
    first = model(factors="auto").fit(data, checkpoint=tmp_path / "c")
    with pytest.warns(UserWarning, match="is finished") as warned:
        again = model(factors="auto").fit(data, checkpoint=tmp_path / "c")
    assert warned[0].filename == __file__
    for name, trained in (("first", first), ("again", again)):
        trained.save(tmp_path / name)
    files = [
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("first", "again")
    ]
    assert files[0] == files[1]


def test_no_fixed_noise(tmp_path: Path, data: ap.Interactions) -> None:
    with pytest.raises(ParameterError, match="noise_seed"):
        model(noise_seed=1).fit(data, checkpoint=tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_without_privacy_it_stays_not_private(tmp_path: Path, data: ap.Interactions) -> None:
    crash(tmp_path / "c", data, epsilon=math.inf)
    went_on = model(epsilon=math.inf).fit(data, checkpoint=tmp_path / "c")
    assert not went_on.privacy.private
    np.testing.assert_array_equal(went_on.items, model(epsilon=math.inf).fit(data).items)


# --- what an error is told ---


def notes(data: ap.Interactions, **fit: Any) -> list[str]:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        model(**fit.pop("model", {})).fit(data, interrupt, **fit)
    return getattr(caught.value, "__notes__", [])


def test_an_interrupted_training_says_what_was_spent(data: ap.Interactions) -> None:
    [spent] = notes(data)
    assert spent.startswith("spent before this: epsilon = 3.")
    assert "delta = 1e-05 (releases: 7)" in spent
    assert notes(data, model={"epsilon": math.inf}) == []
    assert notes(data, model={"noise_seed": 1}) == []


def test_an_interrupted_training_says_how_to_go_on(tmp_path: Path, data: ap.Interactions) -> None:
    spent, how = notes(data, checkpoint=tmp_path / "c")
    assert "spent before this" in spent
    assert f"checkpoint {tmp_path / 'c'}, resumes" in how


def test_a_failed_training_says_what_was_spent() -> None:
    lonely = ap.Interactions(["ann"], ["x"], [5], rating_range=(1, 5))
    with pytest.raises(ap.DataError, match="no item has enough users") as caught:
        model(catalog="private").fit(lonely)
    [spent] = caught.value.__notes__
    assert "spent before this: epsilon = " in spent


# --- with a budget ---


def test_a_budget_pays_once(tmp_path: Path, data: ap.Interactions) -> None:
    budget = ap.Budget.create(tmp_path / "budget.db", cap=ap.PrivacyTarget(6.0, 1e-5))
    for _ in range(2):
        with pytest.raises(Crash):
            model().fit(data, raise_crash, budget=budget, checkpoint=tmp_path / "c")
        # It may be gone on with: all of it stays reserved.
        assert budget.epsilon == pytest.approx(5.0)
        [training] = budget.history()
        assert training.ended is None
    finished = model().fit(data, budget=budget, checkpoint=tmp_path / "c")
    [training] = budget.history()
    assert training.ended is not None
    assert training.releases == tuple(finished.privacy.ledger)
    assert budget.epsilon == pytest.approx(5.0)
    with pytest.warns(UserWarning, match="is finished"):
        model().fit(data, budget=budget, checkpoint=tmp_path / "c")
    assert len(budget.history()) == 1
    with pytest.raises(ap.BudgetExceededError):
        model().fit(data, budget=budget, checkpoint=tmp_path / "other")


def test_a_reservation_is_settled_where_a_finished_training_was_killed(
    tmp_path: Path, data: ap.Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = ap.Budget.create(tmp_path / "budget.db", cap=ap.PrivacyTarget(6.0, 1e-5))
    monkeypatch.setattr(Reservation, "settle", raise_crash_now)
    with pytest.raises(Crash):
        model().fit(data, budget=budget, checkpoint=tmp_path / "c")
    monkeypatch.undo()
    assert budget.history()[0].ended is None
    with pytest.warns(UserWarning, match="is finished"):
        model().fit(data, budget=budget, checkpoint=tmp_path / "c")
    assert budget.history()[0].ended is not None


def test_without_a_checkpoint_an_error_gives_back_what_was_not_spent(
    tmp_path: Path, data: ap.Interactions
) -> None:
    budget = ap.Budget.create(tmp_path / "budget.db", cap=ap.PrivacyTarget(6.0, 1e-5))
    with pytest.raises(Crash):
        model().fit(data, raise_crash, budget=budget, checkpoint=False)
    [training] = budget.history()
    assert training.ended is not None
    assert 0 < budget.epsilon < 4


def raise_crash_now(self: Reservation) -> None:
    del self
    raise Crash


def test_a_finished_training_that_another_budget_paid_is_not_taken_for_paid(
    tmp_path: Path, data: ap.Interactions
) -> None:
    budget = ap.Budget.create(tmp_path / "budget.db", cap=ap.PrivacyTarget(6.0, 1e-5))
    model().fit(data, checkpoint=tmp_path / "c")
    with pytest.raises(CheckpointError, match="begun without a budget"):
        model().fit(data, budget=budget, checkpoint=tmp_path / "c")
    assert budget.history() == []


def test_a_budget_that_comes_too_late_is_refused(tmp_path: Path, data: ap.Interactions) -> None:
    """It would know what is released again, and not what has left before."""
    budget = ap.Budget.create(tmp_path / "budget.db", cap=ap.PrivacyTarget(6.0, 1e-5))
    with pytest.raises(Crash):
        model().fit(data, raise_crash, checkpoint=tmp_path / "c")
    with pytest.raises(CheckpointError, match="begun without a budget"):
        model().fit(data, budget=budget, checkpoint=tmp_path / "c")
    assert budget.history() == []
    model().fit(data, checkpoint=tmp_path / "c")


def test_a_training_is_resumed_with_its_budget_only(tmp_path: Path, data: ap.Interactions) -> None:
    """Otherwise the budget would give back, in the end, what was released without it."""
    budget = ap.Budget.create(tmp_path / "budget.db", cap=ap.PrivacyTarget(6.0, 1e-5))
    other = ap.Budget.create(tmp_path / "other.db", cap=ap.PrivacyTarget(6.0, 1e-5))
    with pytest.raises(Crash):
        model().fit(data, raise_crash, budget=budget, checkpoint=tmp_path / "c")
    for wrong in (None, other):
        with pytest.raises(CheckpointError, match="is paid from a budget"):
            model().fit(data, budget=wrong, checkpoint=tmp_path / "c")
    assert other.history() == []
    # A budget that was moved is the same one.
    moved = ap.Budget(budget.path.rename(tmp_path / "moved.db"))
    finished = model().fit(data, budget=moved, checkpoint=tmp_path / "c")
    [training] = moved.history()
    assert training.releases == tuple(finished.privacy.ledger)
    assert moved.epsilon == pytest.approx(5.0)
    with pytest.raises(CheckpointError, match="is paid from a budget"):
        model().fit(data, checkpoint=tmp_path / "c")


def test_a_training_whose_reservation_is_gone_is_not_resumed(
    tmp_path: Path, data: ap.Interactions
) -> None:
    budget = ap.Budget.create(tmp_path / "budget.db", cap=ap.PrivacyTarget(6.0, 1e-5))
    old = budget.path.read_bytes()
    with pytest.raises(Crash):
        model().fit(data, raise_crash, budget=budget, checkpoint=tmp_path / "c")
    (tmp_path / "old.db").write_bytes(old)
    with pytest.raises(ParameterError, match="is it an old copy"):
        model().fit(data, budget=ap.Budget(tmp_path / "old.db"), checkpoint=tmp_path / "c")
    spent = budget.close(budget.history()[0].token).epsilon
    assert 0 < spent < 5
    with pytest.raises(ap.BudgetExceededError, match="has ended"):
        model().fit(data, budget=budget, checkpoint=tmp_path / "c")
    assert budget.epsilon == pytest.approx(spent)


def test_before_its_first_release_a_training_may_change_its_budget(
    tmp_path: Path, data: ap.Interactions
) -> None:
    small = ap.Budget.create(tmp_path / "small.db", cap=ap.PrivacyTarget(1.0, 1e-5))
    large = ap.Budget.create(tmp_path / "large.db", cap=ap.PrivacyTarget(6.0, 1e-5))
    with pytest.raises(ap.BudgetExceededError):
        model().fit(data, budget=small, checkpoint=tmp_path / "c")
    model().fit(data, budget=large, checkpoint=tmp_path / "c")
    assert large.epsilon == pytest.approx(5.0)


@pytest.mark.parametrize("prepared", [False, True])
def test_a_budget_settles_only_for_what_its_checkpoint_released(
    tmp_path: Path, data: ap.Interactions, monkeypatch: pytest.MonkeyPatch, prepared: bool
) -> None:
    budget = ap.Budget.create(tmp_path / "budget.db", cap=ap.PrivacyTarget(6.0, 1e-5))
    given = model().prepare(data, budget=budget) if prepared else None
    monkeypatch.setattr(Reservation, "settle", raise_crash_now)
    with pytest.raises(Crash):
        model().fit(data, preparation=given, budget=budget, checkpoint=tmp_path / "c")
    monkeypatch.undo()
    whole = tmp_path / "whole.db"
    whole.write_bytes(budget.path.read_bytes())
    seen = rows(budget.path)
    missing = [row for row in seen if row[2] == "released" and '"sweep 2"' in row[4]]
    assert missing
    kept = [row for row in seen if row not in missing]
    for number, row in enumerate(kept, 1):
        row[0] = number
    rewrite(budget.path, kept, forged=True)  # as if it had not seen one of them
    with (
        pytest.warns(UserWarning, match="is finished"),
        pytest.warns(
            RuntimeWarning, match="whole reservation of this training stays counted.*other releases"
        ),
    ):
        model().fit(data, preparation=given, budget=budget, checkpoint=tmp_path / "c")
    assert budget.epsilon == pytest.approx(5.0)
    assert budget.history()[-1].ended is not None
    with pytest.warns(UserWarning, match="is finished"):
        model().fit(data, preparation=given, budget=ap.Budget(whole), checkpoint=tmp_path / "c")
    assert ap.Budget(whole).history()[-1].ended is not None
