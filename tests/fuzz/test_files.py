"""CSV and Parquet files, lists of ids and titles, archives: read right or refused, telling no row."""

import io
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import apportion as ap
from apportion.cli.reading import read_title_file
from apportion.data.catalog import read_id_list
from apportion.data.datasets import DATA_SETS, read_data_set, read_titles
from tests.fuzz.harness import OUTSIDE, RATING, USER, Fuzz, check_secrets, mutated, seeds, tree
from tests.machines import this_much_memory

ROWS = f"user,item,rating\n{USER},1,{RATING}\n{USER},2,3\nb,1,5\n".encode()


def parquet(**columns: Any) -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame(columns).write_parquet(buffer)
    return buffer.getvalue()


TABLE = parquet(user=[USER, "b", "c"] * 9, item=[1, 2, 3] * 9, rating=[RATING, 3.0, 5.0] * 9)


def use(path: Path) -> ap.Interactions:
    return ap.Interactions.from_path(path, items="public", rating_range=(1, 5))


@pytest.mark.parametrize(("name", "content"), [("rows.csv", ROWS), ("rows.parquet", TABLE)])
def test_bytes_changed(fuzz: Fuzz, tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    for source in seeds(400):
        path.write_bytes(mutated(content, source))
        found = fuzz.case(lambda: use(path))
        assert isinstance(found, (ap.DataError, ap.Interactions))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"user\n",
        b"user,item,rating\n",
        b"user,user,rating\n1,2,3\n",
        b"user,item,rating\n1,2\n",
        b"user,item,rating\n1,2,3,4\n",
        b"\xff\xfe\x00",
        b"user,item,rating\n\xff,1,2\n",
        b'user,item,rating\n"1,2,3\n',
        b"user,item,rating\n\x00,1,2\n",
        f"{USER},1,{RATING}\n".encode(),
        f"user,item,rating\n1,1,{USER}\n".encode(),
        f"user,item,rating\n1,1,{OUTSIDE}\n".encode(),
        f"user,item,rating\n{USER},,3\n".encode(),
        f"user,item,rating\n{USER},1,nan\n{USER},2,inf\n".encode(),
        b"user,item,rating\n" + b"9" * 5000 + b",1,2\n",
        b"user;item;rating\n1;2;3\n",
        b"user,item,rating\r1,2,3\r",
        b"\xef\xbb\xbfuser,item,rating\n1,2,3\n",
        b"user,item,rating\n9223372036854775808,1,2\n-9223372036854775809,1,2\n",
        b"PAR1",
        b"PK\x03\x04",
    ],
)
def test_odd_text(fuzz: Fuzz, tmp_path: Path, content: bytes) -> None:
    for name in ("rows.csv", "rows.txt", "rows.parquet"):
        (tmp_path / name).write_bytes(content)
        fuzz.case(lambda: use(tmp_path / name))
        fuzz.case(lambda: read_id_list(tmp_path / name))
        fuzz.case(lambda: read_title_file(tmp_path / name, np.arange(3)))


@pytest.mark.parametrize(
    "columns",
    [
        {"user": [None, 1], "item": [1, 2], "rating": [1.0, 2.0]},
        {"user": [[1], [2]], "item": [1, 2], "rating": [1.0, 2.0]},
        {"user": [{"a": 1}, {"a": 2}], "item": [1, 2], "rating": [1.0, 2.0]},
        {"user": [1.5, 2.0], "item": [1, 2], "rating": [1.0, 2.0]},
        {"user": [USER, USER], "item": [1, 2], "rating": [USER, "x"]},
        {"user": [1, 2], "item": [True, False], "rating": [1.0, None]},
        {"user": ["x" * 10**7, USER], "item": [1, 2], "rating": [1.0, RATING]},
        {"user": [2**64, 1], "item": [1, 2], "rating": [1.0, 2.0]},
        {"user": pl.Series(["a", "b"], dtype=pl.Categorical), "item": [1, 2], "rating": [1.0, 2.0]},
        {"user": [1, 2], "item": [1, 2], "rating": [[1.0], [2.0]]},
        {"user": [1, 2], "item": [1, 2], "rating": [10.0**300, OUTSIDE]},
    ],
    ids=str,
)
def test_odd_tables(fuzz: Fuzz, tmp_path: Path, columns: dict[str, Any]) -> None:
    (tmp_path / "rows.parquet").write_bytes(parquet(**columns))
    fuzz.case(lambda: use(tmp_path / "rows.parquet"))
    fuzz.case(lambda: read_id_list(tmp_path / "rows.parquet"))


