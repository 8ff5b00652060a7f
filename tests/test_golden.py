"""The first of every format never changes: today's build reads it, and one with a second format."""

import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

import apportion as ap
from apportion.accounts import migration, signatures
from apportion.accounts.formats import (
    BUDGET,
    MODEL,
    PREPARATION,
    REPORT,
    SIGNATURE,
    TASKS,
    Format,
)
from apportion.errors import BudgetFileError, DataError
from apportion.folders.files import read_files, read_signature
from apportion.recommend import rules
from apportion.recommend.loading import sign
from apportion.recommend.preparation import Preparation
from apportion.recommend.verify import verify
from apportion.tasks import rules as task_rules
from apportion.tasks import verify as of_tasks
from apportion.tasks.models import ClassModels, TaskModels
from tests.golden.make import EVENTS, HISTORY, OPEN, ROWS, sums

GOLDEN = Path(__file__).parent / "golden"
FIRST = GOLDEN / "first"
EXPECTED: dict[str, Any] = json.loads((FIRST / "expected.json").read_text("utf-8"))
KEY = Ed25519PublicKey.from_public_bytes(bytes.fromhex(EXPECTED["key"]))
DATA = ap.simulate_interactions(users=300, items=12, rows=1500)


def upgrade(kind: Format, step: Any, patch: pytest.MonkeyPatch) -> None:
    """One more format of this kind, which a later version writes."""
    steps = {**kind.steps, kind.number: step}
    for name, value in (("number", kind.number + 1), ("needs", "0.9.0"), ("steps", steps)):
        patch.setitem(vars(kind), name, value)


