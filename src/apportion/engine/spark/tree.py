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
from apportion.errors import ParameterError
from apportion.privacy.noise import TILE

BLOCK_BYTES = 2**23
SCHEMA = "first long, part int, data binary"
ERROR = -1  # instead of the first task: the data is the text of an error
_FAN = 8
_MOST_AT_ONCE = 2**28  # bytes that the driver takes at once

Parts = tuple[NDArray[Any], ...]


def check_shuffle(what: str, size: int, shards: int, most: int) -> None:
    """Refuse a sum of ``size`` bytes a shard that would send too much between executors."""
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


def row(first: int, part: int, data: Any) -> Any:
    """One row of the frame of sums."""
    import pyarrow as pa

    columns = [pa.array([first], pa.int64()), pa.array([part], pa.int32())]
    return pa.RecordBatch.from_arrays(
        [*columns, pa.array([data], pa.binary())], ["first", "part", "data"]
    )


def rows_of(label: int, first: int, parts: Parts) -> Iterator[Any]:
    """A shard's sums of tasks from ``first`` on, in blocks."""
    step = block_tasks(parts)
    start, stop = first, first + len(parts[0])
    while start < stop:
        end = min((start // step + 1) * step, stop)
        some = {str(n): part[start - first : end - first] for n, part in enumerate(parts)}
        yield row(start, label, to_bytes(some))
        start = end


class Adding:
    """Adds up the rows of a partition, those of a block for each group of shards."""

    def __init__(self, groups: int) -> None:
        self._groups = groups

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The rows of a frame of sums, fewer."""
        totals: dict[tuple[int, int], Parts] = {}
        for batch in batches:
            for first, part, parts in _rows(batch):
                if isinstance(parts, bytes):
                    yield row(first, part, parts)
                    return
                _add(totals, (first, part % self._groups), parts)
        for (first, group), total in totals.items():
            yield row(first, group, to_bytes({str(n): each for n, each in enumerate(total)}))


def summed(frame: Any, work: Any, shards: int, size: int) -> Iterator[Block]:
    """What ``work`` makes of a frame of shards, added up: blocks in ascending order.

    ``size`` is about how many bytes the sums of a shard have.
    """
    sums = frame.mapInArrow(work, SCHEMA)
    large = size > _MOST_AT_ONCE
    groups = shards
    while groups > (1 if large else _FAN):
        groups = -(-groups // _FAN)
        sums = sums.selectExpr("first", f"pmod(part, {groups}) part", "data")
        sums = sums.repartition(min(shards, 1024), "first", "part")
        sums = sums.mapInArrow(Adding(groups), SCHEMA)
    with spark_errors():
        for table in _windows(sums) if large else [sums.toArrow()]:
            totals: dict[tuple[int, int], Parts] = {}
            for batch in table.to_batches():
                for first, _, parts in _rows(batch):
                    if isinstance(parts, bytes):
                        raise_error(parts)
                    else:
                        _add(totals, (first, 0), parts)
            del table
            for place in sorted(totals):
                yield place[0], totals.pop(place)


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


def _rows(batch: Any) -> Iterator[tuple[int, int, Parts | bytes]]:
    firsts, parts = batch.column("first").to_pylist(), batch.column("part").to_pylist()
    data = batch.column("data")
    for place, (first, part) in enumerate(zip(firsts, parts, strict=True)):
        content = data[place].as_buffer()
        if first == ERROR:
            yield first, part, content.to_pybytes()
        else:
            yield first, part, tuple(from_bytes(content).values())


def _add(totals: dict[tuple[int, int], Parts], place: tuple[int, int], parts: Parts) -> None:
    if place not in totals:
        totals[place] = tuple(np.array(part) for part in parts)
        return
    for total, part in zip(totals[place], parts, strict=True):
        total += part
