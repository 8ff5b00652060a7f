"""Readers of the known data sets: on small archives of the same format, and on a real one if at hand."""

import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

import apportion as ap
from apportion.data.datasets import DATA_SETS, read_data_set, read_titles
from apportion.data.interactions import Interactions

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "ml-1m.zip"

FLAGS = "|".join("1" if flag in (3, 5) else "0" for flag in range(19))
TITLES = {10: "Les Misérables (1995)", 20: "Alien: Part 2, the Return (1986)"}
GENRES = "Animation|Comedy"

# Two users and two items each; ann rates 10 and 20, bob 20.
FILES: dict[str, dict[str, bytes]] = {
    "ml-100k": {
        "ml-100k/u.data": b"1\t10\t5\t881250949\n1\t20\t3\t1\n2\t20\t4\t1\n",
        "ml-100k/u.item": "".join(
            f"{item}|{title}|01-Jan-1995||http://imdb|{FLAGS}\n" for item, title in TITLES.items()
        ).encode("latin-1"),
    },
    "ml-1m": {
        "ml-1m/ratings.dat": b"1::10::5::978300760\n1::20::3::1\n2::20::4::1\n",
        "ml-1m/movies.dat": "".join(
            f"{item}::{title}::{GENRES}\n" for item, title in TITLES.items()
        ).encode("latin-1"),
    },
    "ml-10m": {
        "ml-10M100K/ratings.dat": b"1::10::5::838985046\n1::20::3::1\n2::20::4::1\n",
        "ml-10M100K/movies.dat": "".join(
            f"{item}::{title}::{GENRES}\n" for item, title in TITLES.items()
        ).encode(),
    },
    "ml-20m": {
        "ml-20m/ratings.csv": b"userId,movieId,rating,timestamp\n1,10,5.0,1\n1,20,3.0,1\n2,20,4.0,1\n",
        "ml-20m/movies.csv": (
            f"movieId,title,genres\n10,{TITLES[10]},{GENRES}\n"
            f'20,"{TITLES[20]}",{GENRES}\n'
        ).encode(),
    },
    "msd": {"train_triplets.txt": b"u1\tSOA\t5\nu1\tSOB\t3\nu2\tSOB\t4\n"},
}  # fmt: skip
WITH_TITLES = [name for name in FILES if name != "msd"]


