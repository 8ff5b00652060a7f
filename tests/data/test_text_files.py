"""CSV files as people have them: separators, quotes, compression, several files."""

import gzip
import struct
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import apportion as ap
from apportion.data.files import is_text
from apportion.data.text_files import _told_size
from tests.data.test_reading import rows
from tests.machines import this_much_memory

ROWS = [("ann", "Alien, the film", 4.0), ("ann", "Brazil; 1985", 2.0), ("bob", 'say "no"', 5.0)]
FRAME = pl.DataFrame(ROWS, schema=["user", "item", "rating"], orient="row")


def read(path: Any, **more: Any) -> ap.Interactions:
    return ap.Interactions.from_path(path, items="public", rating_range=(1, 5), **more)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", ":"])
@pytest.mark.parametrize("style", ["always", "necessary"])
def test_separators_are_found_or_given(tmp_path: Path, separator: str, style: Any) -> None:
    FRAME.write_csv(tmp_path / "a.txt", separator=separator, quote_style=style)
    given = {} if separator != ":" else {"separator": ":"}
    assert rows(read(tmp_path / "a.txt", **given)) == ROWS


@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_names_may_be_quoted_and_have_others_around(tmp_path: Path, start: str) -> None:
    text = start + '"item";"a,b";"user";"rating"\n"x";"1,2";"ann";"3"\n'
    (tmp_path / "a.csv").write_text(text, "utf-8")
    assert rows(read(tmp_path / "a.csv")) == [("ann", "x", 3.0)]


def test_other_quotes_and_none(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user,item,rating\nann,'x,y',3\n")
    assert rows(read(tmp_path / "a.csv", quote="'")) == [("ann", "x,y", 3.0)]
    (tmp_path / "b.tsv").write_text('user\titem\trating\nann\t"x\t3\n')
    assert rows(read(tmp_path / "b.tsv", quote=None)) == [("ann", '"x', 3.0)]


@pytest.mark.parametrize(("name", "value"), [("separator", "::"), ("quote", ""), ("quote", "é")])
def test_signs_that_are_none(tmp_path: Path, name: str, value: str) -> None:
    FRAME.write_csv(tmp_path / "a.csv")
    with pytest.raises(ap.ParameterError, match=f"{name} must be one ASCII character"):
        read(tmp_path / "a.csv", **{name: value})


@pytest.mark.parametrize("name", ["a.csv.gz", "a.gz", "a.csv"])
def test_gzip(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(FRAME.write_csv(separator=";").encode()))
    assert rows(read(tmp_path / name)) == ROWS


def test_zstandard(tmp_path: Path) -> None:
    FRAME.write_csv(tmp_path / "a.csv")
    try:
        subprocess.run(["zstd", "-q", "a.csv"], cwd=tmp_path, check=True)
    except OSError:
        pytest.skip("there is no command zstd")
    assert rows(read(tmp_path / "a.csv.zst")) == ROWS
    size = (tmp_path / "a.csv").stat().st_size
    assert _told_size((tmp_path / "a.csv.zst").read_bytes()[:18]) == size


@pytest.mark.parametrize("size", [10, 300, 70_000, 2**40])
def test_the_size_that_zstandard_tells(size: int) -> None:
    # RFC 8878, 3.1.1.1: one segment, so no window; a field of 1, 2, 4 or 8 bytes.
    code = 0 if size < 256 else 1 if size < 2**16 + 256 else 2 if size < 2**32 else 3
    field = struct.pack("<Q", size - (256 if code == 1 else 0))[: (1, 2, 4, 8)[code]]
    start = b"\x28\xb5\x2f\xfd" + bytes([code << 6 | 1 << 5]) + field
    assert _told_size(start.ljust(18, b"\0")) == size


def test_what_no_memory_holds_is_not_unpacked(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"user,item,rating\n" + b"\n" * 2**24))
    with this_much_memory(2**22), pytest.raises(ap.DataError, match="does not fit into the memory"):
        read(tmp_path / "a.csv.gz")
    huge = b"\x28\xb5\x2f\xfd" + bytes([3 << 6 | 1 << 5]) + struct.pack("<Q", 2**50)
    (tmp_path / "a.zst").write_bytes(huge.ljust(40, b"\0"))
    with pytest.raises(ap.DataError, match="does not fit into the memory"):
        read(tmp_path / "a.zst")


@pytest.mark.parametrize("keep", [5, 30, -5])
def test_files_cut_short(tmp_path: Path, keep: int) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(FRAME.write_csv().encode())[:keep])
    with pytest.raises(ap.DataError, match=r"a\.csv\.gz cannot be read"):
        read(tmp_path / "a.csv.gz")


def test_several_files_and_a_folder_of_them(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    FRAME[:1].write_csv(folder / "a.csv")
    FRAME[1:].select("rating", "item", "user").write_csv(folder / "b.tsv", separator="\t")
    (folder / "README").write_text("not data")
    files = [folder / "a.csv", str(folder / "b.tsv")]
    assert rows(read(files)) == rows(read(files[::-1])) == rows(read(folder)) == ROWS
    assert is_text(folder)
    # One odd id makes text of all: of one column there is one type.
    pl.DataFrame({"user": [1], "item": ["x"], "rating": [1]}).write_csv(folder / "c.csv")
    assert ("1", "x", 1.0) in rows(read(folder))


def test_what_goes_with_nothing(tmp_path: Path) -> None:
    FRAME.write_csv(tmp_path / "a.csv")
    FRAME.write_parquet(tmp_path / "a.parquet")
    for files in ([tmp_path / "a.csv", tmp_path / "a.parquet"], []):
        with pytest.raises(ap.DataError, match="one or more files, all of them"):
            read(files)
    with pytest.raises(ap.DataError, match="there is no file or folder"):
        read([tmp_path / "a.csv", tmp_path / "b.csv"])
    FRAME.rename({"rating": "stars"}).write_csv(tmp_path / "c.csv")
    with pytest.raises(ap.DataError, match=r"c\.csv has no column 'rating'"):
        read([tmp_path / "a.csv", tmp_path / "c.csv"])


def test_lazy_tables() -> None:
    lazy = FRAME.lazy().with_columns(other=1)
    whole = {"items": "public", "rating_range": (1, 5)}
    assert rows(ap.Interactions.from_frame(lazy, **whole)) == ROWS
    with pytest.raises(ap.DataError, match="no column 'stars'"):
        ap.Interactions.from_frame(lazy, rating="stars", **whole)
    broken = FRAME.lazy().with_columns(pl.col("item").cast(pl.Int64))
    with pytest.raises(ap.DataError, match="the table cannot be read") as error:
        ap.Interactions.from_frame(broken, **whole)
    assert "Alien" not in str(error.value)
