"""Files in and out: columns of CSV and Parquet files, ids as they are written; files written whole."""

from __future__ import annotations

import errno
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from apportion.data import text_files
from apportion.data.memory import check_memory
from apportion.data.text_files import ENDINGS, read_text, without_ratings
from apportion.errors import DataError, ParameterError
from apportion.frames import pl

PARQUET = (".parquet", ".pq")
# Of ids in a text file: String, Binary, Int64 or UInt64.
IdType: TypeAlias = "type[pl.DataType]"


def is_table(value: Any) -> bool:
    """Whether this is a table, or a lazy one of polars."""
    return isinstance(value, pl.LazyFrame) or hasattr(value, "columns") or _is_stream(value)


def table_of(frame: Any, names: Sequence[str]) -> Any:
    """The table, if it has these columns; of a lazy one only these, collected.

    Tables are those of pandas, polars and pyarrow, and whatever ``from_stream`` reads.
    """
    lazy = isinstance(frame, pl.LazyFrame)
    frame = from_stream(frame)
    if not lazy and (hasattr(frame, "collect") or not is_table(frame)):
        kind, more = type(frame).__name__, _reader_of(frame)
        raise DataError(f"from_frame takes a pandas, polars or pyarrow table, got a {kind}{more}")
    try:
        present = _names(frame)
        for name in names:
            # Other names are not told: those of a file read without its header are its first row.
            if name not in present:
                raise DataError(
                    f"the table has no column {name!r} among its {len(present)}{without_ratings(name)}"
                )
            if present.count(name) > 1:
                raise DataError(f"the table has {present.count(name)} columns {name!r}")
        return frame.select(list(dict.fromkeys(names))).collect() if lazy else frame
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        # Of a lazy table, whose text may quote the data.
        raise DataError(f"the table cannot be read ({type(error).__name__})") from None


def _reader_of(given: Any) -> str:
    """What reads it, as it is no table."""
    if hasattr(given, "sparkSession"):
        return "; from_spark reads those of Spark"
    if isinstance(given, (str, Path)):
        return "; from_path reads files"
    if hasattr(given, "tocoo"):
        return "; from_sparse reads sparse matrices"
    return "; polars.DataFrame(...) makes one" if isinstance(given, (Mapping, list)) else ""


def from_stream(frame: Any) -> Any:
    """The table of a library that is known by Arrow's stream alone, as of DuckDB; others as they are."""
    if not _is_stream(frame):
        return frame
    try:
        return pl.DataFrame(frame)
    except Exception as error:  # of any library; its text may quote the data
        raise DataError(f"the table cannot be read ({type(error).__name__})") from None


def _is_stream(value: Any) -> bool:
    """Whether Arrow's stream is the way to read it; columns of the libraries that are known have one, too."""
    library = type(value).__module__.partition(".")[0]
    known = library in ("pandas", "polars", "pyarrow") or hasattr(value, "sparkSession")
    return not known and hasattr(value, "__arrow_c_stream__")


def read_columns(
    path: str | Path | Sequence[str | Path],
    ids: Sequence[str],
    numbers: Sequence[str],
    kinds: Mapping[str, IdType | None] = MappingProxyType({}),
    *,
    others: Sequence[str] = (),
    separator: str | None = None,
    quote: str | None = '"',
    encoding: str = "utf-8",
) -> pl.DataFrame:
    """Read these columns of CSV or Parquet files, or of all files in a folder and its sub-folders.

    A path is a path: brackets and stars in it mean themselves. Blank lines of a CSV file are no rows. A
    folder's files are its Parquet files; if it has none, its CSV files.

    Args:
        path: the file or folder, or several.
        ids: columns of ids. Those of a CSV file are whole numbers if writing the numbers out again
            gives the same text in every row, else strings: "007" and "7" stay apart.
        numbers: columns of numbers.
        kinds: the types of ids of a CSV file that are known beforehand: no row decides these.
        others: columns that are left as they are, those of a CSV file as text.
        separator, quote, encoding: of CSV files, as in ``read_text``.
    """
    given = [path] if isinstance(path, (str, Path)) else path
    if not (isinstance(given, Sequence) and all(isinstance(at, (str, Path)) for at in given)):
        raise ParameterError(
            f"path must be a path, or a list of paths, got a {type(path).__name__}"
        )
    paths = [Path(each) for each in given]
    files = [file for each in paths for file in _files(each)]
    if len({is_text(file) for file in files}) != 1:
        raise DataError("give one or more files, all of them CSV or all of them Parquet")
    wanted, path = [*ids, *numbers, *others], paths[0]
    try:
        if is_text(files[0]):
            frames = []
            for file in files:
                path = file  # which a message names
                frames.append(read_text(file, wanted, separator, quote, encoding))
            frame = pl.concat(frames)
            return frame.with_columns(
                *(_ids(frame[name], kinds.get(name)) for name in ids),
                *(_numbers(frame[name]) for name in numbers),
            )
        # From the root on: polars would look up a home, "~".
        lazy = pl.scan_parquet(
            [file.absolute() for file in files], glob=False, hive_partitioning=False
        )
        present = lazy.collect_schema().names()
        for name in wanted:
            if name not in present:
                more = f"; its columns are {present}{without_ratings(name)}"
                raise DataError(f"{path} has no column {name!r}{more}")
        # Any number of equal rows takes a few bytes there.
        rows = lazy.select(pl.len()).collect().item()
        check_memory(f"what {path} holds", 8 * rows * len(wanted))
        return lazy.select(wanted).collect()
    except pl.exceptions.NoDataError:
        raise DataError(f"{path} is empty") from None
    except (
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        OSError,
        UnicodeEncodeError,
    ) as error:
        # The text of the error may quote the data; its kind does not.
        ragged = isinstance(error, pl.exceptions.ComputeError) and is_text(files[0])
        why = "; every line of a CSV file must have as many columns as its first" if ragged else ""
        raise DataError(f"{path} cannot be read ({type(error).__name__}){why}") from None