def write_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def write_folder(path: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def check(data: Interactions, name: str) -> None:
    assert (data.users, data.items) == (2, 2)
    np.testing.assert_array_equal(data.by_user.start, [0, 2, 3])
    np.testing.assert_array_equal(data.by_user.other, [0, 1, 1])
    np.testing.assert_array_equal(data.by_user.rating, [5, 3, 4])
    assert data.item_ids.tolist() == (["SOA", "SOB"] if name == "msd" else [10, 20])
    assert data.rating_range == DATA_SETS[name].rating_range
    assert data.catalog_from_data  # declared public, and the report says so


def test_every_data_set_is_tested() -> None:
    assert set(FILES) == set(DATA_SETS)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("write", [write_zip, write_folder])
def test_ratings(name: str, write: object, tmp_path: Path) -> None:
    assert callable(write)
    check(read_data_set(name, write(tmp_path / "data", FILES[name])), name)


@pytest.mark.parametrize("name", WITH_TITLES)
@pytest.mark.parametrize("write", [write_zip, write_folder])
def test_titles(name: str, write: object, tmp_path: Path) -> None:
    assert callable(write)
    titles = read_titles(name, write(tmp_path / "data", FILES[name]))
    assert titles.columns == ["item", "title", "genres"]
    assert dict(titles.select("item", "title").iter_rows()) == TITLES
    assert titles["genres"].to_list() == [GENRES, GENRES]


def test_windows_line_ends(tmp_path: Path) -> None:
    files = {name: c.replace(b"\n", b"\r\n") for name, c in FILES["ml-100k"].items()}
    archive = write_zip(tmp_path / "data.zip", files)
    check(read_data_set("ml-100k", archive), "ml-100k")
    assert read_titles("ml-100k", archive)["genres"].to_list() == [GENRES, GENRES]


def test_the_names_of_data_sets() -> None:
    with pytest.raises(ap.ParameterError, match="there is no data set 'ml-2m'; there are ml-100k"):
        read_data_set("ml-2m", "anywhere")
    with pytest.raises(ap.DataError, match="msd comes without titles"):
        read_titles("msd", "anywhere")


def test_a_missing_archive(tmp_path: Path) -> None:
    with pytest.raises(ap.DataError, match="there is no file or folder"):
        read_data_set("ml-1m", tmp_path / "none.zip")


@pytest.mark.parametrize("write", [write_zip, write_folder])
def test_an_archive_of_something_else(write: object, tmp_path: Path) -> None:
    assert callable(write)
    place = write(tmp_path / "data", FILES["ml-20m"])
    with pytest.raises(ap.DataError, match=r"there is no file ratings\.dat in the"):
        read_data_set("ml-1m", place)


def test_a_file_that_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "data.zip"
    for content in (b"", b"<html>not found</html>"):
        path.write_bytes(content)
        with pytest.raises(ap.DataError, match="not a zip archive, or is damaged"):
            read_data_set("ml-1m", path)


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_a_truncated_archive(keep: float, tmp_path: Path) -> None:
    path = write_zip(tmp_path / "data.zip", FILES["ml-1m"])
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(ap.DataError, match="not a zip archive, or is damaged"):
        read_data_set("ml-1m", path)


def test_damage_anywhere_in_an_archive_is_an_error_of_ours_or_harmless(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "data.zip", {"ratings.dat": b"1::10::5::1\n" * 50})
    content = path.read_bytes()
    refused = 0
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        try:
            assert read_data_set("ml-1m", path).users == 1
        except ap.DataError:
            refused += 1
    assert refused > len(content) / 2


@pytest.mark.parametrize("claim", [5, 10_000, 2**32 - 2])
def test_an_archive_that_lies_about_a_size(claim: int, tmp_path: Path) -> None:
    content = b"1::10::5::1\n" * 50
    path = write_zip(tmp_path / "data.zip", {"ratings.dat": content})
    true, lie = struct.pack("<L", len(content)), struct.pack("<L", claim)
    raw = path.read_bytes()
    assert raw.count(true) == 2  # in the entry and in the directory at the end
    path.write_bytes(raw.replace(true, lie))
    with pytest.raises(ap.DataError, match=r"data\.zip"):
        read_data_set("ml-1m", path)


def test_an_encrypted_archive(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "data.zip", {"ratings.dat": b"1::10::5::1\n"})
    raw = bytearray(path.read_bytes())
    raw[6] |= 1
    raw[raw.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(raw)
    with pytest.raises(ap.DataError, match="not a zip archive, or is damaged"):
        read_data_set("ml-1m", path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read"),
        (b"1::10\n", "too few columns"),
        (b"1::10::5::1\nsecret::10::5::1\n", "does not hold ratings of ml-1m"),
        (b"1::10::secret::1\n", "does not hold ratings of ml-1m"),
        (b"1::10::6::1\n", "rating: row 0 is outside 1 to 5"),
        (b"1::10::5::1\n1::20\n", "rating: row 1 is missing"),
        (b"1::10::5::1\n::20::3::1\n", "user: row 1 is missing"),
        (b"1::10::5::1\n1::10::5::1::7::8\n", "cannot be read"),
    ],
)
def test_files_of_another_form(content: bytes, message: str, tmp_path: Path) -> None:
    write_folder(tmp_path, {"ratings.dat": content})
    with pytest.raises(ap.DataError, match=message) as caught:
        read_data_set("ml-1m", tmp_path)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [
        ("ml-100k", "u.item", b"1|Title\n"),
        ("ml-100k", "u.item", b"one|Title|||" + b"|0" * 19 + b"\n"),
        ("ml-1m", "movies.dat", b"one::Title::Drama\n"),
        ("ml-1m", "movies.dat", b"1::Title\n"),
        ("ml-20m", "movies.csv", b""),
    ],
)
def test_titles_of_another_form(name: str, file: str, content: bytes, tmp_path: Path) -> None:
    write_folder(tmp_path, {file: content})
    with pytest.raises(ap.DataError, match=name):
        read_titles(name, tmp_path)


@pytest.mark.skipif(not REAL.exists(), reason="ml-1m.zip is not at hand")
def test_the_real_ml_1m() -> None:
    data = read_data_set("ml-1m", REAL)
    assert (data.users, data.items, len(data.by_user.other)) == (6040, 3706, 1_000_209)
    titles = read_titles("ml-1m", REAL)
    assert titles.height == 3883
    assert titles.row(0) == (1, "Toy Story (1995)", "Animation|Children's|Comedy")
    assert set(data.item_ids.tolist()) <= set(titles["item"].to_list())
