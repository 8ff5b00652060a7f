"""CSV files as people have them: any separator and quote, compressed or not. All values as text."""

from __future__ import annotations

import codecs
import gzip
import io
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

from apportion.data.memory import check_memory
from apportion.errors import DataError, ParameterError
from apportion.frames import pl

# What separates columns, if nobody says; the first of them that finds the columns.
SEPARATORS = (",", ";", "\t", "|")
ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".csv.zst", ".tsv.zst")
_GZIP, _ZSTANDARD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_BLOCK = 2**24


def read_text(
    path: Path,
    wanted: Sequence[str],
    separator: str | None,
    quote: str | None,
    encoding: str = "utf-8",
) -> pl.DataFrame:
    """These columns of one file, without its blank lines.

    Args:
        path: plain, or compressed with gzip or Zstandard.
        wanted: names of columns.
        separator: one character between columns; None for the one that finds them.
        quote: around values that hold separators; None if quotes are letters like others.
        encoding: of its letters, by its name in Python.
    """
    for name, sign in (("separator", separator), ("quote", quote)):
        if sign is not None and not (isinstance(sign, str) and len(sign) == 1 and sign.isascii()):
            raise ParameterError(f"{name} must be one ASCII character")
    source = _plain(path, encoding)
    try:
        return _read(path, source, wanted, separator, quote)
    except pl.exceptions.PolarsError:
        if not _is_utf8(source):
            raise DataError(_no_utf8(path, "not UTF-8", "latin-1")) from None
        raise


def _read(
    path: Path,
    source: Path | bytes,
    wanted: Sequence[str],
    separator: str | None,
    quote: str | None,
) -> pl.DataFrame:
    present, found = _columns(source, wanted, separator, quote)
    for name in wanted:
        if name not in present:
            # Its names are not told: the first line of a file without a header is a row.
            raise DataError(
                f"{path} has no column {name!r}: the first line of a CSV file must name its columns, "
                f"here {len(present)}{without_ratings(name)}"
            )
        if (times := present.count(name)) > 1:
            raise DataError(f"{path} has {times} columns {name!r}")
    lazy = pl.scan_csv(source, infer_schema=False, glob=False, separator=found, quote_char=quote)
    frame = lazy.select(wanted).collect()
    # Looked for among all columns, but only where those that are wanted give reason to.
    if len(present) == 1 or any(frame[name].null_count() for name in wanted):
        every = pl.all().str.strip_chars().fill_null("")
        lazy = lazy.filter(~pl.all_horizontal(every == ""))
        frame = lazy.select(wanted).collect()
    if (frame[wanted[0]] == wanted[0]).any():
        names = lazy.collect_schema().names()
        whole = pl.all_horizontal(pl.col(name).eq_missing(name) for name in names)
        if (again := lazy.select(whole).collect().to_series()).any():
            raise DataError(
                f"{path}: row {again.arg_true()[0]} repeats the header: these are several files, one "
                "after the other; leave out all headers but the first, or give the files as a list"
            )
    return frame


def has_column(path: Path, name: str, encoding: str = "utf-8") -> bool:
    """Whether the first line of a CSV file names this column."""
    return name in _columns(_plain(path, encoding), [name], None, '"')[0]


def without_ratings(column: str) -> str:
    """What to do about a missing column of ratings, if it is one."""
    if column != "rating":
        return ""
    return "; for events without ratings give rating=None (--implicit on the command line)"


def _columns(
    source: Path | bytes, wanted: Sequence[str], separator: str | None, quote: str | None
) -> tuple[list[str], str]:
    """The names in the first line, and what separates them."""
    first: list[str] = []
    for sign in SEPARATORS if separator is None else (separator,):
        row = pl.read_csv(
            source,
            has_header=False,
            n_rows=1,
            infer_schema=False,
            glob=False,
            separator=sign,
            quote_char=quote,
            truncate_ragged_lines=True,
        )
        names = ["" if name is None else name for name in row.row(0)] if len(row) else []
        if all(name in names for name in wanted):
            return names, sign
        first = first or names
    return first, SEPARATORS[0] if separator is None else separator


def _plain(path: Path, encoding: str) -> Path | bytes:
    """The file, in UTF-8, for polars to read, from the root on, because polars would look up a home, "~".

    A few kilobytes can hold any number of zeros: sizes are checked before memory is taken.
    """
    with path.open("rb") as file:
        start = file.read(18)
    if (name := _name_of(encoding)) != "utf-8":
        if start.startswith(_ZSTANDARD):
            raise DataError(f"{path} is compressed with Zstandard: unpack it to read it as {name}")
        return _recoded(path, _unzipped(path) if start.startswith(_GZIP) else None, name)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise DataError(_no_utf8(path, "UTF-16", "utf-16"))
    if start.startswith(_GZIP):
        return _unzipped(path)
    if start.startswith(_ZSTANDARD) and (size := _told_size(start)) is not None:
        check_memory(f"what {path} holds", size)
    return path.absolute()


def _name_of(encoding: str) -> str:
    """As Python calls it."""
    try:
        found = codecs.lookup(encoding).name
        "".encode(found)
    except (LookupError, TypeError, ValueError):
        raise ParameterError(f"encoding: there is none called {str(encoding)[:40]!r}") from None
    return "utf-8" if found == "utf-8-sig" else found


def _recoded(path: Path, content: bytes | None, encoding: str) -> bytes:
    """The whole file in UTF-8."""
    size = path.stat().st_size if content is None else len(content)
    check_memory(f"what {path} holds", 6 * size)
    try:
        return (path.read_bytes() if content is None else content).decode(encoding).encode()
    except UnicodeError:
        raise DataError(f"{path} is not {encoding}") from None


def _is_utf8(source: Path | bytes) -> bool:
    decode = codecs.getincrementaldecoder("utf-8")().decode
    with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb") as file:
        try:
            while part := file.read(_BLOCK):
                decode(part)
            decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def _no_utf8(path: Path, what: str, name: str) -> str:
    return (
        f"{path} is {what}: name its encoding, as in encoding={name!r} (--encoding {name}), or convert it: "
        f"iconv -f {name} -t utf-8"
    )


def _unzipped(path: Path) -> bytes:
    parts, size = [], 0
    try:
        with gzip.open(path) as file:
            while part := file.read(_BLOCK):
                size += len(part)
                check_memory(f"what {path} holds", 3 * size)
                parts.append(part)
    except (EOFError, zlib.error):
        raise DataError(f"{path} cannot be read: it is cut short, or no whole gzip file") from None
    return b"".join(parts)


def _told_size(start: bytes) -> int | None:
    """The size that the first frame of a Zstandard file says that it has, if it says so (RFC 8878)."""
    flags = start[4]
    code, single = flags >> 6, flags >> 5 & 1
    length = (1 if single else 0, 2, 4, 8)[code]
    place = 5 + (0 if single else 1) + (0, 1, 2, 4)[flags & 3]
    field = start[place : place + length]
    if not length or len(field) < length:
        return None
    size: int = struct.unpack("<Q", field.ljust(8, b"\0"))[0]
    return size + (256 if length == 2 else 0)