def _names(frame: Any) -> list[Any]:
    if isinstance(frame, pl.LazyFrame):
        return frame.collect_schema().names()
    return list(getattr(frame, "column_names", None) or frame.columns)


def has_column(source: Any, name: str, encoding: str = "utf-8") -> bool:
    """Whether a table, or a file or the first of several, has a column of this name; it can be read."""
    if is_table(source):
        return name in _names(source)
    path = source if isinstance(source, (str, Path)) else source[0]
    file = _files(Path(path))[0]
    if is_text(file):
        return text_files.has_column(file, name, encoding)
    return name in pl.read_parquet_schema(file.absolute())


def _files(path: Path) -> list[Path]:
    """The file, or those in the folder."""
    if not is_there(path):
        raise DataError(f"there is no file or folder {path}")
    if zipfile.is_zipfile(path):
        raise DataError(
            f"{path} is an archive; those of known data sets are read with --data-set NAME"
        )
    if not path.is_dir():
        return [path]
    try:
        parts = _parts(path, PARQUET) or _parts(path, ENDINGS)
    except OSError as error:
        raise DataError(f"{path} cannot be read ({type(error).__name__})") from None
    if not parts:
        raise DataError(f"{path} cannot be read: it holds no Parquet files, and no CSV files")
    return parts


def _parts(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    """All such files in a folder and its sub-folders, but for what is hidden or marked by "_"."""

    def fail(error: OSError) -> None:  # what cannot be read must not be left out
        raise error

    parts = []
    for place, folders, files in os.walk(folder, onerror=fail):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        named = [Path(place, name) for name in sorted(files) if not name.startswith((".", "_"))]
        parts += [path for path in named if path.name.lower().endswith(endings)]
    return parts


def is_there(path: Path) -> bool:
    """Whether there is something; what cannot be a name, or leads in a circle, is not there."""
    try:
        return path.exists()
    except (OSError, ValueError, RuntimeError):
        return False


def check_folder(folder: Path) -> None:
    """Fail now if files cannot be written to this folder later; create nothing."""
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not existing.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(existing))
    if not os.access(existing, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "no permission to write here", str(existing))


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A path to write to instead, moved over the real one at the end: no half file is left behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".writing-") as folder:
        temporary = Path(folder) / path.name
        yield temporary
        temporary.replace(path)


def write_frame(frame: pl.DataFrame, path: Path) -> None:
    """Write a table whole, as CSV or, by the path's ending, as Parquet."""
    with written_whole(path) as temporary:
        try:
            if is_text(path):
                frame.write_csv(temporary)
            else:
                frame.write_parquet(temporary)
        except pl.exceptions.PolarsError as error:  # what a full disk is to it, for example
            why = f"the table could not be written ({type(error).__name__}); is the disk full?"
            raise OSError(errno.EIO, why, str(path)) from None


def is_text(path: Path) -> bool:
    """Whether a path is read as text: whatever does not end as Parquet files do, or holds none."""
    if path.is_dir():
        return not _parts(path, PARQUET)
    return path.suffix.lower() not in PARQUET


def ids_from_text(text: pl.Series) -> pl.Series:
    """Ids as whole numbers if writing the numbers out again gives the same text in every row.

    Space before and after them does not count, here as anywhere (see ``apportion.data.ids``).
    """
    whole, right = _whole(text, pl.Int64)
    if right.all():
        return whole
    first = text.slice(right.arg_min() or 0, 1)  # of most strings it says enough
    if not _whole(first.str.strip_chars(), pl.Int64)[1].all():
        return text
    whole, right = _whole(text.str.strip_chars(), pl.Int64)
    return whole if right.all() else text


def _ids(text: pl.Series, kind: IdType | None) -> pl.Series:
    """Ids in this type, or in the one that their rows have."""
    if kind is None:
        return ids_from_text(text)
    if kind in (pl.String, pl.Binary):
        return text.cast(kind)
    whole, right = _whole(text, kind)
    if not right.all():
        whole, right = _whole(text.str.strip_chars(), kind)
    if not right.all():
        raise DataError(
            f"{text.name}: row {right.arg_min()} is no whole number, as those of the catalog are"
        )
    return whole


def _whole(text: pl.Series, kind: IdType) -> tuple[pl.Series, pl.Series]:
    """Whole numbers, and where these are written like the text; a gap stays a gap."""
    whole = text.cast(kind, strict=False)
    return whole, whole.cast(pl.String).eq_missing(text)


def _numbers(text: pl.Series) -> pl.Series:
    values = text.str.strip_chars().cast(pl.Float64, strict=False)
    wrong = values.is_null() & text.is_not_null()
    if wrong.any():
        raise DataError(f"{text.name}: row {wrong.arg_true()[0]} is not a number")
    return values
