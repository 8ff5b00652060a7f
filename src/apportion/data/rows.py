"""Rows of users, as an engine loads them: one form for ratings, events and examples of tasks."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from apportion.data.graph import Graph

Integers = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows grouped by user, those of a user in ascending order of their tasks.

    Attributes
        start: where each user's rows begin, with the end appended, [users + 1].
        task: the task (item) of each row, [rows].
        task_ids: of the catalog, [tasks].
        user_key: a number for each user that depends on nothing but its id, [users].
        label: of each row, [rows]; None for events, whose label is one.
        features: distinct feature vectors, [vectors, d]; None where they are solved (a recommender's users).
        feature_row: the feature vector of each row, [rows]; None: its user's.
        task_key: a number for each task that does not depend on other tasks, [tasks], unless the catalog
            is public.
        confidence: how much each row counts beside its user's others, above 0 and at most 1, [rows]; None:
            all alike.
    """

    start: Integers
    task: Integers
    task_ids: NDArray[Any]
    user_key: NDArray[np.uint64]
    label: NDArray[np.floating[Any]] | None = None
    features: NDArray[np.float64] | None = None
    feature_row: Integers | None = None
    task_key: NDArray[np.uint64] | None = None
    confidence: NDArray[np.floating[Any]] | None = None

    @property
    def users(self) -> int:
        """The number of users, with or without rows. Not public."""
        return len(self.start) - 1

    @property
    def tasks(self) -> int:
        """The number of tasks in the catalog."""
        return len(self.task_ids)

    @property
    def user(self) -> Integers:
        """The user of each row, [rows]."""
        return np.repeat(np.arange(self.users, dtype=np.int32), np.diff(self.start))

    def graph(self) -> tuple[Graph, Integers | None]:
        """Who takes part in what, without repetitions; and the pair of each row, [rows].

        None instead, if no pair is repeated: the rows are the pairs.
        """
        user = self.user
        new = np.ones(len(user), dtype=bool)
        new[1:] = (user[1:] != user[:-1]) | (self.task[1:] != self.task[:-1])
        if new.all():
            pairs = Graph(
                user, self.task, self.user_key, self.tasks, self.task_key, self.confidence
            )
            return pairs, None
        assert self.confidence is None, "events come once for each pair"
        pairs = Graph(user[new], self.task[new], self.user_key, self.tasks, self.task_key)
        return pairs, np.cumsum(new) - 1

    def without_labels(self) -> Self:
        """The same rows as events, whose label is one."""
        return replace(self, label=None)

    def of_users(self, first: int, stop: int) -> Self:
        """The rows of some users alone: a shard, as a cluster holds it."""
        rows = slice(self.start[first], self.start[stop])
        features, feature_row = self.features, self.feature_row
        if features is not None and feature_row is None:
            features = features[first:stop]
        elif feature_row is not None:
            feature_row = feature_row[rows]
        return type(self)(
            start=self.start[first : stop + 1] - self.start[first],
            task=self.task[rows],
            task_ids=self.task_ids,
            user_key=self.user_key[first:stop],
            label=None if self.label is None else self.label[rows],
            features=features,
            feature_row=feature_row,
            task_key=self.task_key,
            confidence=None if self.confidence is None else self.confidence[rows],
        )
