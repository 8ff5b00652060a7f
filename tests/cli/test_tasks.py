"""``apportion plan-tasks``, ``fit-tasks`` and ``predict-tasks``, as a user runs them."""

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import apportion as ap
from apportion.errors import DataError, ParameterError
from tests.cli.test_recommend import run

FEATURES = ("--feature", "age=0:120", "--feature", "pulse=20:250")
COLUMNS = ("--user", "patient", "--task", "ward", "--target", "stay", *FEATURES)


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    ward = np.array(["north", "south", "east"])[rng.integers(0, 3, 6000)]
    age, pulse = rng.uniform(0, 100, 6000).round(1), rng.uniform(50, 150, 6000).round(1)
    stay = 2 + 0.1 * age + 0.05 * pulse + 3 * (ward == "south") + rng.normal(size=6000)
    path = tmp_path_factory.mktemp("visits") / "visits.csv"
    pl.DataFrame(
        {
            "patient": rng.integers(0, 3000, 6000),
            "ward": ward,
            "age": age,
            "pulse": pulse,
            "stay": stay,
        }
    ).write_csv(path)
    path.with_name("wards.txt").write_text("north\nsouth\neast\nwest\n")
    return path


def test_from_a_file_to_predictions(visits: Path, tmp_path: Path) -> None:
    wards, out, predicted = visits.with_name("wards.txt"), tmp_path / "m", tmp_path / "p.csv"
    options = ("--tasks", wards, "--label-bound", 30, "--intercept", "--epsilon", 4, "--out", out)
    said = run("fit-tasks", visits, *COLUMNS, *options)
    assert "epsilon = 4 at delta = 1e-05" in said
    model = ap.load(out)
    assert model.task_ids_.tolist() == ["north", "south", "east", "west"]
    run("predict-tasks", out, visits, "--task", "ward", "--keep", "patient", "--out", predicted)
    found, given = pl.read_csv(predicted), pl.read_csv(visits)
    assert found.columns == ["patient", "ward", "prediction"]
    assert found["patient"].equals(given["patient"])
    errors = (found["prediction"] - given["stay"]).to_numpy()
    assert np.sqrt(np.mean(errors**2)) < given["stay"].to_numpy().std()
    assert "verified: epsilon = 4" in run("report", out, "--verify")
    with pytest.raises(ParameterError, match="--overwrite"):
        run("fit-tasks", visits, *COLUMNS, *options)
    with pytest.raises(
        DataError, match="an apportion task model, which apportion predict-tasks takes"
    ):
        run("recommend", out, "--history", "3=1")


def test_classes(visits: Path, tmp_path: Path) -> None:
    out, predicted = tmp_path / "m", tmp_path / "p.parquet"
    columns = (
        "--user",
        "patient",
        "--task",
        "ward",
        "--feature",
        "stay=0:50",
        "--model",
        "classifier",
    )
    options = (*columns, "--tasks", "public", "--epsilon", 8, "--out", out)
    # The checkpoint goes once the model is safe.
    run("fit-tasks", visits, *options, "--checkpoint", tmp_path / "going")
    assert not (tmp_path / "going").exists()
    run("predict-tasks", out, visits, "--out", predicted)
    assert set(pl.read_parquet(predicted)["prediction"]) <= {"north", "south", "east"}


def test_without_privacy_it_is_least_squares(visits: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    run("fit-tasks", visits, *COLUMNS, "--intercept", "--not-private", "--out", out)
    model = ap.load(out)
    np.testing.assert_allclose(model.coef_, [[0.1, 0.05]] * 3, atol=0.01)
    assert math.isinf(model.privacy.epsilon)


def test_a_budget_pays_and_refuses(visits: Path, tmp_path: Path) -> None:
    budget = tmp_path / "budget.db"
    run("budget", "create", budget, "--epsilon", 1, "--delta", 1e-5)
    options = ("--tasks", "public", "--budget", budget)
    run("fit-tasks", visits, *COLUMNS, *options, "--out", tmp_path / "a")
    with pytest.raises(ap.BudgetExceededError):
        run("fit-tasks", visits, *COLUMNS, *options, "--out", tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_a_plan_and_a_forecast() -> None:
    plan = run("plan-tasks", "--features", 3, "--epsilon", 2)
    assert "statistics.b" in plan
    assert "what to expect takes public facts" in plan
    sizes = ("--users", 2000, "--tasks", 10, "--tasks-per-user", 3)
    assert "rarest fifth" in run("plan-tasks", "--features", 3, *sizes)
    classes = run("plan-tasks", "--features", 3, *sizes, "--model", "classifier")
    assert "rarest fifth" in classes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--tasks", "public"), "name at least one column"),
        (FEATURES, "which tasks exist can give a user away"),
        (("--tasks", "public", "--feature", "age=0-120"), "must be COLUMN=LOW:HIGH"),
        (("--tasks", "public", "--feature", "age=0:120", "--feature", "pulse"), "or to none"),
        (("--tasks", "public", *FEATURES, "--feature", "age=0:1"), "names a column twice"),
        (("--tasks", "public", *FEATURES, "--loss", "huber"), "goes with --model descent only"),
        (("--not-private", "--epsilon", 1, *FEATURES), "does not go with --epsilon"),
        (
            ("--tasks", "public", *FEATURES, "--model", "classifier", "--target", "stay"),
            "no labels",
        ),
    ],
)
def test_wrong_usage(
    visits: Path, tmp_path: Path, options: tuple[object, ...], message: str
) -> None:
    said = run("fit-tasks", visits, "--out", tmp_path / "m", *options, code=2)
    assert message in " ".join(said.replace("│", " ").split())


def test_predictions_need_the_features_of_the_training(visits: Path, tmp_path: Path) -> None:
    data = ap.simulate_tasks(users=100, tasks=3, tasks_per_user=2, dimension=2)
    ap.MultiTaskRidge().fit(data).save(tmp_path / "m")
    out = ("--out", tmp_path / "p.csv")
    with pytest.raises(ParameterError, match="without names: give --feature 2 times"):
        run("predict-tasks", tmp_path / "m", visits, *out)
    with pytest.raises(ParameterError, match="2 features, and 1 are named"):
        run("predict-tasks", tmp_path / "m", visits, "--feature", "age", *out)
