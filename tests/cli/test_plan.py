"""``apportion plan``, and ``fit --plan`` after it, as a user runs them."""

import json
from pathlib import Path

import polars as pl
import pytest

from apportion.accounts.formats import PREPARATION
from apportion.errors import DataError, ParameterError
from apportion.recommend.files import load
from apportion.recommend.preparation import Preparation
from tests.cli.test_commands import apportion
from tests.cli.test_recommend import interactions, run

RATED = ["--rating-range", 1, 5, "--items", "public", "--epsilon", 5]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan")
    interactions().write_csv(folder / "ratings.csv")
    interactions(False).write_parquet(folder / "events.parquet")
    return folder


def test_a_plan_is_shown_saved_and_resumed(here: Path, tmp_path: Path) -> None:
    output = run("plan", here / "ratings.csv", *RATED, "--out", tmp_path / "plan.json")
    for piece in ("RMSE", "rarest", "spent epsilon = ", "counts, weights, users", "--plan"):
        assert piece in output
    saved = Preparation.from_json((tmp_path / "plan.json").read_text("utf-8"))
    spent = saved.ledger.epsilon(1e-5)
    assert f"spent epsilon = {spent:.3g} of 5" in output
    run(
        "fit", here / "ratings.csv", *RATED, "--plan", tmp_path / "plan.json", "--out",
        tmp_path / "model",
    )  # fmt: skip
    report = load(tmp_path / "model").privacy
    assert report.epsilon == pytest.approx(5)
    assert list(report.ledger)[:4] == list(saved.ledger)


def test_a_plan_for_events(here: Path, tmp_path: Path) -> None:
    events = ["--implicit", "--items", "private", "--epsilon", 50]
    output = run("plan", here / "events.parquet", *events, "--out", tmp_path / "plan.json")
    assert "share of tastes lost" in output
    assert "cepts" not in output
    run(
        "fit", here / "events.parquet", *events, "--plan", tmp_path / "plan.json", "--out",
        tmp_path / "model",
    )  # fmt: skip
    assert load(tmp_path / "model").privacy.ledger.target.selection_delta > 0


def test_a_plan_prints_nothing_exact(here: Path, tmp_path: Path) -> None:
    output = run("plan", here / "ratings.csv", *RATED, "--out", tmp_path / "plan.json")
    frame = pl.read_csv(here / "ratings.csv")
    text = output + (tmp_path / "plan.json").read_text("utf-8")
    for private in (frame["user"].n_unique(), len(frame)):
        assert str(private) not in output
        assert f": {private}," not in text


def test_options_that_are_given_are_kept(here: Path, tmp_path: Path) -> None:
    output = run(
        "plan", here / "ratings.csv", *RATED, "--factors", 3, "--sweeps", 7, "--intercept-share",
        0.25, "--out", tmp_path / "plan.json",
    )  # fmt: skip
    [row] = [line for line in output.splitlines() if "25%" in line]
    assert [word for word in row.split() if word.isdigit()] == ["3", "7"]


def test_nothing_is_spent_if_it_cannot_be_saved(here: Path, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("mine")
    with pytest.raises(ParameterError, match="exists"):
        run("plan", here / "ratings.csv", *RATED, "--out", tmp_path / "plan.json")
    assert (tmp_path / "plan.json").read_text() == "mine"
    with pytest.raises(ParameterError, match="no folder"):
        run("plan", here / "ratings.csv", *RATED, "--out", tmp_path / "nowhere" / "plan.json")


def test_another_training_or_no_plan_at_all(here: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    run("plan", here / "ratings.csv", *RATED, "--out", plan)
    other = [*RATED[:-1], 6]
    with pytest.raises(ParameterError, match="another epsilon"):
        run("fit", here / "ratings.csv", *other, "--plan", plan, "--out", tmp_path / "m")
    plan.write_text(json.dumps(PREPARATION.stamp))
    with pytest.raises(DataError, match="not a preparation"):
        run("fit", here / "ratings.csv", *RATED, "--plan", plan, "--out", tmp_path / "m")
    assert not (tmp_path / "m").exists()
    result = apportion(
        "fit", str(here / "ratings.csv"), "--not-private", "--plan", str(plan), "--out", "m"
    )
    assert result.returncode == 2
    assert "does not go with --plan" in result.stderr


def test_bench_prints_a_table_or_one_json_object() -> None:
    quick = ["--like", "ml-100k", "--factors", 2, "--rounds", 1]
    output = run("bench", *quick)
    for piece in ("943 users x 1,682 items", "a matrix for every item", "of sgemm", "threads"):
        assert piece in output
    found = json.loads(run("bench", *quick, "--against", "implicit", "--json").splitlines()[-1])
    assert found["factors"] == 2
    assert sorted(found["ratios"]) == [
        "per_item_vs_cg", "per_item_vs_exact", "shared_vs_cg", "shared_vs_exact",
    ]  # fmt: skip
    with pytest.raises(ParameterError, match="like must be"):
        run("bench", "--like", "nothing")
