"""A path is a path, an id is one id however it is written, and no row decides for others."""

import gzip
import os
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import apportion as ap
from apportion.cli.reading import Source
from apportion.data.ids import number_ids, read_column

HEADER = "user,item,rating\n"


def read(path: Path, **columns: Any) -> ap.Interactions:
    return ap.Interactions.from_path(path, **{"items": [1, 2, 3], **columns})


def rows(data: ap.Interactions) -> list[tuple[Any, ...]]:
    user = data.user_ids[data.user_of_row].tolist()
    item = data.item_ids[data.by_user.other].tolist()
    rating = [] if data.by_user.rating is None else [data.by_user.rating.tolist()]
    return list(zip(user, item, *rating, strict=True))


# Paths


@pytest.mark.parametrize("name", ["d[1].csv", "r*.csv", "r?.csv", "{d1}.csv", "p[1].parquet"])
def test_a_path_is_no_pattern(tmp_path: Path, name: str) -> None:
    frames = [pl.DataFrame({"user": ["a"], "item": [item], "rating": [1.0]}) for item in (1, 2)]
    for decoy in ("d1.csv", "rx.csv"):
        frames[0].write_csv(tmp_path / decoy)
    frames[0].write_parquet(tmp_path / "p1.parquet")
    with (tmp_path / name).open("wb") as file:
        (frames[1].write_parquet if name.endswith("t") else frames[1].write_csv)(file)
    assert rows(read(tmp_path / name)) == [("a", 2, 1.0)]


@pytest.mark.parametrize("name", ["d[1].csv", "r*.csv", "dir[1]", "*"])
def test_what_only_a_pattern_would_find_is_not_there(tmp_path: Path, name: str) -> None:
    (tmp_path / "d1.csv").write_text(HEADER + "a,1,1\n")
    (tmp_path / "rx.csv").write_text(HEADER + "a,1,1\n")
    (tmp_path / "dir1").mkdir()
    with pytest.raises(ap.DataError, match="there is no file or folder"):
        read(tmp_path / name)


@pytest.mark.parametrize("name", ["dir[1]", "year=2024", "*"])
def test_a_folder_is_read_with_its_sub_folders(tmp_path: Path, name: str) -> None:
    other, folder = tmp_path / "dir1", tmp_path / name
    for place in (other, folder / "a[1]" / "b", folder / "_temporary", folder / ".hidden"):
        place.mkdir(parents=True)
    frame = pl.DataFrame({"user": ["a", "b"], "item": [1, 2], "rating": [1.0, 2.0]})
    with (folder / "a[1]" / "b" / "part*.parquet").open("wb") as file:
        frame[1:].write_parquet(file)
    frame[:1].write_parquet(folder / "one.PQ")
    for unread in (other, folder / "_temporary", folder / ".hidden"):
        frame.write_parquet(unread / "rest.parquet")
    (folder / "_SUCCESS").touch()
    assert rows(read(folder)) == [("a", 1, 1.0), ("b", 2, 2.0)]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_sub_folder_that_cannot_be_read_is_not_left_out(tmp_path: Path) -> None:
    pl.DataFrame({"user": [1], "item": [1], "rating": [1.0]}).write_parquet(tmp_path / "a.parquet")
    (tmp_path / "b").mkdir(mode=0)
    with pytest.raises(ap.DataError, match="cannot be read"):
        read(tmp_path)


