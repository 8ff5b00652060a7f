"""Rows (user, task, features, label): reading and checking them."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.checks import number, whole
from apportion.data.cards import catalog_fact, data_card
from apportion.data.catalog import Catalog, listed, read_catalog, read_positions
from apportion.data.files import table_of
from apportion.data.graph import Graph, mix
from apportion.data.ids import Integers, id_keys, number_ids, plain_ids, read_column, read_ids
from apportion.data.numeric import read_numbers
from apportion.data.rows import Rows
from apportion.errors import DataError, ParameterError


class TaskData:
    """Examples of many tasks, contributed by users who each take part in some of them.

    Rows of the same (user, task) are allowed. They share the user's weight for that task equally,
    as if they were one row with the average of their statistics, so that repeating a row changes
    nothing and the privacy bound holds.

    Args:
        user: who contributed the row; ids of any type, [rows].
        task: which task it belongs to; ids of any type, [rows].
        features: one feature vector per row, [rows, d], or one per user, [users, d], with
            ``per_user=True``; then ``user`` holds row numbers of ``features``.
        labels: one number per row, [rows]; one if not given (for classification, where the task is
            the class).
        tasks: the public catalog: the number m of tasks (ids are then 0..m-1), a list of ids, or the path
            of a file of one id a line. Which tasks exist must not depend on who is in the data.
            ``"public"`` takes the ids that occur in the data and declares this list public. Without a
            catalog the data can only be used where no privacy is asked for.
        per_user: whether ``features`` has one row per user.
        user_ids: with ``per_user``, an id for each row of ``features``, [users]. Without them a user's id
            is its row number: a user who leaves must leave its row behind, or the others' ids, and with
            them their sides of a ``split``, change.

    Attributes
        feature_names: of the features, if they were read from named columns.

    >>> import numpy as np
    >>> data = TaskData(
    ...     user=["ann", "ann", "bob"], task=[0, 1, 1],
    ...     features=np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]), labels=[1.0, 0.0, 1.0], tasks=2,
    ... )
    >>> data
    TaskData(tasks=2, dimension=2)
    """

    feature_names: tuple[str, ...] | None = None

    def __init__(
        self,
        user: ArrayLike,
        task: ArrayLike,
        features: ArrayLike,
        labels: ArrayLike | None = None,
        *,
        tasks: Catalog = None,
        per_user: bool = False,
        user_ids: Any = None,
    ) -> None:
        self.features = read_matrix("features", features)
        users, task_ids = read_column("user", user), read_column("task", task)
        self.labels = np.ones(len(task_ids)) if labels is None else _numbers("labels", labels)
        rows = len(self.labels)
        for name, length in (("user", len(users)), ("task", len(task_ids))):
            if length != rows:
                raise DataError(f"{name} has {length} rows and labels has {rows}; they must agree")
        if per_user:
            self.user: Integers = read_positions(
                "user", users, len(self.features), "features has that many rows"
            )
            self.user_key = _user_keys(user_ids, len(self.features))
            self.feature_row = self.user
        else:
            if len(self.features) != rows:
                raise DataError(
                    f"features has {len(self.features)} rows and labels has {rows}; give one row of "
                    "features for each, or one for each user with per_user=True"
                )
            distinct, user_codes = number_ids(users)
            self.user = user_codes.astype(np.int64)
            self.user_key = id_keys(distinct)
            self.feature_row = np.arange(rows)
        tasks = listed("task", tasks, task_ids)
        self.catalog_is_public = tasks is not None
        self.catalog_from_data = isinstance(tasks, str)
        self.task_ids, task_codes = read_catalog("task", tasks, task_ids)
        self.task: Integers = task_codes.astype(np.int64)
        _freeze(self.features, self.labels, self.user, self.task, self.feature_row)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        user: str,
        task: str,
        features: Sequence[str],
        label: str | None = None,
        tasks: Catalog = None,
    ) -> Self:
        """Read named columns of a pandas, polars or pyarrow table; models remember the names of features.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"who": [1, 2], "what": [0, 0], "x": [0.1, 0.2], "y": [1.0, 0.0]})
        >>> TaskData.from_frame(frame, user="who", task="what", features=["x"], label="y", tasks=1)
        TaskData(tasks=1, dimension=1)
        """
        if isinstance(features, str):
            raise ParameterError("features must be a list of column names, not one string")
        labels = () if label is None else (label,)
        frame = table_of(frame, (user, task, *labels, *features))
        if not features:
            raise ParameterError("features must name at least one column")
        columns = [_numbers(name, frame[name]) for name in features]
        data = cls(
            user=frame[user],
            task=frame[task],
            features=np.stack(columns, axis=1),
            labels=None if label is None else _numbers(label, frame[label]),
            tasks=tasks,
        )
        data.feature_names = tuple(features)
        return data

    @staticmethod
    def from_spark(
        frame: Any,
        *,
        user: str,
        task: str,
        features: Sequence[str],
        label: str,
        tasks: Catalog = None,
        store: str | None = None,
        shards: int | None = None,
    ) -> "TaskData":
        """Read named columns of a Spark frame; see ``Interactions.from_spark``."""
        from apportion.data.spark.tasks import tasks_from_spark

        return tasks_from_spark(
            frame,
            user=user,
            task=task,
            features=features,
            label=label,
            tasks=tasks,
            store=store,
            shards=shards,
        )

    @staticmethod
    def from_store(session: Any, store: str) -> "TaskData":
        """What ``from_spark(..., store=...)`` wrote: the same rows, whatever has become of the frame."""
        from apportion.data.spark.tasks import tasks_from_store

        return tasks_from_store(session, store)

    @property
    def tasks(self) -> int:
        """The number of tasks in the catalog."""
        return len(self.task_ids)

    @property
    def dimension(self) -> int:
        """The length d of a feature vector."""
        return int(self.features.shape[1])

    @cached_property
    def _pairs(self) -> tuple[Graph, Integers]:
        # Without a catalog a task's position would depend on who else is in the data.
        key = None if self.catalog_is_public else id_keys(self.task_ids)
        return Graph.from_rows(self.user, self.task, self.user_key, self.tasks, key)

    @property
    def graph(self) -> Graph:
        """Who takes part in what, without repetitions."""
        return self._pairs[0]

    @property
    def pair_of_row(self) -> Integers:
        """The pair of ``graph`` that each example belongs to, [rows]."""
        return self._pairs[1]

    def rows(self) -> Rows:
        """As an engine loads them: by user, then task; rows of one pair in their order."""
        order = np.argsort(self.pair_of_row, kind="stable")
        users = len(self.user_key)
        start = np.concatenate([[0], np.cumsum(np.bincount(self.user, minlength=users))])
        return Rows(
            start=start,
            task=self.task[order],
            task_ids=self.task_ids,
            user_key=self.user_key,
            label=self.labels[order],
            features=self.features,
            feature_row=self.feature_row[order],
        )

    def contents(self) -> list[Any]:
        """All that a training sees of the data: what a checkpoint compares."""
        rows = [self.user, self.task, self.features, self.feature_row, self.labels]
        return [*rows, self.user_key, self.task_ids, self.catalog_from_data]

    def take(self, rows: NDArray[Any]) -> "TaskData":
        """The examples at these row numbers (or where this mask is true), catalog unchanged."""
        return self.remade(rows, self.task[rows], self.labels[rows])

    def __len__(self) -> int:
        """The number of rows. Not public."""
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features, as scikit-learn asks for them. Not public."""
        return len(self), self.dimension

    def __getitem__(self, rows: Any) -> "TaskData":
        """``take``, for folds of scikit-learn; see ``UserKFold``."""
        if isinstance(rows, tuple) and len(rows) == 2 and rows[1] is Ellipsis:
            rows = rows[0]
        if not isinstance(rows, (slice, list, np.ndarray)):
            raise DataError("examples are chosen by a list of row numbers, a mask or a slice")
        return self.take(np.arange(len(self))[rows])

    def with_features(self, features: NDArray[np.float64]) -> "TaskData":
        """The same examples with other features, in rows as these are."""
        part = object.__new__(TaskData)
        part.__dict__ = {**vars(self), "features": features}
        _freeze(features)
        return part

    def remade(self, rows: NDArray[Any], task: Integers, labels: NDArray[np.float64]) -> "TaskData":
        """Examples with the users and features of these rows, and other tasks and labels."""
        if len(task) and not 0 <= task.min() <= task.max() < self.tasks:
            raise DataError("a task is not in the catalog")
        if not np.isfinite(labels).all():
            raise DataError("a label is missing or not finite")
        part = object.__new__(TaskData)
        part.__dict__ = {name: value for name, value in vars(self).items() if name != "_pairs"}
        part.user, part.feature_row = self.user[rows], self.feature_row[rows]
        part.task, part.labels = task, labels
        _freeze(part.user, part.feature_row, part.task, part.labels)
        return part

    def split(self, test: float = 0.2, seed: int = 0) -> tuple["TaskData", "TaskData"]:
        """Split the examples at random into a training part and a test part.

        A row's side depends on the seed, its user's id and what the row holds, and on no other row:
        neither a user who leaves nor another order of the rows changes it. Equal rows are on one side.
        """
        test = number("test", test, above=0, below=1)
        scores = self.row_scores(whole("seed", seed, at_least=0))
        held_out = scores < np.uint64(int(test * 2.0**64))
        return self.take(~held_out), self.take(held_out)

    def row_scores(self, key: int) -> NDArray[np.uint64]:
        """A random number for every row, from the key, its user's id and what it holds, [rows]."""
        return mix(self.graph.scores(key)[self.pair_of_row] ^ self._content())

    def _content(self) -> NDArray[np.uint64]:
        """A number for every row that depends on its features and label alone, [rows]."""
        number = np.zeros(len(self.features), dtype=np.uint64)
        for column in self.features.T:
            number = mix(number ^ _bits(column))
        return mix(number[self.feature_row] ^ _bits(self.labels))

    def ordered(self) -> "TaskData":
        """The same rows by user, task and what they hold: in whatever order they came, the same."""
        pair = self.pair_of_row
        if len(pair) == len(self.graph.task):  # a row for each pair
            if (pair[1:] > pair[:-1]).all():
                return self
            order = np.empty(len(pair), dtype=np.int64)
            order[pair] = np.arange(len(pair))
        else:
            order = _sort_within(pair, len(self.graph.task), self._content())
        return self.remade(order, self.task[order], self.labels[order])

    def __repr__(self) -> str:
        # Public facts only: the numbers of rows and users are not.
        tasks = f"tasks={self.tasks}, " if self.catalog_is_public else ""
        return f"TaskData({tasks}dimension={self.dimension})"

    def _repr_html_(self) -> str:
        known = {"tasks": catalog_fact(self), "features": self.dimension}
        return data_card("TaskData", known, "look at its arrays")


