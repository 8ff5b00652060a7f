"""``apportion prepare``, and ``fit --preparation`` after it, as a user runs them."""

import json
from pathlib import Path

import polars as pl
import pytest

import apportion as ap
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


def test_a_preparation_is_shown_saved_and_resumed(here: Path, tmp_path: Path) -> None:
    output = run("prepare", "--yes", here / "ratings.csv", *RATED, "--out", tmp_path / "first.json")
    for piece in ("RMSE", "rarest", "spent epsilon = ", "counts, weights, users", "--preparation"):
        assert piece in output
    saved = Preparation.from_json((tmp_path / "first.json").read_text("utf-8"))
    spent = saved.ledger.epsilon(1e-5)
    assert f"spent epsilon = {spent:.3g} of 5" in output
    run(
        "fit", here / "ratings.csv", *RATED, "--preparation", tmp_path / "first.json", "--out",
        tmp_path / "model",
    )  # fmt: skip
    report = load(tmp_path / "model").privacy
    assert report.epsilon == pytest.approx(5)
    assert list(report.ledger)[:4] == list(saved.ledger)


def test_a_preparation_for_events(here: Path, tmp_path: Path) -> None:
    events = ["--implicit", "--items", "private", "--epsilon", 50]
    output = run(
        "prepare", "--yes", here / "events.parquet", *events, "--out", tmp_path / "first.json"
    )
    assert "share of tastes lost" in output
    assert "cepts" not in output
    run(
        "fit", here / "events.parquet", *events, "--preparation", tmp_path / "first.json", "--out",
        tmp_path / "model",
    )  # fmt: skip
    assert load(tmp_path / "model").privacy.ledger.target.selection_delta > 0


def test_a_preparation_prints_nothing_exact(here: Path, tmp_path: Path) -> None:
    output = run("prepare", "--yes", here / "ratings.csv", *RATED, "--out", tmp_path / "first.json")
    frame = pl.read_csv(here / "ratings.csv")
    text = output + (tmp_path / "first.json").read_text("utf-8")
    for private in (frame["user"].n_unique(), len(frame)):
        assert str(private) not in output
        assert f": {private}," not in text


def test_options_that_are_given_are_kept(here: Path, tmp_path: Path) -> None:
    output = run(
        "prepare", "--yes", here / "ratings.csv", *RATED, "--factors", 3, "--sweeps", 7, "--intercept-share",
        0.25, "--out", tmp_path / "first.json",
    )  # fmt: skip
    [row] = [line for line in output.splitlines() if "25%" in line]
    assert [word for word in row.split() if word.isdigit()] == ["3", "7"]


def test_nothing_is_spent_if_it_cannot_be_saved(here: Path, tmp_path: Path) -> None:
    (tmp_path / "first.json").write_text("mine")
    with pytest.raises(ParameterError, match="exists"):
        run("prepare", "--yes", here / "ratings.csv", *RATED, "--out", tmp_path / "first.json")
    assert (tmp_path / "first.json").read_text() == "mine"
    with pytest.raises(ParameterError, match="no folder"):
        run(
            "prepare",
            "--yes",
            here / "ratings.csv",
            *RATED,
            "--out",
            tmp_path / "nowhere" / "first.json",
        )


def test_another_training_or_no_preparation_at_all(here: Path, tmp_path: Path) -> None:
    first = tmp_path / "first.json"
    run("prepare", "--yes", here / "ratings.csv", *RATED, "--out", first)
    other = [*RATED[:-1], 6]
    with pytest.raises(ParameterError, match="another epsilon"):
        run("fit", here / "ratings.csv", *other, "--preparation", first, "--out", tmp_path / "m")
    first.write_text(json.dumps(PREPARATION.stamp))
    with pytest.raises(DataError, match="not a preparation"):
        run("fit", here / "ratings.csv", *RATED, "--preparation", first, "--out", tmp_path / "m")
    assert not (tmp_path / "m").exists()
    result = apportion(
        "fit", str(here / "ratings.csv"), "--not-private", "--preparation", str(first), "--out", "m"
    )
    assert result.returncode == 2
    assert "does not go with --preparation" in result.stderr


def test_nothing_is_released_without_a_budget_or_a_yes(here: Path, tmp_path: Path) -> None:
    words = ["prepare", str(here / "ratings.csv"), *map(str, RATED), "--out", "first.json"]
    for answer in ("", "n\n"):
        result = apportion(*words, cwd=tmp_path, answer=answer)
        assert result.returncode == 2
        assert "Nothing was released" in " ".join(result.stderr.replace("\u2502", " ").split())
        assert list(tmp_path.iterdir()) == []
    result = apportion(*words, cwd=tmp_path, answer="y\n")
    assert result.returncode == 0, result.stderr
    spent = Preparation.from_json((tmp_path / "first.json").read_text("utf-8")).ledger.epsilon(1e-5)
    assert f"epsilon = {spent:.3g} of 5" in result.stderr  # the price, said before


@pytest.mark.parametrize("catalog", ["public", "private"])
@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
def test_the_price_is_what_is_spent(catalog: str, feedback: str) -> None:
    shape = {"users": 60, "items": 9, "rows": 200}
    frame = ap.simulate_interactions(**shape).to_frame()
    data = ap.Interactions.from_frame(
        frame,
        rating="rating",
        rating_range=(1, 5),
        items=None if catalog == "private" else "public",
    )
    model = ap.MatrixFactorization(feedback=feedback, catalog=catalog, epsilon=30.0)
    spent = model.prepare(data).ledger.epsilon(model.delta)
    assert model.preparation_epsilon() == pytest.approx(spent, rel=1e-9)