def be_second(patch: pytest.MonkeyPatch) -> None:
    """A build in which everything that is written has one more format, and rules have another number."""

    def add_notes(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE events ADD COLUMN notes TEXT")

    for kind in (MODEL, TASKS, REPORT, PREPARATION, SIGNATURE):
        upgrade(kind, dict, patch)
    upgrade(BUDGET, None, patch)
    patch.setitem(migration.STEPS, BUDGET.number - 1, add_notes)

    def refuse(*_: Any) -> Any:
        raise DataError("other")

    other = replace(rules.RULES[1], plan=refuse)
    patch.setitem(rules.RULES, 2, other)
    patch.setitem(vars(rules), "PRESENT", 2)
    patch.setitem(of_tasks.RULES, 2, of_tasks.Rules(refuse, refuse))
    patch.setitem(vars(task_rules), "PRESENT", 2)


@pytest.fixture(params=["today's build", "a build with a second format"])
def build(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "today's build":
        be_second(monkeypatch)
    return str(request.param)


def test_no_file_changes() -> None:
    lines = (GOLDEN / "sha256sums.txt").read_text("utf-8").splitlines()
    kept = {name: digest for digest, name in (line.split() for line in lines)}
    assert sums(GOLDEN) == kept, "tests/golden/README.md says what to do for a new format"


def test_every_present_format_has_a_file() -> None:
    def formats(name: str) -> tuple[Any, Any]:
        values = json.loads((FIRST / name).read_text("utf-8"))
        return values["format"], values["needs"]

    for name, kind in (
        ("ratings/model.json", MODEL),
        ("events/model.json", MODEL),
        ("tasks/model.json", TASKS),
        ("classes/model.json", TASKS),
        ("ratings/privacy.json", REPORT),
        ("report.json", REPORT),
        ("preparation.json", PREPARATION),
        ("ratings/signature.json", SIGNATURE),
    ):
        assert formats(name) == (kind.number, kind.needs), f"{name}: make files of the new format"
    with sqlite3.connect(f"file:{FIRST / 'budget.db'}?immutable=1", uri=True) as connection:
        [(number,)] = connection.execute("PRAGMA user_version")
    connection.close()
    assert number == BUDGET.number


@pytest.mark.parametrize(("name", "history"), [("ratings", HISTORY), ("events", EVENTS)])
def test_a_model_recommends_what_it_did_and_is_found_genuine(
    build: str, name: str, history: Any
) -> None:
    model = ap.load(FIRST / name)
    items, scores = model.recommend(history, k=5)
    assert items.tolist() == EXPECTED[name]["items"]
    np.testing.assert_allclose(scores, EXPECTED[name]["scores"], rtol=1e-4)
    assert [check for check in verify(FIRST / name) if not check.passed] == []
    assert model.privacy.epsilon == pytest.approx(4.0, abs=1e-6)


def test_a_model_that_is_read_can_be_saved_anew(build: str, tmp_path: Path) -> None:
    model = ap.load(FIRST / "ratings")
    model.save(tmp_path / "again")
    assert json.loads((tmp_path / "again" / "model.json").read_text())["format"] == MODEL.number
    again = ap.load(tmp_path / "again")
    assert again.recommend(HISTORY)[1].tobytes() == model.recommend(HISTORY)[1].tobytes()
    assert [check for check in verify(tmp_path / "again") if not check.passed] == []


def test_models_of_tasks_predict_what_they_did_and_are_found_genuine(build: str) -> None:
    expected = json.loads((FIRST / "expected-tasks.json").read_text("utf-8"))
    tasks, classes = ap.load(FIRST / "tasks"), ap.load(FIRST / "classes")
    assert isinstance(tasks, TaskModels)
    assert isinstance(classes, ClassModels)
    np.testing.assert_allclose(tasks.predict([1, 3], ROWS), expected["tasks"], rtol=1e-9)
    assert tasks.table()["standard_error"].to_list() == expected["errors"]
    np.testing.assert_allclose(classes.predict_proba(ROWS), expected["classes"], rtol=1e-9)
    assert classes.classes_.tolist() == list("abcd")
    for name in ("tasks", "classes"):
        assert [each for each in of_tasks.verify(FIRST / name) if not each.passed] == []


def test_models_of_tasks_that_are_read_can_be_saved_anew(build: str, tmp_path: Path) -> None:
    for name in ("tasks", "classes"):
        models = ap.load(FIRST / name)
        models.save(tmp_path / name)
        values = json.loads((tmp_path / name / "model.json").read_text())
        assert values["format"] == TASKS.number
        assert [each for each in of_tasks.verify(tmp_path / name) if not each.passed] == []


def test_a_signature_holds(build: str) -> None:
    files, content = read_files(FIRST / "ratings"), read_signature(FIRST / "ratings")
    assert content is not None
    assert signatures.check(files, content, KEY) is None
    changed = {**files, "privacy.json": files["privacy.json"] + b" "}
    assert signatures.check(changed, content, KEY) is not None


def test_a_report_says_what_it_said(build: str) -> None:
    report = ap.PrivacyReport.from_json((FIRST / "report.json").read_text("utf-8"))
    found = {"epsilon": report.epsilon, "mu": report.mu, "releases": len(report.ledger)}
    assert found == pytest.approx(EXPECTED["report"], rel=1e-9)


def test_a_training_goes_on_from_a_preparation(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    shutil.copyfile(FIRST / "budget.db", path)
    preparation = Preparation.read(FIRST / "preparation.json")
    assert preparation.users == EXPECTED["preparation"]["users"]
    assert preparation.sums.tolist() == EXPECTED["preparation"]["sums"]
    budget = ap.Budget(path)
    assert budget.holds(preparation.paid, preparation.ledger)
    model = ap.MatrixFactorization(factors=2, sweeps=2, epsilon=4.0)
    model.fit(DATA, preparation=preparation, budget=budget, checkpoint=False)
    assert model.privacy.epsilon == pytest.approx(4.0, abs=1e-6)


def test_a_second_build_reads_a_preparation(monkeypatch: pytest.MonkeyPatch) -> None:
    be_second(monkeypatch)
    preparation = Preparation.read(FIRST / "preparation.json")
    assert preparation.sums.tolist() == EXPECTED["preparation"]["sums"]


def test_a_budget_counts_what_it_counted_and_goes_on(build: str, tmp_path: Path) -> None:
    path, expected = tmp_path / "budget.db", EXPECTED["budget"]
    shutil.copyfile(FIRST / "budget.db", path)
    budget = ap.Budget(path)
    assert budget.epsilon == pytest.approx(expected["epsilon"], rel=1e-9)
    assert budget.left == pytest.approx(expected["left"], rel=1e-9)
    assert budget.last_hash == expected["last_hash"]  # whoever kept it finds it
    found = [[one.token, one.what, one.label, one.epsilon] for one in budget.history()]
    assert found == [[*one[:3], pytest.approx(one[3], rel=1e-9)] for one in expected["trainings"]]
    assert budget.history()[0].output == "ratings"
    running = budget.resume(OPEN)
    running.tie("the digest of a key")
    running.settle()
    assert budget.epsilon < expected["epsilon"]
    assert budget.events_since(expected["last_hash"]) == 2


def test_an_old_budget_passes_through_every_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "budget.db"
    shutil.copyfile(GOLDEN / "budget-2.db", path)
    be_second(monkeypatch)
    assert len(ap.Budget(path).history()) == 3
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (4,)
        assert connection.execute("SELECT needs FROM format").fetchall() == [("0.9.0",)]
    connection.close()


NEWER: dict[str, Callable[[Path], object]] = {
    "model": lambda folder: ap.load(folder / "model"),
    "tasks": lambda folder: ap.load(folder / "tasks"),
    "report": lambda folder: ap.PrivacyReport.from_json((folder / "report.json").read_text()),
    "preparation": lambda folder: Preparation.read(folder / "preparation.json"),
    "budget": lambda folder: ap.Budget(folder / "budget.db"),
    "spending": lambda folder: ap.MatrixFactorization().fit(
        DATA, budget=ap.Budget(folder / "budget.db")
    ),
}


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a build with a second format has written."""
    folder = tmp_path_factory.mktemp("newer")
    model, tasks = ap.load(FIRST / "ratings"), ap.load(FIRST / "tasks")
    preparation = Preparation.read(FIRST / "preparation.json")
    shutil.copyfile(FIRST / "budget.db", folder / "budget.db")
    with pytest.MonkeyPatch.context() as patch:
        be_second(patch)
        model.save(folder / "model")
        tasks.save(folder / "tasks")
        sign(folder / "model", Ed25519PrivateKey.generate())
        (folder / "report.json").write_text(model.privacy.to_json())
        (folder / "preparation.json").write_text(preparation.to_json())
        ap.Budget(folder / "budget.db").set_aside("x", ap.PrivacyTarget(0.1, 1e-5))
    return folder


@pytest.mark.parametrize("kind", NEWER)
def test_what_is_newer_is_refused_with_the_version_that_it_needs(newer: Path, kind: str) -> None:
    before = (newer / "budget.db").read_bytes()
    with pytest.raises((DataError, BudgetFileError), match=r"it needs apportion 0\.9\.0 or later"):
        NEWER[kind](newer)
    assert (newer / "budget.db").read_bytes() == before


def test_a_newer_signature_is_refused_with_the_version_that_it_needs(newer: Path) -> None:
    content = read_signature(newer / "model")
    assert content is not None
    wrong = signatures.check(read_files(FIRST / "ratings"), content, KEY)
    assert wrong is not None
    assert "it needs apportion 0.9.0 or later" in wrong


def fields_of_all_files() -> Iterator[str]:
    """Whatever a file of the first formats gives a name to, but for settings and what is public."""
    budget = sqlite3.connect(f"file:{FIRST / 'budget.db'}?mode=ro&immutable=1", uri=True)
    for kind, body in budget.execute("SELECT kind, body FROM events"):
        yield from (kind, *json.loads(body))
    budget.close()
    for path in [*FIRST.glob("*/*.json"), FIRST / "report.json", FIRST / "preparation.json"]:
        values = json.loads(path.read_text())
        training, ledger = values.get("training", {}), values.get("ledger", {})
        plain = [values, values.get("fold_in"), values.get("predicts"), values.get("trail"), ledger]
        plain += [ledger.get("target"), *ledger.get("records", [])]
        if path.name == "model.json":
            plain.append(training)
            for release in training["releases"]:
                plain += [release, *release["parts"], *(part["bound"] for part in release["parts"])]
        for each in plain:
            yield from each or {}


def test_the_page_names_every_field() -> None:
    page = (GOLDEN.parents[1] / "docs" / "reference" / "formats.md").read_text("utf-8")
    fields = set(fields_of_all_files())
    assert {"needs", "grid", "norm", "released", "shrinkage", "trail"} <= fields
    assert fields - set(re.findall(r"`([^`\n]+)`", page)) == set()
