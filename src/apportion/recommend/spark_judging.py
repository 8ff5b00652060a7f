"""``evaluate`` for frames of Spark: users are judged where they are, and sums come to the driver."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.data import Interactions
from apportion.data.ids import Integers, match_ids, number_ids, read_column
from apportion.data.orientation import Orientation
from apportion.data.spark.arrays import from_bytes, to_bytes
from apportion.data.spark.frames import by_user, columns_of, find_frame, find_ids
from apportion.data.spark.sessions import (
    Traveling,
    error_text,
    own_session,
    raise_error,
    spark_errors,
    unpersist,
)
from apportion.errors import ApportionError, DataError
from apportion.frames import pl
from apportion.recommend.evaluation import Evaluation
from apportion.recommend.judges import EventJudge, Judge, RatingJudge
from apportion.recommend.metrics.baselines import Averages
from apportion.recommend.metrics.bootstrap import poisson_sums
from apportion.recommend.metrics.rows import Array
from apportion.recommend.recommender import Recommender

_ERROR, _SUMS = "error", "sums"


def evaluate_frames(
    model: Recommender, histories: Any, test: Any, k: int, level: float, seed: int
) -> Evaluation:
    """See ``evaluate``. Rows are read twice: for what baselines and popularity rest on, and to be judged."""
    from pyspark import StorageLevel
    from pyspark.sql import functions

    explicit = model.released.fold_in.feedback == "explicit"
    columns = ["rating"] if explicit else []
    known, wanted = (
        columns_of(find_frame(frame), ["user", "item"], columns).withColumn(
            "held", functions.lit(held)
        )
        for frame, held in ((histories, False), (test, True))
    )
    if known.dtypes != wanted.dtypes:
        raise DataError("the histories and the test have columns of other types: cast them")
    both = known.unionByName(wanted)
    session = own_session(both.sparkSession)
    item_ids = find_ids(both, "item", "item", None)
    rows = by_user(both, "user").persist(StorageLevel.DISK_ONLY)
    try:
        read = _Read(Traveling(session, item_ids), explicit, model.released.fold_in.rating_range)
        found = _asked(rows, _Count(read, len(item_ids)))
        own = Recommender(replace(model.released, training={}))
        judge: Judge = EventJudge(own, found["counts"], k)
        if explicit:
            judge = RatingJudge(own, found["counts"], _averages(found, model))
        found |= _asked(rows, _Judge(read, Traveling(session, judge), seed))
    finally:
        unpersist(rows)
    if found["test"].sum() == 0:
        raise DataError("there are no test interactions: take a larger share for the test")
    drawn = found.pop("drawn"), found.pop("drawn rows")
    means = np.divide(*drawn, out=np.full_like(drawn[0], np.nan), where=drawn[1] > 0)
    unknown = match_ids(item_ids, model.item_ids) < 0
    sums = {name[len(_SUMS) :]: each for name, each in found.items() if name.startswith(_SUMS)}
    metrics, others, intervals, gains = judge.result(sums, means, level)
    return Evaluation(
        metrics=metrics,
        baselines=others,
        intervals=intervals,
        gains=gains,
        level=level,
        users=int(found["users"].sum()),
        rows=int(found["test"].sum()),
        unknown_items=int(np.count_nonzero(unknown & (found["test"] > 0))),
        unknown_rows=int(found["test"][unknown].sum()),
    )


def _averages(found: dict[str, Array], model: Recommender) -> Averages:
    rows, sums = found["counts"], found["ratings"]
    middle = float(np.mean(model.released.fold_in.rating_range or 0.0))
    mean = float(sums.sum() / rows.sum()) if rows.sum() else middle
    return Averages(mean, np.divide(sums, rows, out=np.full(len(rows), np.nan), where=rows > 0))


def _asked(frame: Any, work: Any) -> dict[str, Array]:
    """The sums over partitions of what ``work`` makes of each; an error of ours is raised."""
    total: dict[str, Array] = {}
    with spark_errors():
        table = frame.mapInArrow(work, "data binary").toArrow()
    for content in table["data"]:
        arrays = from_bytes(content.as_buffer())
        if _ERROR in arrays:
            raise_error(arrays[_ERROR].tobytes())
        for name, each in arrays.items():
            total[name] = total[name] + each if name in total else each
    return total


@dataclass(frozen=True, eq=False)
class _Read:
    """Interactions from a partition's rows: the histories, and the test of the same users."""

    item_ids: Traveling
    explicit: bool
    rating_range: tuple[float, float] | None

    def __call__(self, batches: Iterable[Any]) -> tuple[Interactions, Interactions]:
        import pyarrow as pa

        found = list(batches)
        names = ["user", "item", *(["rating"] if self.explicit else []), "held"]
        columns: dict[str, pl.Series] = {}
        if found:
            table = pa.Table.from_batches(found)
            columns = {name: pl.Series(name, table[name]) for name in names}
        item_ids = self.item_ids.value
        if not columns:
            columns = {
                "user": pl.Series([], dtype=pl.Int64),
                "held": pl.Series([], dtype=pl.Boolean),
            }
            columns |= {"item": pl.Series(item_ids[:0]), "rating": pl.Series([], dtype=pl.Float64)}
        users = number_ids(read_column("user", columns["user"]))[0]
        known, test = (
            self._of(columns, held, item_ids, users) for held in (~columns["held"], columns["held"])
        )
        return known, test

    def _of(
        self, columns: dict[str, pl.Series], some: pl.Series, item_ids: NDArray[Any], users: Any
    ) -> Interactions:
        rating = columns["rating"].filter(some) if self.explicit else None
        user, item = (columns[name].filter(some) for name in ("user", "item"))
        found = Interactions(user, item, rating, items=item_ids, rating_range=self.rating_range)
        return _among(found, users)