def _sort_within(pair: Integers, pairs: int, content: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The order by pair, then content, [rows]: by one number made of both, if it tells them apart."""
    size = np.uint64(pairs.bit_length())
    key = pair.astype(np.uint64) << (np.uint64(64) - size) | content >> size
    order = np.argsort(key)
    key, content = key[order], content[order]
    if ((key[1:] == key[:-1]) & (content[1:] != content[:-1])).any():
        return order[np.lexsort((content, pair[order]))]
    return order


def _bits(numbers: NDArray[np.float64]) -> NDArray[np.uint64]:
    """The bits of each number; of -0.0 those of 0.0."""
    return np.asarray(numbers + 0.0).view(np.uint64)


def _user_keys(user_ids: Any, users: int) -> NDArray[np.uint64]:
    """Keys of the users whose features are stored once: from their ids, else their row numbers."""
    if user_ids is None:
        return np.arange(users, dtype=np.uint64)
    ids = plain_ids(read_ids("user_ids", user_ids))
    if len(ids) != users or len(set(ids.tolist())) < users:
        raise DataError(f"user_ids must be {users} different ids, one for each row of features")
    return id_keys(ids)


def _freeze(*arrays: NDArray[Any]) -> None:
    for array in arrays:
        array.flags.writeable = False


def _numbers(name: str, values: Any) -> NDArray[np.float64]:
    array = read_numbers(name, values, np.float64).view()
    if array.ndim != 1:
        raise DataError(f"{name} must be one-dimensional, got {array.ndim} dimensions")
    if not (finite := np.isfinite(array)).all():
        raise DataError(f"{name}: row {int(np.argmin(finite))} is missing or not finite")
    return array


def read_matrix(name: str, values: Any) -> NDArray[np.float64]:
    """Finite numbers in rows of one length, [rows, d]."""
    if hasattr(values, "tocoo"):
        raise DataError(
            f"{name} must be a dense array, got a sparse one; values.toarray() makes one"
        )
    more = ", in rows of one length"
    array = read_numbers(name, values, np.float64, order="C", more=more).view()
    if array.ndim != 2 or array.shape[1] == 0:
        raise DataError(
            f"{name} must be two-dimensional with at least one column, got {array.shape}"
        )
    if not (finite := np.isfinite(array)).all():
        row, column = divmod(int(np.argmin(finite)), array.shape[1])
        raise DataError(f"{name}: row {row}, column {column} is missing or not finite")
    return array
