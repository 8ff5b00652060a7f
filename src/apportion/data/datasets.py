"""Public data sets: reading their original archives, and fetching them."""

import hashlib
import http.client
import io
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import polars as pl

from apportion.data.files import is_there
from apportion.data.interactions import Interactions
from apportion.errors import DataError, ParameterError

# No file of these archives is larger; more would be an archive built to fill the memory.
_MOST_BYTES = 4 * 2**30


@dataclass(frozen=True)
class DataSet:
    """Where a data set comes from and how its files look.

    Attributes
        ratings, titles: the names of its files, without folders; None if there is no such file.
        separator: between fields.
        columns: the first columns of the ratings: user, item, rating.
        header: whether files begin with the names of their columns.
        encoding: of the titles.
        rating_range: the smallest and largest rating; None for plays and other counts.
        url, md5: of the archive; None if it has to be fetched by hand.
        licence: a notice to show before use.
    """

    name: str
    ratings: str
    titles: str | None
    separator: str
    header: bool
    rating_range: tuple[float, float] | None
    url: str
    md5: str | None
    licence: str
    encoding: str = "utf-8"
    columns: tuple[str, str, str] = ("user", "item", "rating")


_MOVIELENS = (
    "MovieLens data is for research under GroupLens' terms: no redistribution without permission, no "
    "commercial use without permission, acknowledge it in publications. See the README in the archive."
)
_HOST = "https://files.grouplens.org/datasets/movielens"

# The genres of ml-100k, in the order of its flags.
_GENRES = (
    "unknown", "Action", "Adventure", "Animation", "Children", "Comedy", "Crime", "Documentary", "Drama",
    "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War",
    "Western",
)  # fmt: skip

DATA_SETS = {
    data_set.name: data_set
    for data_set in (
        DataSet(
            "ml-100k", "u.data", "u.item", "\t", False, (1.0, 5.0), f"{_HOST}/ml-100k.zip",
            "0e33842e24a9c977be4e0107933c0723", _MOVIELENS, "latin-1",
        ),
        DataSet(
            "ml-1m", "ratings.dat", "movies.dat", "::", False, (1.0, 5.0), f"{_HOST}/ml-1m.zip",
            "c4d9eecfca2ab87c1945afe126590906", _MOVIELENS, "latin-1",
        ),
        DataSet(
            "ml-10m", "ratings.dat", "movies.dat", "::", False, (0.5, 5.0), f"{_HOST}/ml-10m.zip",
            "ce571fd55effeba0271552578f2648bd", _MOVIELENS,
        ),
        DataSet(
            "ml-20m", "ratings.csv", "movies.csv", ",", True, (0.5, 5.0), f"{_HOST}/ml-20m.zip",
            "cd245b17a1ae2cc31bb14903e1204af3", _MOVIELENS,
        ),
        DataSet(
            "msd", "train_triplets.txt", None, "\t", False, None,
            "http://millionsongdataset.com/sites/default/files/challenge/train_triplets.txt.zip",
            None, "The Echo Nest Taste Profile Subset is for research; see millionsongdataset.com.",
        ),
    )
}  # fmt: skip


def find_data_set(name: str) -> DataSet:
    """The data set of this name."""
    if name not in DATA_SETS:
        raise ParameterError(f"there is no data set {name!r}; there are {', '.join(DATA_SETS)}")
    return DATA_SETS[name]


def read_data_set(name: str, path: str | Path) -> Interactions:
    """Read a data set from its zip archive or from a folder that holds its files.

    The items of the data are declared public: these are public research data.
    """
    data_set = find_data_set(name)
    frame = _table(data_set, _content(Path(path), data_set.ratings), data_set.columns)
    try:
        frame = frame.with_columns(pl.col("rating").cast(pl.Float32))
        if name != "msd":
            frame = frame.with_columns(pl.col("user", "item").cast(pl.Int64))
    except pl.exceptions.PolarsError:
        raise DataError(f"{data_set.ratings} in {path} does not hold ratings of {name}") from None
    return Interactions.from_frame(frame, items="public", rating_range=data_set.rating_range)


