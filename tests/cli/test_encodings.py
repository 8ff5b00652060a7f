"""Files that are not UTF-8, by every command that reads rows."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import apportion as ap
from tests.cli.test_recommend import run

LATIN = ("--encoding", "latin-1")


def written(folder: Path, name: str, frame: pl.DataFrame) -> Path:
    (folder / name).write_bytes(frame.write_csv().encode("latin-1"))
    return folder / name


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    """Ratings of items whose names are not of ASCII."""
    frame = ap.simulate_interactions(users=150, items=6, rows=500).to_frame()
    names = ["Amélie", "Das Boot", "Señora", "Ørret", "Là-haut", "Zoé"]
    return frame.with_columns(pl.Series("item", [names[item] for item in frame["item"]]))


def test_commands_for_recommenders(tmp_path: Path, rows: pl.DataFrame) -> None:
    train, test = rows[::2], rows[1::2]
    first, second = written(tmp_path, "train.csv", train), written(tmp_path, "test.csv", test)
    out, lists = tmp_path / "model", tmp_path / "lists.parquet"
    options = ("--rating-range", 1, 5, "--items", "public", "--epsilon", 10, "--out", out)
    with pytest.raises(ap.DataError, match=r"not UTF-8.*--encoding latin-1"):
        run("fit", first, *options)
    run("fit", first, *options, *LATIN)
    assert "Amélie" in ap.load(out).item_ids
    assert "RMSE" in run("evaluate", out, first, "--test", second, *LATIN)
    run("recommend", out, "--histories", first, "--out", lists, *LATIN)
    assert pl.read_parquet(lists)["item"].is_in(rows["item"].unique().to_list()).all()
    run("data", "split", first, "--out", tmp_path / "parts", *LATIN)
    assert "items" in run("data", "summary", first, *LATIN)


def test_commands_for_tasks(tmp_path: Path, rows: pl.DataFrame) -> None:
    size = np.random.default_rng(0).random(len(rows))
    table = rows.select("user", task="item", label="rating").with_columns(pl.Series("größe", size))
    path, out, found = (
        written(tmp_path, "rows.csv", table),
        tmp_path / "tasks",
        tmp_path / "found.csv",
    )
    named: tuple[Any, ...] = ("--feature", "größe=0:1", "--tasks", "public", "--label-bound", 5)
    run("fit-tasks", path, *named, "--out", out, *LATIN)
    run("predict-tasks", out, path, "--out", found, *LATIN)
    assert len(pl.read_csv(found)) == len(rows)


def test_an_encoding_that_there_is_not(tmp_path: Path, rows: pl.DataFrame) -> None:
    path = written(tmp_path, "rows.csv", rows)
    with pytest.raises(ap.ParameterError, match="none called"):
        run("data", "summary", path, "--encoding", "klingon")
