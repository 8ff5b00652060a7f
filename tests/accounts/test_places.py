"""What a budget has paid for is kept until the model is saved, wherever there is a place for it."""

import os
from pathlib import Path
from typing import Any

import pytest

import apportion as ap
from apportion.accounts import places
from tests.fuzz.test_full_disk import no_file_larger_than

TARGET = ap.PrivacyTarget(6.0, 1e-5)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "apportion"


@pytest.fixture
def budget(tmp_path: Path) -> ap.Budget:
    return ap.Budget.create(tmp_path / "budget.db", TARGET)


DATA = ap.simulate_interactions(users=60, items=20, rows=600)
TASKS = ap.simulate_tasks(users=60, tasks=5, tasks_per_user=2)


def model(**given: Any) -> ap.MatrixFactorization:
    return ap.MatrixFactorization(factors=4, sweeps=2, epsilon=4.0, delta=1e-5).set_params(**given)


def found(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


def fail(done: int, total: int) -> None:
    raise OSError(28, "No space left on device")


def test_a_model_that_cannot_be_saved_is_not_lost(
    state: Path, budget: ap.Budget, tmp_path: Path
) -> None:
    trained = model().fit(DATA, budget=budget)
    [place] = found(state)
    assert trained.checkpoint_ == place
    assert not (place / "key").exists()
    with pytest.raises(OSError, match="large") as caught, no_file_larger_than(600):
        trained.save(tmp_path / "model")
    assert places.resumable_from(caught.value) == place
    assert str(place) in caught.value.__notes__[0]
    # In another process, which has nothing but the folder and the data.
    with pytest.warns(UserWarning, match="is finished"):
        again = model().fit(DATA, budget=budget, checkpoint=place)
    assert (again.items == trained.items).all()
    assert budget.epsilon == pytest.approx(4.0)
    again.save(tmp_path / "model")
    assert found(state) == []
    assert (ap.load(tmp_path / "model").items == trained.items).all()


def test_a_training_that_fails_is_resumed_without_paying_again(
    state: Path, budget: ap.Budget
) -> None:
    with pytest.raises(OSError, match="No space") as caught:
        model().fit(DATA, fail, budget=budget)
    place = places.resumable_from(caught.value)
    assert place is not None
    assert found(state) == [place]
    [training] = budget.history()
    assert training.ended is None
    assert place == places.find_place(training.token, budget.path)
    told: list[int] = []
    model().fit(DATA, lambda done, _: told.append(done), budget=budget, checkpoint=place)
    assert told == [1, 2]
    assert [one.ended is None for one in budget.history()] == [False]


def test_nothing_is_kept_of_what_has_released_nothing(state: Path, budget: ap.Budget) -> None:
    budget.reserve("other", ap.PrivacyTarget(5.0, 1e-5)).leave()
    with pytest.raises(ap.BudgetExceededError):
        model().fit(DATA, budget=budget)
    with pytest.raises(ap.ApportionError):
        model(epsilon=-1).fit(DATA, budget=budget)
    assert found(state) == []
    assert len(budget.history()) == 1


def test_a_training_that_fails_before_its_first_release_gives_all_back(
    state: Path, budget: ap.Budget
) -> None:
    class Broken(ap.ReferenceEngine):
        def load(self, rows: Any) -> Any:
            raise OSError(5, "no engine")

    with pytest.raises(OSError, match="no engine"):
        model(engine=Broken()).fit(DATA, budget=budget)
    assert found(state) == []
    assert budget.epsilon == 0.0


def test_it_is_the_users_choice(state: Path, budget: ap.Budget, tmp_path: Path) -> None:
    assert "checkpoint_" not in vars(model(epsilon=1.0).fit(DATA, budget=budget, checkpoint=False))
    assert "checkpoint_" not in vars(model().fit(DATA))
    assert found(state) == []
    trained = model().fit(DATA, checkpoint=True)
    assert found(state) == [trained.checkpoint_]
    trained.drop_checkpoint()
    assert found(state) == []
    named = model().fit(DATA, checkpoint=tmp_path / "mine")
    named.save(tmp_path / "model")
    assert (tmp_path / "mine").exists()


def test_the_next_training_takes_the_place_of_the_last(state: Path, budget: ap.Budget) -> None:
    trained = model(epsilon=1.0)
    trained.fit(DATA, budget=budget)
    trained.fit(DATA, budget=budget)
    assert found(state) == [trained.checkpoint_]


def test_many_tasks_too(state: Path, budget: ap.Budget) -> None:
    trained = ap.MultiTaskRidge(epsilon=1.0).fit(TASKS, budget=budget)
    assert found(state) == [trained.checkpoint_]
    trained.drop_checkpoint()
    classes = ap.MultiTaskClassifier(epsilon=1.0, steps=2, seed=1).fit(TASKS, budget=budget)
    assert found(state) == [classes.checkpoint_]
    classes.drop_checkpoint()
    ap.MultiTaskClassifier(epsilon=1.0, steps=2, seed=None).fit(TASKS, budget=budget)
    assert found(state) == []
    untold = ap.MultiTaskClassifier(epsilon=1.0, steps=2, seed=None)
    with pytest.raises(ap.ParameterError, match="needs a seed"):
        untold.fit(TASKS, budget=budget, checkpoint=True)


def test_without_a_home_it_lies_beside_the_budget(
    tmp_path: Path, budget: ap.Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    for home in ("file", "file/in"):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / home))
        trained = model(epsilon=1.0).fit(DATA, budget=budget)
        assert trained.checkpoint_.parent == tmp_path
        assert trained.checkpoint_.name.startswith("budget.db-")
        assert trained.checkpoint_.stat().st_mode & 0o777 == 0o700
        trained.drop_checkpoint()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    place, token = places.new_place(None)
    assert place.parent == tmp_path
    assert places.find_place(token, None) == place
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    with pytest.raises(ap.CheckpointError, match="set XDG_STATE_HOME"):
        places.new_place(None)


def test_nobody_else_reads_the_key(state: Path) -> None:
    os.umask(old := os.umask(0))
    try:
        os.umask(0)
        place, _ = places.new_place(None)
    finally:
        os.umask(old)
    assert place.stat().st_mode & 0o777 == 0o700
    assert state.stat().st_mode & 0o777 == 0o700