def _among(data: Interactions, users: NDArray[Any]) -> Interactions:
    """The same interactions, of more users; ids go up in both."""
    rows, part = data.by_user, data.take(np.arange(len(data.by_user.other)))
    place: Integers = match_ids(data.user_ids, users)
    size = np.bincount(place[data.user_of_row], minlength=len(users))
    part.user_ids = users
    part.by_user = Orientation(np.concatenate([[0], np.cumsum(size)]), rows.other, rows.rating)
    return part


class _Work(ABC):
    """What a partition adds, as one row."""

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        try:
            content = to_bytes(self.sums(batches))
        except ApportionError as error:
            content = to_bytes({_ERROR: np.frombuffer(error_text(error), np.uint8)})
        yield pa.RecordBatch.from_pydict({"data": pa.array([content], pa.binary())})

    @abstractmethod
    def sums(self, batches: Iterable[Any]) -> dict[str, Array]:
        """By name; those of some users and of others add up to those of all."""


@dataclass(frozen=True, eq=False)
class _Count(_Work):
    """What is popular, and how it is rated."""

    read: _Read
    items: int

    def sums(self, batches: Iterable[Any]) -> dict[str, Array]:
        """See ``_Work``."""
        known, test = self.read(batches)
        rows = known.by_user
        counts = np.bincount(rows.other, minlength=self.items).astype(np.float64)
        users = np.array([np.count_nonzero(np.diff(test.by_user.start))], dtype=np.float64)
        of_test = np.bincount(test.by_user.other, minlength=self.items).astype(np.float64)
        found = {"counts": counts, "test": of_test, "users": users}
        if rows.rating is not None:
            rating = rows.rating.astype(np.float64)
            sums = np.bincount(rows.other, weights=rating, minlength=self.items)
            found["ratings"] = sums.astype(np.float64)
        return found


@dataclass(frozen=True, eq=False)
class _Judge(_Work):
    """What users' predictions or lists are worth."""

    read: _Read
    judge: Traveling
    seed: int

    def sums(self, batches: Iterable[Any]) -> dict[str, Array]:
        """See ``_Work``."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "called in a task"
        part = self.judge.value.part(*self.read(batches))
        drawn, rows = poisson_sums(part.of_user, part.numbers, self.seed, context.partitionId())
        sums = {_SUMS + name: each for name, each in part.sums.items()}
        return {**sums, "drawn": drawn, "drawn rows": rows}
