"""The command line on Spark, simulated data, and recommendations for frames."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import apportion as ap
from apportion.cli import app
from apportion.data.spark.simulate import simulate_in_spark
from apportion.errors import DataError, ParameterError


def run(*words: object) -> Any:
    """A command in this process, whose Spark session it finds."""
    return CliRunner().invoke(app, [str(word) for word in words])


FIT = ["--rating-range", 1, 5, "--factors", 3, "--sweeps", 1, "--epsilon", 4, "--no-checkpoint"]


@pytest.fixture(scope="module")
def folder(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ratings in Parquet files, simulated by the command."""
    path = tmp_path_factory.mktemp("simulated") / "ratings"
    sizes = ["--users", 300, "--items", 30, "--rows", 5000]
    told = run("data", "simulate", *sizes, "--engine", "spark", "--out", path)
    assert told.exit_code == 0, told.output
    return path


def test_simulated_rows_have_the_size_that_is_asked_for(spark: Any, folder: Path) -> None:
    table = pl.read_parquet(folder / "*.parquet")
    assert len(table) == 5000 == len(table.unique(["user", "item"]))
    assert table["user"].n_unique() == 300
    assert table["item"].is_between(0, 29).all()
    assert table["rating"].is_between(1, 5).all()
    assert table["rating"].n_unique() > 1000
    events = simulate_in_spark(spark, users=50, items=9, rows=200, rating_range=None, seed=3)
    assert events.columns == ["user", "item"]
    assert events.count() == 200
    again = simulate_in_spark(spark, users=50, items=9, rows=200, rating_range=None, seed=3)
    assert events.toArrow() == again.toArrow()


def test_simulated_blocks_of_users(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks: all users, each with the rows that it is to have."""
    monkeypatch.setattr("apportion.data.spark.simulate._ROWS", 500)
    rows = simulate_in_spark(spark, users=400, items=20, rows=3000).toArrow()
    assert rows.num_rows == 3000
    table = pl.DataFrame({name: pl.Series(name, rows[name]) for name in rows.column_names})
    assert len(table.unique(["user", "item"])) == 3000
    assert sorted(table["user"].unique()) == list(range(400))


@pytest.fixture(scope="module")
def stored(spark: Any, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``fit`` leaves: rows, the store; model; and the list of items."""
    path = tmp_path_factory.mktemp("stored")
    names = path / "items.txt"
    names.write_text("\n".join(map(str, range(30))))
    told = run("fit", folder, "--engine", "spark", "--items", names, *FIT, "--store", path / "rows",
               "--out", path / "model")  # fmt: skip
    assert told.exit_code == 0, told.output
    return path


def test_fit_reads_parquet_where_it_lies(spark: Any, stored: Path) -> None:
    model = ap.load(stored / "model")
    assert model.items.shape == (30, 3)
    assert model.privacy.epsilon == pytest.approx(4)
    assert len(ap.Interactions.from_store(spark, str(stored / "rows")).item_ids) == 30


RATED = ["--rating-range", 1, 5]


def prepare(place: object, stored: Path, out: Path, *words: object) -> Any:
    options = ["--engine", "spark", "--store", stored / "rows", "--yes", "--out", out / "p.json"]
    return run("prepare", place, *options, *words)


def test_rows_that_were_stored_are_taken_again_whatever_became_of_the_files(
    spark: Any, folder: Path, stored: Path, tmp_path: Path
) -> None:
    away = folder.with_name("away")
    folder.rename(away)
    try:
        told = prepare(folder, stored, tmp_path, "--items", stored / "items.txt", *RATED)
    finally:
        away.rename(folder)
    assert told.exit_code == 0, told.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rating-range", 0, 5], r"rating_range was \[1.0, 5.0\] and is now \[0.0, 5.0\]"),
        ([*RATED, "--outside", "clip"], "outside was 'error' and is now 'clip'"),
        (["--positives", 4], "rating_range was .*; positives was None and is now 4.0"),
        ([*RATED, "--user", "person"], "user was 'user' and is now 'person'"),
        ([*RATED, "--items", "public"], "items were a list and are now those in the data"),
        ([*RATED, "--items", "private"], "items were a list and are now private"),
        ([*RATED, "--items", "fewer"], "items are another list"),
    ],
)
def test_a_store_of_rows_that_were_read_in_another_way_is_refused(
    spark: Any, folder: Path, stored: Path, tmp_path: Path, words: list[Any], message: str
) -> None:
    (tmp_path / "fewer").write_text("\n".join(map(str, range(29))))
    words = [tmp_path / "fewer" if each == "fewer" else each for each in words]
    if "--items" not in words:
        words += ["--items", stored / "items.txt"]
    told = prepare(folder, stored, tmp_path, *words)
    assert isinstance(told.exception, ParameterError), told.output
    assert re.search(message, str(told.exception))


