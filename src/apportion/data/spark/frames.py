"""Frames into shards: each user's rows come to one task, and are checked and merged there."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from apportion.data.catalog import Catalog, read_catalog
from apportion.data.ids import number_ids, read_column
from apportion.data.rows import Rows
from apportion.data.spark.sessions import Traveling, error_text, parallelism, spark_errors
from apportion.data.spark.shards import SCHEMA, cut, labels, shard_bytes
from apportion.errors import ApportionError, DataError, ParameterError

ERROR = -1  # instead of a shard's label: the data is the text of an error
_WHOLE = ("byte", "short", "integer", "long")
_NUMBERS = (*_WHOLE, "float", "double", "decimal")
# A shard of fewer rows is not worth a task; of more, it takes much of an executor's memory.
_FEW_ROWS, _MANY_ROWS = 100_000, 16_000_000

# What makes rows of a task's columns: told the common ids of items or tasks, and the columns.
Build = Callable[[NDArray[Any], Mapping[str, pl.Series]], Rows]


def find_frame(frame: Any) -> Any:
    """A Spark frame; a path stands for the Parquet files there, read by the active session."""
    if isinstance(frame, str):
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        if session is None:
            raise ParameterError(
                "there is no Spark session to read a path with: make one with "
                "SparkSession.builder.getOrCreate(), or give a frame"
            )
        try:
            return session.read.parquet(frame)
        except Exception as error:
            # The text of the error may quote the data; its kind does not.
            raise DataError(f"{frame} cannot be read ({type(error).__name__})") from None
    if not (type(frame).__module__.startswith("pyspark.sql") and hasattr(frame, "mapInArrow")):
        raise DataError(f"from_spark takes a Spark frame or a path, got a {type(frame).__name__}")
    return frame


def write_table(frame: Any, path: str) -> None:
    """Write a frame as Parquet files into a new folder."""
    with spark_errors():
        try:
            frame.write.mode("error").parquet(path)
        except Exception as error:
            if "PATH_ALREADY_EXISTS" in str(error) or "already exists" in str(error):
                raise ParameterError(f"{path} exists already; choose another folder") from None
            raise


def columns_of(frame: Any, ids: Sequence[str], numbers: Sequence[str]) -> Any:
    """These columns of a frame alone, ids as text, bytes or 64 bits, numbers as float64."""
    from pyspark.sql import functions

    kinds: dict[str, list[str]] = {}
    for field in frame.schema.fields:
        kinds.setdefault(field.name, []).append(field.dataType.typeName())
    wanted = []
    for name in (*ids, *numbers):
        found = kinds.get(name, [])
        if len(found) != 1:
            how = "no column" if not found else f"{len(found)} columns"
            raise DataError(f"the frame has {how} {name!r} among its {len(frame.columns)}")
        kind = found[0].split("(")[0]
        column = functions.col("`" + name.replace("`", "``") + "`")
        if name in numbers:
            if kind not in _NUMBERS:
                raise DataError(f"{name} must hold numbers, got {kind}: cast the column")
            column = column.cast("double")
        elif kind in _WHOLE:
            column = column.cast("long")
        elif kind in ("string", "varchar", "char"):
            column = column.cast("string")
        elif kind != "binary":
            raise DataError(f"{name} must hold strings or whole numbers, got {kind}: cast it")
        wanted.append(column.alias(name))
    return frame.select(*wanted)


def find_ids(frame: Any, column: str, member: str, catalog: Catalog) -> NDArray[Any]:
    """The ids of a catalog; those found in the frame, if it is None or "public"."""
    if catalog is not None and not isinstance(catalog, str):
        return read_catalog(member, catalog, np.zeros(0, dtype=np.int64))[0]
    if catalog not in (None, "public"):
        return read_catalog(member, catalog, np.zeros(0, dtype=np.int64))[0]  # which refuses it
    with spark_errors():
        table = frame.select(column).distinct().toArrow()
    return number_ids(read_column(member, pl.Series(table[column])))[0]


def _shard_count(rows: int, session: Any) -> int:
    """How many shards: as many as tasks run at once, unless rows are few or very many."""
    some = min(parallelism(session), max(1, -(-rows // _FEW_ROWS)))
    return max(int(some), int(-(-rows // _MANY_ROWS)))


def sharded(
    frame: Any, user: str, ids: NDArray[Any], build: Build, shards: int | None
) -> tuple[Any, int]:
    """The frame of shards that ``build`` makes of a frame's columns, one in each partition; how many."""
    session = frame.sparkSession
    rows = frame.count()
    if rows == 0:  # Spark asks no task about an empty frame
        import pyarrow as pa

        nobody = cut(labels(session, 1)[0], shard_bytes(build(ids, {})))
        return session.createDataFrame(pa.Table.from_batches(nobody)), 1
    shards = _shard_count(rows, session) if shards is None else shards
    build_task = _Build(labels(session, shards), Traveling(session, ids), build)
    frame = _plain_users(frame, user).repartition(shards, user)
    return frame.mapInArrow(build_task, SCHEMA), shards


def by_user(frame: Any, user: str) -> Any:
    """The frame with all rows of a user in one partition, however its id is written."""
    shards = _shard_count(frame.count(), frame.sparkSession)
    return _plain_users(frame, user).repartition(shards, user)


def _plain_users(frame: Any, user: str) -> Any:
    if dict(frame.dtypes)[user] != "string":
        return frame
    return frame.mapInArrow(_Plain(user), frame.schema)


@dataclass(frozen=True)
class _Plain:
    """Ids of users as they are compared, before they are hashed: " ann" and "ann" are one user."""

    user: str

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            place = batch.schema.get_field_index(self.user)
            column = pl.Series(self.user, batch.column(place))
            if (
                len(column) and not column.null_count()
            ):  # nulls are refused later, by an error of ours
                distinct, codes = number_ids(read_column(self.user, column))
                plain = pa.array(distinct.tolist(), batch.schema.field(place).type).take(
                    pa.array(codes)
                )
                batch = batch.set_column(place, batch.schema.field(place), plain)
            yield batch


@dataclass(frozen=True, eq=False)
class _Build:
    """Makes a shard of all rows of a partition."""

    labels: list[int]
    ids: Traveling
    build: Build

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "called in a task"
        found = list(batches)
        try:
            columns: dict[str, pl.Series] = {}
            if found:
                table = pa.Table.from_batches(found)
                columns = {name: pl.Series(name, table[name]) for name in table.column_names}
            del found
            rows = self.build(self.ids.value, columns)
            yield from cut(self.labels[context.partitionId()], shard_bytes(rows))
        except ApportionError as error:
            yield from cut(ERROR, error_text(error))
