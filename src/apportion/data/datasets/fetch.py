"""Fetching a data set's archive: resumed where it stopped, checked when it is whole."""

import hashlib
import http.client
from collections.abc import Callable
from pathlib import Path
from typing import IO

from apportion.data.datasets.archive import DataSet
from apportion.errors import DataError


def fetch(
    data_set: DataSet,
    path: Path,
    open_url: Callable[[str, int], tuple[IO[bytes], int]],
    on_bytes: Callable[[int, int], object] | None = None,
) -> Path:
    """Fetch a data set's archive to a path, resuming an interrupted fetch.

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
        raise DataError(f"cannot write {part}: {error.strerror}; fetch again to resume") from None
    if done < total:
        raise DataError(
            f"the connection broke off after {done:,} of {total:,} bytes; fetch again to resume"
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
            f"the connection broke off ({type(error).__name__}); fetch again to resume"
        ) from None


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
