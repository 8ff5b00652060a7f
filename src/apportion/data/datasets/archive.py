"""What data sets look like, and reading a file of theirs from an archive or a folder."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from apportion.data.files import is_there
from apportion.errors import DataError
from apportion.frames import pl

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
        license: a notice to show before use.
        numbered: whether ids of users and items are whole numbers.
        read_titles: makes a table of item, title and genres of the text of the titles, where these are not
            simply three columns.
    """

    name: str
    ratings: str
    titles: str | None
    separator: str
    header: bool
    rating_range: tuple[float, float] | None
    url: str
    md5: str | None
    license: str
    encoding: str = "utf-8"
    columns: tuple[str, str, str] = ("user", "item", "rating")
    numbered: bool = True
    read_titles: Callable[[str], pl.DataFrame] | None = None


def content_of(path: Path, name: str) -> bytes:
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


def table(data_set: DataSet, content: bytes, columns: tuple[str, ...]) -> pl.DataFrame:
    """The first columns of a file of a data set, under these names, as texts."""
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
