"""The command line on Spark, simulated data, and recommendations for frames."""

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


def test_fit_and_prepare_read_parquet_where_it_lies(
    spark: Any, folder: Path, tmp_path: Path
) -> None:
    names = tmp_path / "items.txt"
    names.write_text("\n".join(map(str, range(30))))
    options = ["--engine", "spark", "--items", names, *FIT]
    told = run("fit", folder, *options, "--store", tmp_path / "rows", "--out", tmp_path / "model")
    assert told.exit_code == 0, told.output
    model = ap.load(tmp_path / "model")
    assert model.items.shape == (30, 3)
    assert model.privacy.epsilon == pytest.approx(4)
    assert len(ap.Interactions.from_store(spark, str(tmp_path / "rows")).item_ids) == 30
    # The rows that were stored are taken again, whatever became of the files.
    told = run("prepare", tmp_path / "gone", "--engine", "spark", "--items", names, "--store",
               tmp_path / "rows", "--rating-range", 1, 5, "--yes", "--out", tmp_path / "p.json")  # fmt: skip
    assert told.exit_code == 0, told.output


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
