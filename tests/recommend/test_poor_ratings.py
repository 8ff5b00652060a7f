"""Events made of every rating there was: reports and plans say so, wherever the ratings were left out."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import apportion as ap
from apportion.cli import app
from apportion.recommend.prepare import POOR_RATINGS

FRAME = pl.DataFrame(
    {"user": np.repeat(np.arange(60), 4), "item": np.tile(np.arange(8), 30), "rating": [1, 5] * 120}
)
ITEMS = list(range(8))


def model(epsilon: float = 1.0) -> ap.MatrixFactorization:
    return ap.MatrixFactorization(2, 1, "implicit", epsilon=epsilon)


def rated() -> ap.Interactions:
    return ap.Interactions.from_frame(FRAME, items=ITEMS, rating_range=(1, 5))


@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_ratings_that_count_as_events(epsilon: float) -> None:
    assert POOR_RATINGS in model(epsilon).fit(rated()).privacy.warnings


def test_a_plan_knows_before_the_sweeps_are_paid_for() -> None:
    assert POOR_RATINGS in model().prepare(rated()).warnings


@pytest.mark.parametrize("kind", ["polars", "lazy", "pandas", "csv", "parquet"])
def test_a_column_of_ratings_that_was_left_out(kind: str, tmp_path: Path) -> None:
    columns = {"rating": None, "items": ITEMS}
    if kind in ("csv", "parquet"):
        path = tmp_path / f"rows.{kind}"
        FRAME.write_csv(path) if kind == "csv" else FRAME.write_parquet(path)
        data = ap.Interactions.from_path(path, **columns)
    else:
        frame = {"polars": FRAME, "lazy": FRAME.lazy()}.get(kind)
        frame = FRAME.to_pandas() if frame is None else frame
        data = ap.Interactions.from_frame(frame, **columns)
    assert POOR_RATINGS in model().prepare(data).warnings


@pytest.mark.parametrize(
    "data",
    [
        rated().positives(4),
        ap.Interactions.from_frame(FRAME.drop("rating"), rating=None, items=ITEMS),
    ],
)
def test_events_that_were_chosen_or_have_no_ratings_are_fine(data: ap.Interactions) -> None:
    assert model().fit(data).privacy.warnings == ()


def test_ratings_that_are_ratings_are_fine() -> None:
    assert POOR_RATINGS not in ap.MatrixFactorization(2, 1).fit(rated()).privacy.warnings


def test_on_the_command_line(tmp_path: Path) -> None:
    path, items = tmp_path / "rows.csv", tmp_path / "items.txt"
    FRAME.write_csv(path)
    items.write_text("\n".join(map(str, ITEMS)))
    options = ["--items", str(items), "--factors", "2", "--sweeps", "1"]
    for more, warned in ((["--implicit"], True), (["--positives", "4"], False)):
        out = str(tmp_path / more[0])
        done = CliRunner().invoke(app, ["fit", str(path), *options, *more, "--out", out])
        assert done.exit_code == 0, done.output
        assert (POOR_RATINGS in ap.load(out).privacy.warnings) is warned
        assert ("one star" in " ".join(done.output.split())) is warned
