"""Sums of shards added up in a tree, block by block.

A block is some tasks, whole tiles of noise, of about ``BLOCK_BYTES``. Which tasks depends on the number of
columns alone, so that a training that is resumed has the same blocks. Whole numbers are added exactly, in
any order.

Up to ``_FAN`` shards come to the driver as they are, and are added there. More are added by the executors
first, ``_FAN`` at a time. A table that is large goes through the driver block by block.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.data.spark.arrays import from_bytes, to_bytes
from apportion.data.spark.sessions import raise_error, spark_errors
from apportion.engine.base import Block
from apportion.errors import DataError, ParameterError
from apportion.privacy.noise import TILE

BLOCK_BYTES = 2**23  # of 64-bit numbers
SCHEMA = "ask int, first long, part int, shards int, data binary"
# Instead of the first task: the data is the text of an error; a shard, the part, is not there.
ERROR, LOST = -1, -2
_FAN = 8
_MOST_AT_ONCE = 2**28  # bytes that the driver takes at once

Parts = tuple[NDArray[Any], ...]


def check_shuffle(what: str, size: int, shards: int, most: int) -> None:
    """Refuse a sum of ``size`` bytes a shard that would send too much between executors.

    The error says both: they are public, whatever the data.
    """
    if shards * size > most:
        raise ParameterError(
            f"{what} would send {shards * size / 2**30:.3g} GiB between executors ({shards} shards of "
            f"{size / 2**30:.3g} GiB), more than most_shuffled={most / 2**30:.3g} GiB: use "
            'SufficientStatistics(matrices="shared") (--statistics shared), fewer factors or shards, or '
            "raise SparkEngine(most_shuffled=...)"
        )


def block_tasks(parts: Parts) -> int:
    """The number of tasks in a block, given the parts of a sum."""
    width = 8 * sum(part.shape[1] for part in parts)
    return int(max(1, BLOCK_BYTES // (width * TILE))) * TILE


def row(ask: int, first: int, part: int, shards: int, data: Any) -> Any:
    """One row of the frame of sums."""
    import pyarrow as pa

    numbers = [pa.array([ask], pa.int32()), pa.array([first], pa.int64())]
    numbers += [pa.array([part], pa.int32()), pa.array([shards], pa.int32())]
    columns = [*numbers, pa.array([data], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, ["ask", "first", "part", "shards", "data"])


def rows_of(ask: int, label: int, first: int, parts: Parts) -> Iterator[Any]:
    """A shard's sums of tasks from ``first`` on, in blocks."""
    step = block_tasks(parts)
    start, stop = first, first + len(parts[0])
    while start < stop:
        end = min((start // step + 1) * step, stop)
        yield row(
            ask, start, label, 1, _to_bytes(part[start - first : end - first] for part in parts)
        )
        start = end


class Adding:
    """Adds up the rows of a partition, those of a block for each group of shards."""

    def __init__(self, groups: int) -> None:
        self._groups = groups

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The rows of a frame of sums, fewer."""
        sums: dict[tuple[int, int, int], Sum] = {}
        for batch in batches:
            for ask, first, part, shards, content in _rows(batch):
                if first < 0:
                    yield row(ask, first, part, shards, content.to_pybytes())
                else:
                    sums.setdefault((ask, first, part % self._groups), Sum()).add(shards, content)
        for place, each in sums.items():
            yield row(*place, each.shards, _to_bytes(each.parts))


class Sum:
    """What some shards add to a block, and how many they are."""

    def __init__(self) -> None:
        self.shards = 0
        self.parts: Parts = ()

    def add(self, shards: int, content: Any) -> None:
        """Add what others have added up."""
        for number, (part, rows, wide) in enumerate(_from_bytes(content)):
            if self.shards == 0:
                kind = np.int64 if part.dtype == np.int32 else part.dtype
                self.parts = (*self.parts, part.astype(kind))
            else:
                self.parts[number][:] += part
            self.parts[number][rows] += wide
        self.shards += shards


class Totals:
    """Sums as they come to the driver.

    Attributes
        shards: how many there are.
        lost: labels of those of which nothing was there; they are not in the sums.
    """

    def __init__(self, shards: int) -> None:
        self.shards = shards
        self.lost: list[int] = []
        self._sums: dict[int, dict[int, Sum]] = {}

    def add(self, frame: Any, work: Any) -> None:
        """Add what ``work`` makes of a frame of shards."""
        with spark_errors():
            self._take(_tree(frame, work, self.shards, _FAN).toArrow())

    def stream(self, frame: Any, work: Any) -> Iterator[Block]:
        """Blocks of one sum that is too large for the driver, as they are added up."""
        with spark_errors():
            for table in _windows(_tree(frame, work, self.shards, 1)):
                self._take(table)
                yield from self.taken(0)

    @property
    def complete(self) -> bool:
        """Whether every block has a part of every shard.

        Tasks that are repeated may have lost what they had the first time.
        """
        return all(
            one.shards == self.shards for each in self._sums.values() for one in each.values()
        )

    def taken(self, ask: int) -> Iterator[Block]:
        """The blocks of a sum, in ascending order; they are given once."""
        if not self.complete:
            raise DataError("Spark has lost a part of the shards' sums: train again")
        for first, each in sorted(self._sums.pop(ask, {}).items()):
            yield first, each.parts

    def _take(self, table: Any) -> None:
        for batch in table.to_batches():
            for ask, first, part, shards, content in _rows(batch):
                if first == ERROR:
                    raise_error(content.to_pybytes())
                elif first == LOST:
                    self.lost.append(part)
                else:
                    self._sums.setdefault(ask, {}).setdefault(first, Sum()).add(shards, content)


def is_direct(shards: int) -> bool:
    """Whether sums of so many shards come to the driver as they are."""
    return shards <= _FAN


def is_large(size: int) -> bool:
    """Whether a sum of so many bytes is too large for the driver to take at once."""
    return size > _MOST_AT_ONCE


def _tree(frame: Any, work: Any, shards: int, most: int) -> Any:
    """The frame of sums that ``work`` makes of a frame of shards, of ``most`` groups at most."""
    sums = frame.mapInArrow(work, SCHEMA)
    groups = shards
    while groups > most:
        groups = -(-groups // _FAN)
        part = f"if(first < 0, part, pmod(part, {groups})) part"
        sums = sums.selectExpr("ask", "first", part, "shards", "data")
        sums = sums.repartition(min(shards, 1024), "ask", "first", "part")
        sums = sums.mapInArrow(Adding(groups), SCHEMA)
    return sums


def _windows(sums: Any) -> Iterator[Any]:
    """A table too large for the driver, some blocks at a time; all of it is summed before the first."""
    from pyspark import StorageLevel

    sums = sums.persist(StorageLevel.DISK_ONLY)
    try:
        firsts = sorted(sums.select("first").toArrow()["first"].to_pylist())
        most = max(1, _MOST_AT_ONCE // BLOCK_BYTES)
        for some in (firsts[place : place + most] for place in range(0, len(firsts), most)):
            yield sums.where(f"first between {some[0]} and {some[-1]}").toArrow()
    finally:
        sums.unpersist()


def _rows(batch: Any) -> Iterator[tuple[int, int, int, int, Any]]:
    numbers = (batch.column(name).to_pylist() for name in ("ask", "first", "part", "shards"))
    data = batch.column("data")
    for place, of_row in enumerate(zip(*numbers, strict=True)):
        yield *of_row, data[place].as_buffer()


def _to_bytes(parts: Iterable[NDArray[Any]]) -> bytes:
    """Whole numbers as 32 bits, but for the tasks that have larger ones."""
    arrays: dict[str, NDArray[Any]] = {}
    for number, part in enumerate(parts):
        rows = np.zeros(0, dtype=np.int64)
        if part.dtype == np.int64:
            short = part.astype(np.int32)
            rows = np.flatnonzero((short != part).any(axis=1))
            short[rows] = 0
            part, wide = short, part[rows]
        else:
            wide = part[:0]
        arrays |= {f"{number}": part, f"{number} rows": rows, f"{number} wide": wide}
    return to_bytes(arrays)


def _from_bytes(content: Any) -> Iterator[tuple[NDArray[Any], ...]]:
    """Of every part the numbers, and what is to be added to some rows."""
    arrays = list(from_bytes(content).values())
    for place in range(0, len(arrays), 3):
        yield tuple(arrays[place : place + 3])
