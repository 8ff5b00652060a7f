"""Examples of many tasks whose rows lie in Spark."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.checks import whole
from apportion.data.catalog import Catalog, listed
from apportion.data.rows import Rows
from apportion.data.spark.frames import columns_of, find_frame, find_ids, sharded
from apportion.data.spark.shards import SparkRows
from apportion.data.spark.store import Store, read_store, write_store
from apportion.data.tasks import TaskData
from apportion.errors import DataError, ParameterError

# What an object of a machine's own memory has, and this has not.
_ELSEWHERE = ("features", "labels", "user", "task", "feature_row", "user_key")


class SparkTaskData(TaskData):
    """See ``TaskData.from_spark``: what is public is here, users and rows are not."""

    def __init__(self, store: Store) -> None:
        settings = store.settings
        if settings["kind"] != "tasks":
            raise DataError("these stored rows are no examples of tasks")
        self.catalog_is_public = settings["catalog_is_public"]
        self.catalog_from_data = settings["catalog_from_data"]
        self.task_ids = store.ids
        self._dimension = int(settings["dimension"])
        self._store = store

    @property
    def dimension(self) -> int:
        """The length d of a feature vector."""
        return self._dimension

    def ordered(self) -> "SparkTaskData":
        """Themselves: shards were ordered when they were made."""
        return self

    def rows(self) -> SparkRows:  # type: ignore[override]
        """As ``SparkEngine`` loads them."""
        store = self._store
        return SparkRows(
            store.frame,
            len(store.digests),
            self.task_ids,
            dimension=self._dimension,
            digests=store.digests,
            asked=store.asked,
        )

    def contents(self) -> list[Any]:
        """See ``TaskData.contents``: digests of the shards stand for their rows."""
        return [sorted(self._store.digests.items()), self.task_ids, self.catalog_from_data]

    def __getattr__(self, name: str) -> Any:
        if name in _ELSEWHERE:
            raise DataError(
                "the rows of these examples lie in Spark: what you called needs them in this machine's "
                "memory. Select, split and count in the frame, before from_spark"
            )
        raise AttributeError(name)


@dataclass(frozen=True)
class _Build:
    """A shard's rows from its columns: as examples of one machine are made."""

    user: str
    task: str
    features: tuple[str, ...]
    label: str

    def __call__(self, task_ids: NDArray[Any], columns: Any) -> Rows:
        if not columns:
            columns = dict.fromkeys((*self.features, self.label), np.zeros(0))
            columns[self.user] = np.zeros(0, dtype=np.int64)
            columns[self.task] = np.zeros(0, dtype=task_ids.dtype)
        data = TaskData(
            columns[self.user],
            columns[self.task],
            np.stack([np.asarray(columns[name]) for name in self.features], axis=1),
            columns[self.label],
            tasks=task_ids,
        )
        return data.ordered().rows()


def tasks_from_spark(
    frame: Any,
    *,
    user: str,
    task: str,
    features: Sequence[str],
    label: str,
    tasks: Catalog,
    store: str | None,
    shards: int | None,
) -> SparkTaskData:
    """See ``TaskData.from_spark``."""
    tasks = listed("task", tasks)
    if isinstance(features, str) or not features:
        raise ParameterError("features must be a list of column names, at least one")
    frame = columns_of(find_frame(frame), [user, task], [*features, label])
    if shards is not None:
        whole("shards", shards, at_least=1, at_most=2**20)
    ids = find_ids(frame, task, "task", tasks)
    settings = {
        "kind": "tasks",
        "dimension": len(features),
        "catalog_is_public": tasks is not None,
        "catalog_from_data": isinstance(tasks, str),
    }
    made, count = sharded(frame, user, ids, _Build(user, task, tuple(features), label), shards)
    return SparkTaskData(write_store(made, (count, shards), settings, ids, store))


def tasks_from_store(session: Any, store: str) -> SparkTaskData:
    """See ``TaskData.from_store``."""
    return SparkTaskData(read_store(session, store))
