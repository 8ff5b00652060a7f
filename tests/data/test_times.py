"""Times are read whatever their form, and split by; nobody's part depends on anybody else."""

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import apportion as ap
from apportion.data.summary import NOTE
from tests.data.test_reading import rows

DAYS = ["2024-05-01", "2024-05-03", "2024-05-02", "2024-05-05", "2024-05-04", "2024-05-09"]
USERS = ["ann", "ann", "ann", "bob", "bob", "cy"]
ITEMS = [1, 2, 3, 1, 2, 1]
SECONDS = [pd.Timestamp(day, tz="UTC").timestamp() for day in DAYS]


def made(times: Any, **more: Any) -> ap.Interactions:
    return ap.Interactions(USERS, ITEMS, items=4, timestamp=times, **more)


@pytest.mark.parametrize(
    "times",
    [
        DAYS,
        SECONDS,
        [str(int(each)) for each in SECONDS],
        np.array(SECONDS),
        np.array(DAYS, dtype="datetime64[D]"),
        pd.Series(pd.to_datetime(DAYS)),
        pd.to_datetime(pd.Series(DAYS)).dt.tz_localize("UTC"),
        pd.Series(DAYS),
        pl.Series(DAYS).str.to_date(),
        pl.Series(DAYS).str.to_datetime(time_unit="ns"),
        [datetime.date.fromisoformat(day) for day in DAYS],
        [f"{day}T02:00:00+02:00" for day in DAYS],
        [f" {day}T00:00:00Z" for day in DAYS],
    ],
    ids=lambda times: type(times).__name__,
)
def test_forms(times: Any) -> None:
    data = made(times)
    assert data.time is not None
    assert data.time.tolist() == SECONDS[:3] + SECONDS[3:5] + SECONDS[5:]
    before, after = data.split_time("2024-05-04")
    assert rows(before) == [("ann", 1), ("ann", 2), ("ann", 3)]
    assert rows(after) == [("bob", 1), ("bob", 2), ("cy", 1)]
    assert rows(data.split_time(datetime.datetime(2024, 5, 4))[0]) == rows(before)
    assert rows(data.split_time(SECONDS[4])[0]) == rows(before)


def test_the_last_of_every_user() -> None:
    train, test = made(DAYS).leave_out(1, last=True)
    assert rows(test) == [("ann", 2), ("bob", 1)]
    assert rows(train) == [("ann", 1), ("ann", 3), ("bob", 2), ("cy", 1)]
    assert train.time is not None
    assert train.time.tolist() == [SECONDS[0], SECONDS[2], SECONDS[4], SECONDS[5]]
    train, test = made(DAYS).leave_out(5, last=True)
    assert rows(train) == [("ann", 1), ("bob", 2), ("cy", 1)]


def test_some_of_every_user_at_random_whoever_else_is_there() -> None:
    data = ap.simulate_interactions(users=300, items=40, rows=4000, seed=1)
    train, test = data.leave_out(3, seed=2)
    taken = np.diff(test.by_user.start)
    assert taken.tolist() == np.minimum(3, np.maximum(np.diff(data.by_user.start) - 1, 0)).tolist()
    assert set(rows(train)) | set(rows(test)) == set(rows(data))
    one = data.take(data.user_of_row == 7)
    assert rows(one.leave_out(3, seed=2)[1]) == [row for row in rows(test) if row[0] == 7]
    assert rows(data.leave_out(3, seed=3)[1]) != rows(test)


def test_repeated_rows_have_their_last_time() -> None:
    data = ap.Interactions([1, 2, 1, 1], [5, 5, 5, 6], timestamp=[3, 1, 7, 2])
    assert data.time is not None
    assert data.time.tolist() == [7, 2, 1]


def test_times_stay_with_their_rows() -> None:
    data = made(DAYS)
    frame = data.of_items(np.array([2, 1])).to_frame()
    known = dict(zip(zip(USERS, ITEMS, strict=True), SECONDS, strict=True))
    for user, item, time in frame.rows():
        assert time == known[user, item]


@pytest.mark.parametrize(
    "times",
    [
        ["2024-05-01"] * 5 + ["May 1st"],
        [1, 2, 3, 4, 5, None],
        [1, 2, 3, 4, 5, np.inf],
        [1, 2, 3],
        [[1]] * 6,
        [True, "x", 3, 4, 5, 6],
        pl.Series([datetime.time(1)] * 6),
    ],
    ids=str,
)
def test_what_is_no_time_is_refused_without_telling_it(times: Any) -> None:
    with pytest.raises(ap.DataError, match="timestamp") as error:
        made(times)
    assert "May 1st" not in str(error.value)


def test_errors() -> None:
    with pytest.raises(ap.DataError, match="have no times"):
        made(None).split_time(3)
    with pytest.raises(ap.DataError, match="have no times"):
        made(None).leave_out(last=True)
    for wrong in ("soon", None, True, [1]):
        with pytest.raises(ap.ParameterError, match="at must be a number"):
            made(DAYS).split_time(wrong)
    with pytest.raises(ap.ParameterError, match="k must be a whole number"):
        made(DAYS).leave_out(0)


def test_files_have_a_column_of_times(tmp_path: Path) -> None:
    frame = pl.DataFrame({"user": USERS, "item": ITEMS, "when": DAYS})
    frame.write_csv(tmp_path / "a.csv")
    frame.with_columns(pl.col("when").str.to_date()).write_parquet(tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        data = ap.Interactions.from_path(
            tmp_path / name, rating=None, timestamp="when", items="public"
        )
        assert data.time is not None
        assert data.time.tolist() == SECONDS


def test_summary_counts_and_warns() -> None:
    data = ap.Interactions(USERS, ITEMS, [1, 2, 3, 4, 5, 3], items=4, timestamp=DAYS)
    found = data.summary()
    assert (found.users, found.items, found.rows) == (3, 4, 6)
    assert found.density == pytest.approx(6 / 12)
    assert list(found.rows_per_user) == [1, 1.5, 2, 2.5, 3]
    assert list(found.users_per_item) == [0, 0.75, 1.5, 2.25, 3]
    assert (found.top_share, found.rare_items, found.mean_rating) == (0.5, 4, 3.0)
    assert found.times == (SECONDS[0], SECONDS[5])
    for shown in (str(found), found._repr_html_(), found.to_dict()["note"]):
        assert NOTE.split(":")[0] in shown
    empty = ap.Interactions([], [], items=4).summary()
    assert (empty.users, empty.rows, empty.density, empty.top_share) == (0, 0, 0.0, 0.0)


def test_to_frame_and_back() -> None:
    data = ap.Interactions(USERS, ITEMS, [1, 2, 3, 4, 5, 3], items=4, timestamp=DAYS)
    frame = data.to_frame()
    assert frame.columns == ["user", "item", "rating", "timestamp"]
    again = ap.Interactions.from_frame(frame, timestamp="timestamp", items=4)
    assert rows(again) == rows(data)
    assert made(None).to_frame().columns == ["user", "item"]