def test_a_home_is_not_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "~").mkdir()
    (tmp_path / "rows.csv").write_text(HEADER + "a,1,1\n")
    (tmp_path / "~" / "rows.csv").write_text(HEADER + "a,2,1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert rows(read(Path("~/rows.csv"))) == [("a", 2, 1.0)]


# The type of items


def both_ways(path: Path, items: list[Any]) -> list[ap.Interactions]:
    """Read in Python, and as on the command line."""
    listed = path.with_name("items.txt")
    listed.write_text("".join(f"{item}\n" for item in items))
    return [read(path, items=items, rating=None), Source(path, implicit=True).read(items=listed)]


@pytest.mark.parametrize("items", [["1", "2", "x"], [1, 2, 3]])
def test_no_row_decides_the_type_of_the_items(tmp_path: Path, items: list[Any]) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("user,item\na,1\nb,2\n")
    text = isinstance(items[0], str)
    for data in both_ways(path, items):
        assert data.item_ids.tolist() == items
        assert rows(data) == [("a", items[0]), ("b", items[1])]
    path.write_text(f"user,item\na,1\nb,2\nc,{'x' if text else '3'}\n")
    for data in both_ways(path, items):
        assert rows(data)[2] == ("c", items[2])


def test_a_catalog_of_strings_that_look_like_numbers(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("user,item\na,1\nb,2\n")
    assert rows(read(path, items=["1", "2"], rating=None)) == [("a", "1"), ("b", "2")]
    assert rows(read(path, items=[b"1", b"2"], rating=None)) == [("a", b"1"), ("b", b"2")]
    path.write_text(f"user,item\na,{2**64 - 1}\n")
    assert rows(read(path, items=[2**64 - 1], rating=None)) == [("a", 2**64 - 1)]


@pytest.mark.parametrize("items", [3, [0, 1, 2]])
def test_an_item_that_is_no_number_is_not_in_a_catalog_of_numbers(
    tmp_path: Path, items: Any
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("user,item\na,1\nb,secret\n")
    with pytest.raises(ap.DataError, match="item: row 1 is no whole number") as caught:
        read(path, items=items, rating=None)
    assert "secret" not in str(caught.value)


# Ids as they are written


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame", "pandas", "list", "array"])
@pytest.mark.parametrize(
    "texts",
    [[" 1", "1 ", "1", "\t1", "1\u2003"], ["x ", " x", "x"], ["é", "e\u0301", " é"]],
    ids=["numbers", "text", "normal forms"],
)
def test_one_user_however_the_id_is_written(tmp_path: Path, kind: str, texts: list[str]) -> None:
    columns: dict[str, Any] = {
        "user": texts,
        "item": [1] * len(texts),
        "rating": [1.0] * len(texts),
    }
    if kind in ("csv", "parquet"):
        path = tmp_path / f"rows.{kind}"
        (pl.DataFrame(columns).write_csv if kind == "csv" else pl.DataFrame(columns).write_parquet)(
            path
        )
        data = read(path)
    elif kind in ("frame", "pandas"):
        data = ap.Interactions.from_frame(
            (pl if kind == "frame" else pd).DataFrame(columns), items=3
        )
    else:
        user = texts if kind == "list" else np.array(texts)
        data = ap.Interactions(user, columns["item"], columns["rating"], items=3)
    assert [str(user) for user in data.user_ids] == [texts[0].strip()]
    assert len(data.by_user.other) == 1


def test_one_user_in_tasks_and_items_written_in_two_ways() -> None:
    tasks = ap.TaskData([" a", "a"], ["é ", "e\u0301"], np.ones((2, 1)), tasks=["e\u0301", "b "])
    assert tasks.graph.user_sizes().tolist() == [1]
    assert tasks.task_ids.tolist() == ["é", "b"]
    with pytest.raises(ap.ParameterError, match="the same task twice"):
        ap.TaskData(["a"], ["é"], [[1.0]], tasks=["é", "e\u0301"])
    with pytest.raises(ap.DataError, match="user_ids must be 2 different ids"):
        ap.TaskData([0, 1], [0, 0], np.ones((2, 1)), per_user=True, user_ids=["a", "a "])


def test_ids_with_half_a_surrogate_pair_are_written_in_two_ways() -> None:
    ids, codes = number_ids(read_column("user", ["\ud800 ", "\ud800", "b"]))
    assert ids.tolist() == ["b", "\ud800"]
    assert codes.tolist() == [1, 1, 0]


def test_other_ids_stay_apart() -> None:
    values = ["7", "07", "+7", "7.0", "a", "A", "a b", "a  b", "ﬁ", "fi", b"x "]
    for kind in (values[:-1], values[-1:]):
        assert len(number_ids(read_column("user", kind))[0]) == len(kind)


# What is no row, and what is no data


@pytest.mark.parametrize("end", ["\n", "\n\n\n", "\r\n\r\n", "\n   \n", "\n \t\n\n"])
@pytest.mark.parametrize("between", ["", "\n", " \n"])
def test_blank_lines_are_no_rows(tmp_path: Path, end: str, between: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(f"user,item,rating\n1,1,3\n{between}2,2,4{end}".encode())
    assert rows(read(path)) == [(1, 1, 3.0), (2, 2, 4.0)]


def test_a_row_with_a_gap_is_not_a_blank_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("user,item,rating,when\n1,1,3,5\n,,,5\n")
    with pytest.raises(ap.DataError, match="row 1 is missing"):
        read(path)


@pytest.mark.parametrize("header", ["user,user,item,rating", "user,item,rating,rating"])
def test_a_column_that_is_there_twice(tmp_path: Path, header: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"{header}\n1,1,1,1\n")
    with pytest.raises(ap.DataError, match=r"rows\.csv has 2 columns '(user|rating)'"):
        read(path)
    path.write_text("user,user_duplicated_0,item,rating\n1,1,1,1\n")
    assert rows(read(path)) == [(1, 1, 1.0)]


def test_a_header_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("user,item,when\n1,1,5\nuser,item,when\n2,2,6\n")
    with pytest.raises(ap.DataError, match="row 1 repeats the header"):
        read(path, rating=None)
    path.write_text("user,item,when\n1,item,5\nuser,item,9\n")  # a user may be called so
    assert len(rows(read(path, rating=None, items="public"))) == 2


@pytest.mark.parametrize("column", ["user", "item", "rating"])
def test_masked_arrays_are_refused(column: str) -> None:
    columns: dict[str, Any] = {"user": [1, 2], "item": [0, 1], "rating": [1.0, 2.0]}
    for mask in ([False, True], False):
        masked = np.ma.masked_array(columns[column], mask=mask)
        with pytest.raises(ap.DataError, match=f"{column} is a masked array"):
            ap.Interactions(**{**columns, column: masked}, items=2)


@pytest.mark.parametrize("column", ["user", "task", "features", "labels"])
def test_masked_arrays_of_tasks_are_refused(column: str) -> None:
    columns: dict[str, Any] = {
        "user": [1, 2], "task": [0, 1], "features": [[1.0], [2.0]], "labels": [1.0, 2.0],
    }  # fmt: skip
    masked = np.ma.masked_array(columns[column], mask=False)
    with pytest.raises(ap.DataError, match=f"{column} is a masked array"):
        ap.TaskData(**{**columns, column: masked}, tasks=2)


DATES = [
    np.array(["2020-01-01", "2020-01-02"], "datetime64[D]"),
    np.array([1, 2], "timedelta64[s]"),
    np.array([np.datetime64("2020-01-01"), 1.0], dtype=object),
    pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02"])),
    pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02"])).dt.tz_localize("UTC"),
    pl.Series(["2020-01-01", "2020-01-02"]).str.to_date(),
    pl.Series([1, 2]).cast(pl.Duration),
]


@pytest.mark.parametrize("dates", DATES, ids=range(len(DATES)))
def test_dates_are_no_numbers(dates: Any) -> None:
    with pytest.raises(ap.DataError, match="rating must hold numbers only"):
        ap.Interactions([1, 2], [0, 1], dates, items=2)
    with pytest.raises(ap.DataError, match="labels must hold numbers only"):
        ap.TaskData([1, 2], [0, 1], [[1.0], [2.0]], dates, tasks=2)
    with pytest.raises(ap.DataError, match="features must hold numbers only"):
        ap.TaskData([1, 2], [0, 1], np.asarray(dates)[:, None], tasks=2)


@pytest.mark.parametrize(("kind", "bits"), [(np.float16, 11), (np.float32, 24), (np.float64, 53)])
def test_floats_as_ids_end_where_they_would_merge(kind: Any, bits: int) -> None:
    last = 2**bits - 1
    assert number_ids(read_column("user", np.array([last, 1], kind)))[0].tolist() == [1, last]
    for values in (np.array([2**bits, 1], kind), pl.Series(np.array([2**bits, 1], np.float32))):
        if (len(values) and bits <= 24) or values.dtype == kind:
            with pytest.raises(ap.DataError, match=rf"not a whole number below 2\^{bits}"):
                read_column("user", np.asarray(values, dtype=kind))


class Streamed:
    """A table of a library that nobody knows here: DuckDB, ibis and narwhals give the same stream."""

    def __init__(self, table: Any, columns: list[str] | None = None) -> None:
        self.table = table
        if columns is not None:
            self.columns = columns

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


class Broken:
    """A query that fails when it is run, and says so with what it found."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise RuntimeError("no number: 'Alice'")


EVENTS: dict[str, Any] = {"rating": None, "items": "public"}


@pytest.mark.parametrize("columns", [None, ["user", "item"]])
def test_whatever_gives_arrow_streams_is_a_table(columns: list[str] | None) -> None:
    table = pa.table({"item": [3, 1, 3], "user": ["a", "b", "b"], "other": [1.0, 2.0, 3.0]})
    found = ap.Interactions.from_frame(Streamed(table, columns), **EVENTS)
    expected = ap.Interactions.from_frame(table, **EVENTS)
    assert found.to_frame().equals(expected.to_frame())
    with pytest.raises(ap.DataError, match="no column 'rating'"):
        ap.Interactions.from_frame(Streamed(table), rating_range=(1, 5), items="public")
    with pytest.raises(ap.DataError, match=r"cannot be read \(RuntimeError\)") as caught:
        ap.Interactions.from_frame(Broken(), **EVENTS)
    assert "Alice" not in str(caught.value)


def test_uuids_are_ids() -> None:
    ids = [UUID(int=n) for n in (7, 2, 7)]
    named = [str(each) for each in ids]
    expected = ap.Interactions(named, [0, 1, 2], items="public")
    for users in (ids, np.array(ids, object), pd.Series(ids)):
        found = ap.Interactions(users, [0, 1, 2], items="public")
        assert found.user_ids.tolist() == expected.user_ids.tolist()
        assert (found.user_of_row == expected.user_of_row).all()
    with pytest.raises(ap.DataError, match="row 1 is missing"):
        ap.Interactions([ids[0], None], [0, 1], items="public")


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-be", "cp1252", "utf-8-sig"])
@pytest.mark.parametrize("packed", [False, True])
def test_encodings_by_name(encoding: str, packed: bool, tmp_path: Path) -> None:
    text = "user,item\nJosé,1\nZoë,2\nJosé,3\n"
    path = tmp_path / ("rows.csv.gz" if packed else "rows.csv")
    content = text.encode(encoding)
    path.write_bytes(gzip.compress(content) if packed else content)
    found = ap.Interactions.from_path(path, encoding=encoding, **EVENTS)
    assert found.user_ids.tolist() == ["José", "Zoë"]


def test_encodings_that_do_not_fit(tmp_path: Path) -> None:
    path, text = tmp_path / "rows.csv", "user,item\nJosé,1\n"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(
        ap.DataError, match=r"is not UTF-8: name its encoding, as in encoding='latin-1'"
    ):
        ap.Interactions.from_path(path, **EVENTS)
    with pytest.raises(ap.DataError, match="is not ascii"):
        ap.Interactions.from_path(path, encoding="ascii", **EVENTS)
    for name in ("nonsense", "base64", 3):
        with pytest.raises(ap.ParameterError, match="encoding"):
            ap.Interactions.from_path(path, encoding=name, **EVENTS)
    path.write_bytes(text.encode("utf-16"))
    with pytest.raises(ap.DataError, match="is UTF-16: name its encoding"):
        ap.Interactions.from_path(path, **EVENTS)