def test_a_table_that_no_memory_holds(fuzz: Fuzz, tmp_path: Path) -> None:
    """Some kilobytes can hold any number of equal rows; the file is refused before it is read."""
    frame = pl.DataFrame({"user": [1], "item": [1], "rating": [1.0]})
    rows = pl.concat([frame] * 2).select(pl.all().repeat_by(500_000).explode())
    rows.write_parquet(tmp_path / "rows.parquet")
    assert (tmp_path / "rows.parquet").stat().st_size < 100_000
    with this_much_memory(2**20):
        found = fuzz.case(lambda: use(tmp_path / "rows.parquet"))
    assert isinstance(found, ap.DataError)
    assert "does not fit into the memory" in str(found)


def test_odd_places(fuzz: Fuzz, tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to("link.csv")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "empty").mkdir()
    for name in ("link.csv", "folder.csv", "empty", "none", "a\0b", "x" * 300, "*.parquet"):
        found = fuzz.case(lambda: use(tmp_path / name))
        assert isinstance(found, ap.DataError)
        found = fuzz.case(lambda: read_data_set("ml-1m", tmp_path / name))
        assert isinstance(found, ap.DataError)


def archive(path: Path, entries: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return path


RATINGS = b"1::10::5::978300760\n1::20::3::1\n2::20::4::1\n"


def test_archives_with_odd_members(fuzz: Fuzz, tmp_path: Path) -> None:
    """Nothing is ever unpacked to the disk, so no name can lead anywhere."""
    odd = [
        "../ratings.dat",
        "/ratings.dat",
        "..\\ratings.dat",
        "a/../../ratings.dat",
        "ratings.dat/",
        "C:/ratings.dat",
    ]
    inner = archive(tmp_path / "inner.zip", {"ratings.dat": RATINGS}).read_bytes()
    cases = [
        *({name: RATINGS} for name in odd),
        {},
        {"ratings.dat": b""},
        {"ratings.dat": inner},
        {"inner.zip": inner},
        {"ratings.dat": b"\0" * 10**6},
        {"ratings.dat": f"{USER}::1::{RATING}::1\n".encode()},
        {"ratings.dat": f"1::1::{OUTSIDE}::1\n".encode()},
        {"ratings.dat": b"1::1\n"},
        {"ratings.dat": b"::::::\n"},
    ]
    for number, entries in enumerate(cases):
        path = archive(tmp_path / f"{number}.zip", entries)
        before = tree(tmp_path)
        for call in (read_data_set, read_titles):
            fuzz.case(lambda: call("ml-1m", path))
        assert tree(tmp_path) == before


def test_archives_changed(fuzz: Fuzz, tmp_path: Path) -> None:
    for name in DATA_SETS:
        entries = {DATA_SETS[name].ratings: RATINGS, DATA_SETS[name].titles or "x": b"1::a::b\n"}
        content = archive(tmp_path / "whole.zip", entries).read_bytes()
        for source in seeds(60):
            (tmp_path / "a.zip").write_bytes(mutated(content, source))
            found = fuzz.case(lambda: read_data_set(name, tmp_path / "a.zip"))
            assert isinstance(found, (ap.DataError, ap.Interactions))


def test_a_zip_bomb(fuzz: Fuzz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever size an archive states, no more than the largest known file is ever read."""
    monkeypatch.setattr("apportion.data.datasets.archive._MOST_BYTES", 10**6)
    path = archive(tmp_path / "a.zip", {"ratings.dat": bytes(10**7)})
    assert path.stat().st_size < 20_000
    found = fuzz.case(lambda: read_data_set("ml-1m", path))
    assert "too large" in str(found)
    content = bytearray(path.read_bytes())  # now it lies about its size
    size = struct.pack("<I", 10**7)
    while (place := content.find(size)) >= 0:
        content[place : place + 4] = struct.pack("<I", 100)
    path.write_bytes(content)
    assert isinstance(fuzz.case(lambda: read_data_set("ml-1m", path)), ap.DataError)


def test_folders_with_links(fuzz: Fuzz, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for target in ("ratings.dat", "/nowhere", "/dev/null", "."):
        (folder / "ratings.dat").unlink(missing_ok=True)
        (folder / "ratings.dat").symlink_to(target)
        assert isinstance(fuzz.case(lambda: read_data_set("ml-1m", folder)), ap.DataError)


def test_a_panic_of_the_reader_is_an_error_of_ours(
    fuzz: Fuzz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def panic(*_: Any, **__: Any) -> Any:
        raise pl.exceptions.PanicException(USER)

    (tmp_path / "rows.parquet").write_bytes(TABLE)
    for name in ("scan_parquet", "scan_csv"):
        monkeypatch.setattr(pl, name, panic)
    found = fuzz.case(lambda: use(tmp_path / "rows.parquet"))
    assert isinstance(found, ap.DataError)
    check_secrets(str(found))
