"""Folders of task models: what is saved predicts the same when it is read, and can be verified."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.errors import DataError
from apportion.folders import sealed
from apportion.folders.kinds import REPORT, SETTINGS, TASK_MODELS
from apportion.tasks.models import ClassModels, TaskModels
from apportion.tasks.verify import verify
from tests.cli.test_recommend import run

DATA = ap.simulate_tasks(users=400, tasks=6, tasks_per_user=3)
RANGES = [(-1.0, 1.0)] * 5
MODELS: list[Any] = [
    ap.MultiTaskRidge(2.0),
    ap.MultiTaskRidge(2.0, statistics="shared", intercept=True),
    ap.MultiTaskRidge(2.0, statistics="per-task", regularization=1.0, regularization_per="user"),
    ap.MultiTaskRidge(2.0, allocation=ap.UniformWeights(), feature_ranges=RANGES, intercept=True),
    ap.MultiTaskRidge(2.0, allocation=ap.AdaptiveWeights(0.5, counts=ap.PublicCounts())),
    ap.MultiTaskRidge(math.inf),
    ap.MultiTaskDescent(2.0, loss="logistic", steps=3),
    ap.MultiTaskDescent(2.0, loss="poisson", regularization=1.0, regularization_per="user"),
    ap.MultiTaskDescent(2.0, steps=ap.Steps("theory", users=400)),
    ap.MultiTaskDescent(
        2.0,
        loss=ap.Loss("halved", lambda z, y: (z - y) ** 2 / 4, lambda z, y: (z - y) / 2, 1.0, 0.5),
        steps=2,
    ),
]


def trained(model: Any) -> Any:
    labels = np.where(DATA.labels > 0, 1.0, -1.0) if model._kind == "classifier" else DATA.labels
    if isinstance(model.get_params().get("loss"), str) and model.loss == "poisson":
        labels = np.round(np.abs(labels) * 3)
    return model.fit(DATA.remade(np.arange(len(DATA)), DATA.task, labels))


@pytest.mark.filterwarnings("ignore:the theorem's T is")  # by noisy counts, perhaps many
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_what_is_read_is_what_was_saved(model: Any, tmp_path: Path) -> None:
    trained(model).save(tmp_path / "m")
    read = ap.load(tmp_path / "m")
    assert isinstance(read, TaskModels)
    task, features = DATA.task[:9], DATA.features[:9]
    np.testing.assert_array_equal(read.predict(task, features), model.predict(task, features))
    np.testing.assert_array_equal(read.predict(DATA), model.predict(DATA))
    assert str(read.privacy) == str(model.privacy)
    assert read.table().equals(model.table())
    read.save(tmp_path / "again")
    again = (tmp_path / "again" / TASK_MODELS.file).read_bytes()
    assert again == (tmp_path / "m" / TASK_MODELS.file).read_bytes()
    assert [check.what for check in verify(tmp_path / "m") if not check.passed] == []


def test_classes(tmp_path: Path) -> None:
    names = np.array(["ant", "bee", "cat"])
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 900)
    features = 2 * np.eye(3)[kind] + rng.normal(size=(900, 3))
    data = ap.TaskData(np.arange(900), names[kind], features, tasks=names)
    model = ap.MultiTaskClassifier(5.0, feature_bound=3.0, steps=5).fit(data)
    model.save(tmp_path / "m")
    read = ap.load(tmp_path / "m")
    assert isinstance(read, ClassModels)
    assert read.predict(features).tolist() == model.predict(features).tolist()
    np.testing.assert_array_equal(read.predict_proba(features), model.predict_proba(features))
    assert read.score(data) == model.score(data) > 0.7
    assert all(check.passed for check in verify(tmp_path / "m"))
    assert "ClassModels(3 classes, 3 features: epsilon = 5" in repr(read)


def test_names_of_features_are_kept(tmp_path: Path) -> None:
    frame = {
        "who": [1, 2, 3],
        "what": ["a", "b", "a"],
        "age": [0.1, 0.2, 0.3],
        "y": [1.0, 0.0, 1.0],
    }
    import polars as pl

    data = ap.TaskData.from_frame(
        pl.DataFrame(frame), user="who", task="what", features=["age"], label="y", tasks=["a", "b"]
    )
    ap.MultiTaskRidge().fit(data).save(tmp_path / "m")
    assert ap.load(tmp_path / "m").released.feature_names == ("age",)


def forge(folder: Path, file: str, change: Any) -> None:
    """Change a JSON file, and make all checksums fit, as a forger would."""
    values = json.loads((folder / file).read_text())
    change(values)
    if file == REPORT:
        (folder / file).write_text(json.dumps(values))
        values = json.loads((folder / SETTINGS).read_text())
    names = [name for name in TASK_MODELS.files if name != SETTINGS]
    digests = {name: sealed.digest((folder / name).read_bytes()) for name in names}
    whole = sealed.sealed({**values, "sha256": digests})
    (folder / SETTINGS).write_text(json.dumps(whole))


def setting(name: str, value: Any) -> Any:
    def change(values: Any) -> None:
        values["training"]["settings"][name] = value

    return change


def record(name: str, value: Any) -> Any:
    def change(values: Any) -> None:
        values["ledger"]["records"][-1][name] = value

    return change


@pytest.mark.parametrize(
    ("file", "change"),
    [
        (REPORT, lambda values: values.update(epsilon=0.5)),
        (REPORT, lambda values: values["ledger"]["records"].pop()),
        (REPORT, record("sensitivity", 1.5)),
        (REPORT, record("because", "as I say")),
        (REPORT, lambda values: values["public_inputs"].update(intercept=True)),
        (SETTINGS, setting("epsilon", 1.0)),
        (SETTINGS, setting("feature_bound", 0.5)),
        (SETTINGS, setting("intercept", True)),
        (SETTINGS, setting("statistics", "shared")),
        (SETTINGS, setting("statistics", 7)),
        (SETTINGS, lambda values: values["training"].update(estimator="MultiTaskDescent")),
        (SETTINGS, lambda values: values["training"].update(estimator="eval")),
        (SETTINGS, lambda values: values["training"].update(tasks=5)),
        (SETTINGS, lambda values: values["training"].update(rules=2)),
        (SETTINGS, lambda values: values["training"]["releases"].pop()),
        (SETTINGS, lambda values: values["training"]["releases"][1].update(share=0.5)),
        (SETTINGS, lambda values: values.update(training={})),
    ],
)
def test_a_forged_folder_is_not_verified(tmp_path: Path, file: str, change: Any) -> None:
    ap.MultiTaskRidge(2.0).fit(DATA).save(tmp_path / "m")
    assert all(check.passed for check in verify(tmp_path / "m"))
    forge(tmp_path / "m", file, change)
    try:
        checks = verify(tmp_path / "m")
    except DataError:
        return
    assert not all(check.passed for check in checks)


@pytest.mark.parametrize("name", TASK_MODELS.files)
def test_a_damaged_file_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    ap.MultiTaskRidge(2.0).fit(DATA).save(tmp_path / "m")
    path = tmp_path / "m" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=name):
        ap.load(tmp_path / "m")
    path.unlink()
    with pytest.raises(DataError, match=name):
        ap.load(tmp_path / "m")


def test_what_is_no_path_is_refused() -> None:
    with pytest.raises(ap.ParameterError, match="load takes the path of a folder"):
        ap.load(None)


def test_each_kind_of_folder_says_what_it_is(tmp_path: Path) -> None:
    from apportion.recommend.files import load as load_recommender
    from apportion.tasks.files import load as load_tasks

    ap.MultiTaskRidge(2.0).fit(DATA).save(tmp_path / "tasks")
    data = ap.simulate_interactions(users=100, items=10, rows=900)
    ap.MatrixFactorization(2, 1).fit(data).save(tmp_path / "items")
    with pytest.raises(DataError, match="but an apportion task model"):
        load_recommender(tmp_path / "tasks")
    with pytest.raises(DataError, match="but an apportion item model"):
        load_tasks(tmp_path / "items")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / SETTINGS).write_text('{"kind": "other"}')
    with pytest.raises(
        DataError, match="does not describe an apportion item model or an apportion task"
    ):
        ap.load(tmp_path / "other")
    ap.MatrixFactorization(2, 1).fit(data).save(tmp_path / "tasks")  # replaces the other kind
    assert ap.load(tmp_path / "tasks").items.shape == (10, 2)
    assert not (tmp_path / "tasks" / TASK_MODELS.file).exists()


def test_the_command_line_reports_verifies_and_signs(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    folder, key = tmp_path / "m", Ed25519PrivateKey.generate()
    ap.MultiTaskRidge(2.0).fit(DATA).save(folder)
    assert "epsilon = 2" in run("report", folder)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (tmp_path / "key").write_bytes(private)
    (tmp_path / "pub").write_bytes(public)
    run("report", folder, "--sign", tmp_path / "key")
    assert "verified: epsilon = 2" in run("report", folder, "--verify", "--key", tmp_path / "pub")


def test_what_a_budget_paid_for_is_kept_until_it_is_saved(tmp_path: Path) -> None:
    budget = ap.Budget.create(tmp_path / "budget.db", ap.PrivacyTarget(2.0, 1e-5))
    model = ap.MultiTaskRidge(1.0).fit(DATA, budget=budget)
    place = model.checkpoint_
    assert place.exists()
    model.save(tmp_path / "m")
    assert not place.exists()


@pytest.mark.parametrize("model", MODELS[:5] + MODELS[6:8], ids=repr)
def test_a_plan_is_what_the_ledger_will_say(model: Any) -> None:
    planned = model.plan(features=5)
    ledger = list(trained(model).privacy.ledger)
    expected = [
        one
        for release in planned.releases
        for one in release.records(6, release.mu(planned.target))
    ]
    assert [one.name for one in expected] == [one.name for one in ledger]
    chosen = {"statistics.A", "statistics.b"} if "shrunk" in str(model.get_params()) else set()
    for mine, theirs in zip(expected, ledger, strict=True):
        if mine.name not in chosen:
            assert mine.noise_scale == pytest.approx(theirs.noise_scale)
        assert mine.sensitivity == pytest.approx(theirs.sensitivity)


def test_a_plan_needs_a_number_of_steps() -> None:
    with pytest.raises(ap.ParameterError, match="a plan needs a number"):
        ap.MultiTaskDescent(steps=ap.Steps("theory", users=400)).plan(5)
    assert "NOT PRIVATE" in str(ap.MultiTaskRidge(math.inf).plan(5))
    sampled = str(ap.MultiTaskDescent(steps=ap.Steps(5, sampling_rate=0.5)).plan(5))
    assert "noise as sampling asks x 5 steps" in sampled
