"""The small interface between algorithms and the machine that sums for them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class TaskRows:
    """Weighted examples, sorted by task.

    Attributes
        features: distinct feature vectors, [feature rows, d].
        feature_row: the feature vector of each example, [rows].
        label, weight: of each example, [rows].
        start: where each task's examples begin, with the end appended, [tasks + 1].
    """

    features: Array
    feature_row: Integers
    label: Array
    weight: Array
    start: Integers

    @classmethod
    def sort(
        cls,
        features: Array,
        feature_row: Integers,
        label: Array,
        weight: Array,
        task: Integers,
        tasks: int,
    ) -> Self:
        """Bring examples in any order into the order of their tasks; drop those of weight zero."""
        kept = np.flatnonzero(weight)
        order = kept[np.argsort(task[kept], kind="stable")]
        start = np.concatenate([[0], np.cumsum(np.bincount(task[kept], minlength=tasks))])
        return cls(features, feature_row[order], label[order], weight[order], start)

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return len(self.start) - 1

    @property
    def dimension(self) -> int:
        """The length d of a feature vector."""
        return int(self.features.shape[1])


class Engine(ABC):
    """Computes sums over users, task by task."""

    @abstractmethod
    def statistics(self, rows: TaskRows, first_task: int, stop_task: int) -> tuple[Array, Array]:
        """For each task of the block, sum of w x x' (packed upper triangle) and of w y x.

        Shapes [block, d (d + 1) / 2] and [block, d].
        """