def read_titles(name: str, path: str | Path) -> pl.DataFrame:
    """The items' ids, titles and genres (joined by "|"), as columns item, title and genres."""
    data_set = find_data_set(name)
    if data_set.titles is None:
        raise DataError(f"{name} comes without titles")
    content = _content(Path(path), data_set.titles).decode(data_set.encoding, "replace")
    try:
        if name == "ml-100k":
            return _titles_with_flags(content)
        frame = _table(data_set, content.encode(), ("item", "title", "genres"))
        return frame.with_columns(pl.col("item").cast(pl.Int64))
    except (pl.exceptions.PolarsError, ValueError, IndexError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{data_set.titles} in {path} does not hold titles of {name}") from None


def _titles_with_flags(content: str) -> pl.DataFrame:
    """The titles of ml-100k: id | title | two dates | address | a flag for each genre."""
    rows = [line.split("|") for line in content.split("\n") if line.strip()]
    genres = [
        "|".join(name for name, flag in zip(_GENRES, row[5:], strict=True) if flag.strip() == "1")
        for row in rows
    ]
    return pl.DataFrame(
        {"item": [int(row[0]) for row in rows], "title": [row[1] for row in rows], "genres": genres}
    )


def _content(path: Path, name: str) -> bytes:
    """The bytes of the file of this name, anywhere in a folder or in a zip archive."""
    if not is_there(path):
        raise DataError(f"there is no file or folder {path}")
    if path.is_dir():
        found = sorted(path.rglob(name))
        if not found:
            raise DataError(f"there is no file {name} in the folder {path}")
        try:
            return found[0].read_bytes()
        except OSError as error:
            raise DataError(f"{found[0]} cannot be read ({type(error).__name__})") from None
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [e for e in archive.infolist() if e.filename.rsplit("/", 1)[-1] == name]
            if not entries:
                raise DataError(f"there is no file {name} in the archive {path}")
            if entries[0].file_size > _MOST_BYTES:
                raise DataError(f"{name} in {path} claims to be too large to be that file")
            with archive.open(entries[0]) as file:
                content = file.read(_MOST_BYTES + 1)
            if len(content) != entries[0].file_size:
                raise DataError(f"{name} in {path} is not as large as the archive says")
            return content
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
        raise DataError(
            f"{path} is not a zip archive, or is damaged ({type(error).__name__})"
        ) from None


def _table(data_set: DataSet, content: bytes, columns: tuple[str, ...]) -> pl.DataFrame:
    separator = data_set.separator
    if separator == "::":  # a title may hold ":", so use a character that no file holds
        content, separator = content.replace(b"::", b"\x1f"), "\x1f"
    quote = '"' if separator == "," else None
    try:
        frame = pl.read_csv(
            io.BytesIO(content),
            separator=separator,
            has_header=data_set.header,
            quote_char=quote,
            infer_schema=False,
        )
    except pl.exceptions.PolarsError as error:
        raise DataError(
            f"a file of {data_set.name} cannot be read ({type(error).__name__})"
        ) from None
    if frame.width < len(columns):
        raise DataError(f"a file of {data_set.name} has too few columns")
    return frame.select(
        pl.col(old).alias(new) for old, new in zip(frame.columns, columns, strict=False)
    )


def fetch(
    data_set: DataSet,
    path: Path,
    open_url: Callable[[str, int], tuple[IO[bytes], int]],
    on_bytes: Callable[[int, int], object] | None = None,
) -> Path:
    """Fetch a data set's archive to a path, going on where an interrupted fetch stopped.

    Args:
        data_set: which.
        path: the archive's file. Until it is complete and its checksum is right, the bytes are in a
            file beside it that ends in ``.part``.
        open_url: opens an address at an offset; returns the stream and the offset it really starts at.
        on_bytes: told the bytes done so far and in all (0 if unknown).
    """
    if path.exists() and data_set.md5 in (None, _md5(path)):
        return path
    part = path.with_name(path.name + ".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    have = part.stat().st_size if part.exists() else 0
    stream, offset = open_url(data_set.url, have)
    length = int(getattr(stream, "length", None) or 0)
    total = offset + length if length else 0
    done = offset
    try:
        with stream, part.open("ab" if offset else "wb") as file:
            while block := _read_block(stream):
                file.write(block)
                done += len(block)
                if on_bytes is not None:
                    on_bytes(done, total)
    except OSError as error:
        raise DataError(f"cannot write {part}: {error.strerror}; fetch again to go on") from None
    if done < total:
        raise DataError(
            f"the connection broke off after {done:,} of {total:,} bytes; fetch again to go on"
        )
    if data_set.md5 is not None and _md5(part) != data_set.md5:
        part.unlink()
        raise DataError(f"what came from {data_set.url} has a wrong checksum and was deleted")
    part.replace(path)
    return path


def _read_block(stream: IO[bytes]) -> bytes:
    try:
        return stream.read(1 << 20)
    except (OSError, http.client.HTTPException) as error:
        raise DataError(
            f"the connection broke off ({type(error).__name__}); fetch again to go on"
        ) from None


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
