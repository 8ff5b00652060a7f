"""Shards on disk, by Spark: what a training sees, the same whenever and wherever it is read again.

A frame may give other rows when it is computed again, in another order or of newer files. So shards are
written once, and trainings read what was written. A store is a folder: ``rows``, the shards; ``manifest``,
written last: what the shards are, and a digest of each.
"""

import io
import json
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from apportion.data.spark.frames import ERROR
from apportion.data.spark.sessions import (
    is_remote,
    own_session,
    raise_error,
    spark_errors,
    unpersist,
)
from apportion.data.spark.shards import SCHEMA, collect, digest, join, spread
from apportion.errors import DataError, ParameterError

_FORMAT = 3  # 2 did not say how many shards were asked for
# Pieces of a megabyte each: pages and groups are closed after few.
_PARQUET = {
    "parquet.page.size.row.check.min": "1",
    "parquet.page.size.row.check.max": "16",
    "parquet.block.size.row.check.min": "1",
    "parquet.block.size.row.check.max": "16",
    "parquet.enable.dictionary": "false",
}


class Store:
    """A stored frame of shards.

    Attributes
        frame: of the shards, one in each partition.
        settings: what they are, as plain values.
        ids: of all items or tasks.
        digests: of every shard, by its label.
        asked: how many shards were asked for, if a number was.
    """

    def __init__(
        self,
        frame: Any,
        settings: dict[str, Any],
        ids: NDArray[Any],
        digests: dict[int, str],
        asked: int | None,
    ) -> None:
        self.frame, self.settings, self.ids, self.digests = frame, settings, ids, digests
        self.asked = asked
        weakref.finalize(self, unpersist, frame).atexit = False


def write_store(
    frame: Any,
    number: tuple[int, int | None],
    settings: dict[str, Any],
    ids: NDArray[Any],
    path: str | None,
) -> Store:
    """Write a frame of shards away and take what was written instead.

    ``number`` is how many shards there are, and how many were asked for.
    """
    shards, asked = number
    session = own_session(frame.sparkSession)
    removed = None
    if path is None:
        path = removed = _temporary(session)
    elif _manifest(session, path) is not None:
        raise ParameterError(
            f"{path} holds stored rows already. Resume with them: Interactions.from_store(session, "
            f"{path!r}); or choose another folder for newer ones"
        )
    with spark_errors():
        frame.write.mode("overwrite").options(**_PARQUET).parquet(f"{path}/rows")
        stored = spread(session.read.schema(SCHEMA).parquet(f"{path}/rows"), shards)
        found = stored.mapInArrow(_digests, "shard int, digest string").toArrow()
    digests = dict(zip(found["shard"].to_pylist(), found["digest"].to_pylist(), strict=True))
    if ERROR in digests:
        raise_error(digests[ERROR].encode())
    if len(digests) != shards:
        raise DataError("a part of the stored shards is missing: shard the data again")
    described = {
        "format": _FORMAT,
        "shards": shards,
        "asked": asked,
        "digests": {str(label): text for label, text in digests.items()},
        "settings": settings,
    }
    rows = [("described", json.dumps(described).encode()), ("ids", _ids_to_bytes(ids))]
    with spark_errors():
        manifest = session.createDataFrame(rows, "name string, content binary").coalesce(1)
        manifest.write.mode("overwrite").parquet(f"{path}/manifest")
    store = Store(stored, settings, ids, digests, asked)
    if removed is not None:
        weakref.finalize(store, shutil.rmtree, removed, ignore_errors=True)
    return store


def is_stored(session: Any, path: str) -> bool:
    """Whether a folder holds a finished store."""
    return _manifest(own_session(session), path) is not None


def read_store(session: Any, path: str) -> Store:
    """What was written."""
    session = own_session(session)
    manifest = _manifest(session, path)
    if manifest is None:
        raise DataError(
            f"{path} holds no stored rows: write them with from_spark(..., store={path!r})"
        )
    try:
        described = json.loads(manifest["described"])
        if described["format"] != _FORMAT:
            raise DataError(f"{path} was written by another version: store the rows again")
        shards, asked = described["shards"], described["asked"]
        settings = described["settings"]
        digests = {int(label): text for label, text in described["digests"].items()}
        ids = _ids_from_bytes(manifest["ids"])
    except (KeyError, ValueError, TypeError) as error:
        raise DataError(f"{path}/manifest is damaged: store the rows again") from error
    frame = spread(session.read.schema(SCHEMA).parquet(f"{path}/rows"), shards)
    return Store(frame, settings, ids, digests, asked)


def _manifest(session: Any, path: str) -> dict[str, bytes] | None:
    """The manifest of a finished store, if there is one."""
    try:
        rows = session.read.parquet(f"{path}/manifest").collect()
    except Exception as error:
        if "PATH_NOT_FOUND" in str(error):
            return None
        raise DataError(f"{path} cannot be read ({type(error).__name__})") from None
    return {row["name"]: bytes(row["content"]) for row in rows}


def _temporary(session: Any) -> str:
    if is_remote(session) or not session.sparkContext.master.startswith("local"):
        raise ParameterError(
            "on a cluster give store=, a new folder that all executors reach (hdfs:, s3a:, a shared disk): "
            "the rows that a training sees are kept there, so that what is lost can be computed again"
        )
    return tempfile.mkdtemp(prefix="apportion-rows-")


def _digests(batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow as pa

    for label, pieces in collect(batches).items():
        content = join(pieces)
        found = content.decode() if label == ERROR else digest(content)
        yield pa.RecordBatch.from_pydict(
            {"shard": pa.array([label], pa.int32()), "digest": pa.array([found])}
        )


def _ids_to_bytes(ids: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame({"id": pl.Series(ids.tolist()) if ids.dtype.kind == "O" else ids}).write_ipc(
        buffer
    )
    return buffer.getvalue()


def _ids_from_bytes(content: bytes) -> NDArray[Any]:
    column = pl.read_ipc(io.BytesIO(content))["id"]
    if column.dtype in (pl.String, pl.Binary):
        ids = np.empty(len(column), dtype=object)
        ids[:] = column.to_list()
        return ids
    return column.to_numpy()
