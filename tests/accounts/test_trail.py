"""From a model to the line of the budget that paid for it, and back."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import apportion as ap
from apportion.accounts.trail import Trail
from apportion.cli.output import Output
from apportion.cli.report import report
from apportion.errors import DataError
from apportion.recommend.recommender import Recommender
from apportion.recommend.verify import verify
from tests.cli.test_recommend import run

DATA = ap.simulate_interactions(users=300, items=20, rows=3000)
SMALL: dict[str, Any] = {"factors": 2, "sweeps": 1}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that a budget has paid for, and another budget."""
    folder = tmp_path_factory.mktemp("trail")
    ap.Budget.create(folder / "budget.db", ap.PrivacyTarget(10, 1e-5))
    ap.Budget.create(folder / "other.db", ap.PrivacyTarget(10, 1e-5))
    budget = ap.Budget(folder / "budget.db", label="May")
    model = ap.MatrixFactorization(epsilon=1.0, delta=1e-5, **SMALL)
    model.fit(DATA, budget=budget).save(folder / "model", {3: "three"})
    return folder


def test_the_report_names_the_training_and_the_budget_the_model(here: Path) -> None:
    trail = ap.load(here / "model").privacy.trail
    [training] = ap.Budget(here / "budget.db").history()
    assert trail is not None
    digest = hashlib.sha256((here / "model" / "items.safetensors").read_bytes()).hexdigest()
    assert trail.training == training.token
    assert (trail.digest, training.digest) == (digest, digest)
    assert (training.label, training.output) == ("May", str(here / "model"))
    assert trail.versions["apportion"] == training.version
    assert training.began <= trail.date
    assert training.ended is not None
    assert all(check.passed for check in verify(here / "model"))
    for text in (digest, training.token, trail.date):
        assert text in str(ap.load(here / "model").privacy)


def test_the_commands_show_it(here: Path) -> None:
    [line] = json.loads(run("budget", "history", here / "budget.db", "--json"))["trainings"]
    assert (line["label"], line["output"]) == ("May", str(here / "model"))
    found = json.loads(run("report", here / "model", "--budget", here / "budget.db", "--json"))
    assert found["paid"] == line
    assert found["trail"]["training"] == line["training"]
    shown = run("report", here / "model", "--budget", here / "budget.db")
    assert f"{line['training'][:8]}" in shown
    assert "May" in run("budget", "history", here / "budget.db")


def test_a_budget_that_has_not_paid_is_refused(here: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not have the training"):
        run("report", here / "model", "--budget", here / "other.db")
    model = ap.MatrixFactorization(epsilon=1.0, delta=1e-5, **SMALL)
    model.fit(DATA).save(tmp_path / "free")
    with pytest.raises(DataError, match="names no training"):
        run("report", tmp_path / "free", "--budget", here / "budget.db")
    # Other models that claim to be the one that was paid for.
    genuine = ap.load(here / "model")
    forged = replace(genuine.released, items=2 * genuine.released.items)
    Recommender(forged).save(tmp_path / "forged")
    assert "another model with the same releases" in run(
        "report", tmp_path / "forged", "--budget", here / "budget.db"
    )
    model = ap.MatrixFactorization(epsilon=2.0, delta=1e-5, **SMALL).fit(DATA)
    privacy = replace(model.privacy, trail=genuine.privacy.trail)
    Recommender(replace(model.released, privacy=privacy)).save(tmp_path / "forged")
    with pytest.raises(DataError, match="has released something else"):
        report(Output(), tmp_path / "forged", budget=here / "budget.db")


def test_a_prepared_training_is_found(tmp_path: Path) -> None:
    budget = ap.Budget.create(tmp_path / "budget.db", ap.PrivacyTarget(10, 1e-5))
    model = ap.MatrixFactorization(epsilon=1.0, delta=1e-5, **SMALL)
    prepared = model.prepare(DATA, budget)
    model.fit(DATA, preparation=prepared, budget=budget).save(tmp_path / "model")
    found = run("report", tmp_path / "model", "--budget", tmp_path / "budget.db", "--json")
    assert json.loads(found)["paid"]["training"] == budget.history()[1].token


def test_trails_are_read_with_suspicion(here: Path, tmp_path: Path) -> None:
    model = ap.load(here / "model")
    trail = Trail("2026-01-01T00:00:00+00:00", {"apportion": "0.1.0"}, "", "ab" * 32)
    text = replace(model.privacy, trail=trail).to_json()
    assert ap.PrivacyReport.from_json(text).trail == trail
    odd: list[Any] = [{}, [], {"versions": {}}, {**trail.to_dict(), "date": 3}]
    for wrong in odd:
        with pytest.raises(DataError, match="trail"):
            ap.PrivacyReport.from_json(json.dumps({**json.loads(text), "trail": wrong}))


def test_task_estimators_name_their_training(tmp_path: Path) -> None:
    data = ap.simulate_tasks(users=200, tasks=3, tasks_per_user=2)
    budget = ap.Budget.create(tmp_path / "budget.db", ap.PrivacyTarget(10, 1e-5))
    model = ap.MultiTaskRidge(epsilon=1.0, delta=1e-5).fit(data, budget=budget)
    assert model.privacy.trail is not None
    assert model.privacy.trail.training == budget.history()[0].token
    model.fit(data)
    assert model.privacy.trail is not None
    assert model.privacy.trail.training == ""