def test_a_store_of_rows_from_another_place_is_refused(
    spark: Any, stored: Path, tmp_path: Path
) -> None:
    words = ["--items", stored / "items.txt", *RATED]
    told = prepare(tmp_path / "others", stored, tmp_path, *words)
    assert isinstance(told.exception, ParameterError), told.output
    assert re.search("path was '.*ratings' and is now '.*others'", str(told.exception))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--engine", "cpu", "--master", "local[2]"], "--engine spark only"),
        (["--store", "somewhere"], "--engine spark only"),
    ],
)
def test_options_of_spark_go_with_spark(tmp_path: Path, words: list[str], message: str) -> None:
    told = run("fit", "x.parquet", "--items", "public", *FIT, *words, "--out", tmp_path / "m")
    assert told.exit_code == 2
    assert message in " ".join(told.output.replace("│", " ").split())


def test_a_folder_is_never_written_over(spark: Any, folder: Path) -> None:
    sizes = ["--users", 300, "--items", 30, "--rows", 5000]
    told = run("data", "simulate", *sizes, "--engine", "spark", "--out", folder)
    assert isinstance(told.exception, ParameterError)
    assert "exists already" in str(told.exception)


@pytest.fixture(scope="module", params=["explicit", "implicit"])
def model(request: pytest.FixtureRequest) -> ap.MatrixFactorization:
    between = (1.0, 5.0) if request.param == "explicit" else None
    data = ap.simulate_interactions(users=300, items=40, rows=5000, rating_range=between)
    return ap.MatrixFactorization(4, 2, request.param, epsilon=20.0, noise_seed=0).fit(data)


def test_recommendations_for_a_frame_are_those_of_one_machine(
    spark: Any, model: ap.MatrixFactorization
) -> None:
    rng = np.random.default_rng(0)
    table = pl.DataFrame(
        {
            "user": [f"u{n}" for n in rng.integers(0, 60, 500)],
            "item": rng.integers(0, 45, 500),  # some that the model does not know
            "rating": rng.integers(1, 6, 500) * 1.0,
            "more": np.zeros(500),
        }
    ).unique(["user", "item"])
    settings: dict[str, Any] = {"k": 3, "exclude": [7, 8]}
    frame: Any = model.recommend_many(spark.createDataFrame(table.to_arrow()), **settings)
    there = frame.toArrow()
    mine = model.recommend_many(table, **settings).sort("user", "rank")
    theirs = pl.DataFrame({name: pl.Series(name, there[name]) for name in there.column_names})
    theirs = theirs.sort("user", "rank")
    assert theirs.columns == mine.columns
    for name in mine.columns:
        np.testing.assert_array_equal(theirs[name].to_numpy(), mine[name].to_numpy())


def test_items_of_another_type_are_refused(spark: Any, model: ap.MatrixFactorization) -> None:
    frame = spark.createDataFrame([("a", "1", 2.0)], "user string, item string, rating double")
    with pytest.raises(DataError, match="items of type string, the model bigint: cast them"):
        model.recommend_many(frame)
    with pytest.raises(DataError, match="no column 'item'"):
        model.recommend_many(frame.drop("item"))
