"""Shards: the rows of some users as compact arrays, in binary pieces of a frame.

A frame of shards has the columns ``shard`` (its label), ``chunk`` (the number of the piece), ``chunks`` (how
many its shard has) and ``data``. Labels are chosen so that hashing spreads shards evenly: one in
each partition.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.data.rows import Rows
from apportion.data.spark.arrays import from_bytes, to_bytes
from apportion.data.spark.sessions import CHUNK, parallelism
from apportion.data.stored import StoredRows
from apportion.errors import DataError

SCHEMA = "shard int, chunk int, chunks int, data binary"
_ROWS = ("start", "task", "user_key", "label", "features", "feature_row", "confidence")


@dataclass(frozen=True, eq=False)
class SparkRows(StoredRows):
    """Rows in Spark: what ``SparkEngine`` loads.

    Attributes
        frame: of shards, kept on the executors' disks.
        shards: how many. This is private, but for what was asked for: it may follow from the number of rows.
        task_ids: the ids of all tasks (items), [tasks].
        task_key: as ``Rows.task_key``.
        labels: whether rows have labels that count.
        dimension: the length of loaded feature vectors; 0 if they are solved.
        digests: of the shards, by label, if they are stored.
        asked: how many shards were asked for, if a number was.
    """

    frame: Any
    shards: int
    task_ids: NDArray[Any]
    task_key: NDArray[np.uint64] | None = None
    labels: bool = True
    dimension: int = 0
    digests: dict[int, str] | None = None
    asked: int | None = None

    @property
    def tasks(self) -> int:
        """See ``StoredRows.tasks``."""
        return len(self.task_ids)

    def without_labels(self) -> "SparkRows":
        """See ``StoredRows.without_labels``."""
        return replace(self, labels=False)


def shard_bytes(rows: Rows) -> bytes:
    """Rows without what all shards have in common, the ids and keys of tasks."""
    return to_bytes({name: getattr(rows, name) for name in _ROWS})


def read_shard(
    content: Any, task_ids: NDArray[Any], task_key: NDArray[np.uint64] | None, *, labels: bool
) -> Rows:
    """The rows of a shard."""
    arrays = from_bytes(content)
    if not labels:
        arrays.pop("label", None)
    return Rows(task_ids=task_ids, task_key=task_key, **arrays)


def cut(label: int, content: bytes) -> Iterator[Any]:
    """A shard as record batches of one piece each."""
    import pyarrow as pa

    pieces = max(1, -(-len(content) // CHUNK))
    view = memoryview(content)
    for number in range(pieces):
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([label], pa.int32()),
                pa.array([number], pa.int32()),
                pa.array([pieces], pa.int32()),
                pa.array([view[number * CHUNK : (number + 1) * CHUNK]], pa.binary()),
            ],
            ["shard", "chunk", "chunks", "data"],
        )


def collect(batches: Iterable[Any]) -> dict[int, dict[int, Any]]:
    """The pieces of every shard in a partition, by label and number; none of a frame of labels alone."""
    shards: dict[int, dict[int, Any]] = {}
    for batch in batches:
        labels = batch.column("shard").to_pylist()
        if batch.num_columns == 1:
            shards |= {label: {} for label in labels}
            continue
        numbers, counts = batch.column("chunk").to_pylist(), batch.column("chunks").to_pylist()
        data = batch.column("data")
        for row, (label, number) in enumerate(zip(labels, numbers, strict=True)):
            of_shard = shards.setdefault(label, {-1: counts[row]})
            of_shard[number] = data[row].as_buffer()
    return shards


def join(pieces: dict[int, Any]) -> bytes:
    """The content of a shard."""
    count = pieces[-1]
    if any(number not in pieces for number in range(count)):
        raise DataError("a part of the stored shards is missing: shard the data again")
    return b"".join(memoryview(pieces[number]) for number in range(count))


def digest(content: bytes) -> str:
    """By which the content of a shard is known again."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def labels(session: Any, shards: int) -> list[int]:
    """A label for each shard, so that ``repartition(shards, "shard")`` puts one in each partition."""
    wide = 16 * shards + 64
    place = f"pmod(hash(cast(id as int)), {shards})"
    table = session.range(wide).selectExpr("cast(id as int) label", f"{place} place").toArrow()
    first: dict[int, int] = {}
    for label, at in sorted(
        zip(table["label"].to_pylist(), table["place"].to_pylist(), strict=True)
    ):
        first.setdefault(at, label)
    return [first[at] for at in range(shards)]


def from_local(session: Any, rows: Rows, asked: int | None) -> SparkRows:
    """Rows of this machine's memory, in as many shards as asked for; by default as tasks run at once."""
    import pyarrow as pa

    shards = asked or min(parallelism(session), max(1, rows.users))
    edges = np.linspace(0, rows.users, shards + 1).astype(int)
    batches = [
        batch
        for label, first, stop in zip(labels(session, shards), edges, edges[1:], strict=False)
        for batch in cut(label, shard_bytes(_own(rows.of_users(int(first), int(stop)))))
    ]
    frame = spread(session.createDataFrame(pa.Table.from_batches(batches)), shards)
    d = 0 if rows.features is None else rows.features.shape[1]
    labels_count = rows.label is not None
    return SparkRows(frame, shards, rows.task_ids, rows.task_key, labels_count, d, asked=asked)


def _own(rows: Rows) -> Rows:
    """A shard without the feature vectors of others."""
    if rows.features is None or rows.feature_row is None:
        return rows
    used, feature_row = np.unique(rows.feature_row, return_inverse=True)
    return replace(rows, features=rows.features[used], feature_row=feature_row)


def spread(frame: Any, shards: int) -> Any:
    """A frame of shards, one in each partition, on the executors' disks from its first use on."""
    from pyspark import StorageLevel

    return frame.repartition(shards, "shard").persist(StorageLevel.DISK_ONLY)


def kept_labels(frame: Any) -> Any:
    """The labels alone, each in the partition of its shard, and where possible on the same executor."""
    from pyspark import StorageLevel

    return frame.where("chunk = 0").select("shard").persist(StorageLevel.MEMORY_ONLY)
