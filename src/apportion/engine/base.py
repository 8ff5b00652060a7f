"""The small interface between algorithms and the machine that sums for them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from apportion.engine.sorting import counting_sort

Array = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Examples:
    """Weighted examples, in an order that a subclass chooses.

    Attributes
        features: distinct feature vectors, [feature rows, d]; where sums are to be exact, 16-bit whole
            numbers, of norm below 2^15.
        unit: what the numbers of features are multiples of.
        columns: how many columns of features there are, if zeros follow them (see ``Engine.prepare``).
        feature_row: the feature vector of each example, [rows].
        label, weight, user: of each example, [rows].
    """

    features: Any
    feature_row: Integers
    label: Array
    weight: Array
    user: Integers
    unit: float = field(default=1.0, kw_only=True)
    columns: int | None = field(default=None, kw_only=True)

    def of_users(self, sample: NDArray[np.bool_]) -> Self:
        """The same examples, those of users outside the sample [users] with weight zero."""
        return replace(self, weight=self.weight * sample[self.user])

    @property
    def dimension(self) -> int:
        """The length d of a feature vector."""
        return int(self.features.shape[1]) if self.columns is None else self.columns


@dataclass(frozen=True, eq=False)
class TaskRows(Examples):
    """Examples sorted by task.

    Attributes
        start: where each task's examples begin, with the end appended, [tasks + 1].
        share: labels count times this share of their feature vector's, [feature rows], if there is one.
    """

    start: Integers
    share: Array | None = field(default=None, kw_only=True)

    @classmethod
    def sort(
        cls,
        features: Array,
        feature_row: Integers,
        label: Array,
        weight: Array,
        user: Integers,
        task: Integers,
        tasks: int,
    ) -> Self:
        """Bring examples in any order into the order of their tasks; drop those of weight zero."""
        order: Any = slice(None)  # nothing is copied if the examples are in order already
        if not weight.all():
            kept = np.flatnonzero(weight)
            start, places = counting_sort(task[kept], tasks)
            order = kept[places]
        elif (task[1:] < task[:-1]).any():
            start, order = counting_sort(task, tasks)
        else:
            start = np.concatenate([[0], np.cumsum(np.bincount(task, minlength=tasks))])
        own = feature_row[order]
        users = own if user is feature_row else user[order]
        # Events all have the same label, in any order.
        alike = len(label) > 0 and bool((label == label[0]).all())
        labels = label[: len(own)] if alike else label[order]
        return cls(features, own, labels, weight[order], users, start)

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return len(self.start) - 1


@dataclass(frozen=True, eq=False)
class UserRows(Examples):
    """Examples sorted by user, then task.

    Attributes
        task: of each example, [rows].
        start: where each user's examples begin, with the end appended, [users + 1].
        tasks: the number of tasks.
    """

    task: Integers
    start: Integers
    tasks: int

    @classmethod
    def sort(
        cls,
        features: Array,
        feature_row: Integers,
        label: Array,
        weight: Array,
        user: Integers,
        task: Integers,
        tasks: int,
    ) -> Self:
        """Bring examples in any order into the order of their users and tasks."""
        order: Any = slice(None)  # nothing is copied if the examples are in order already
        same = user[1:] == user[:-1]
        if (user[1:] < user[:-1]).any() or (same & (task[1:] < task[:-1])).any():
            _, by_task = counting_sort(task, tasks)
            _, by_user = counting_sort(user[by_task], int(user.max()) + 1)
            order = by_task[by_user]
        user, task = user[order], task[order]
        changes = np.flatnonzero(user[1:] != user[:-1]) + 1
        start = np.concatenate([[0], changes, [len(user)]]) if len(user) else np.zeros(1, np.int64)
        examples = (feature_row[order], label[order], weight[order], user, task)
        return cls(features, *examples, start, tasks)


class Engine(ABC):
    """Computes sums over users, task by task."""

    def prepare(self, rows: TaskRows) -> TaskRows:
        """The same rows, in a form of which ``statistics`` of block after block copies nothing."""
        return rows

    @abstractmethod
    def statistics(
        self,
        rows: TaskRows,
        first_task: int,
        stop_task: int,
        grids: tuple[float, float] | None = None,
    ) -> tuple[Array, Array]:
        """For each task of the block, sum of w x x' (packed upper triangle) and of w y x, y being the label
        times its share.

        Shapes [block, d (d + 1) / 2] and [block, d]. With ``grids``, powers of two, features are 16-bit
        numbers of at most 2^15 - 1 units in norm, of a size so that this squared is at most 2^26 of
        the first grid; and every row's part is a multiple of the grids, not larger than it would be
        otherwise, up to rounding of 2^-21: the sums are exact.
        """

    @abstractmethod
    def moments(self, rows: TaskRows, grid: float) -> Array:
        """For each task, the sum of w y x alone, as above, [tasks, d]."""

    @abstractmethod
    def row_clipped_gradient(
        self, rows: TaskRows, norms: Array, coef: Array, derivative: Any, bound: float, grid: float
    ) -> Array:
        """Sum over examples of w times the example's gradient, clipped to ``bound``, [tasks, d].

        Every example's part is rounded towards zero to a multiple of the grid, unless that is zero.

        The gradient of an example is derivative(theta_i . x, y) x; ``norms`` are those of the feature
        vectors, [feature rows]. An example whose derivative is not finite, or whose features are
        smaller than any data (norm below 1e-150), gives nothing.
        """

    @abstractmethod
    def user_clipped_gradient(
        self, rows: UserRows, norms: Array, coef: Array, derivative: Any, bound: float, grid: float
    ) -> Array:
        """Sum over users of the user's weighted gradient, clipped as a whole to ``bound``, [tasks, d].

        On a grid, as above.

        The norm of a user's gradient is bounded from above by that of the vector that holds, for each
        task, the sum of the norms of the user's weighted examples there (one, usually).
        """

    @abstractmethod
    def solve_users(
        self,
        start: Integers,
        item: Integers,
        label: Array,
        items: Array,
        ridge: Array,
        shared: Array,
    ) -> Array:
        """For each user, argmin over v of sum (y - u . v)^2 + v' (shared + ridge I) v, [users, d].

        The sum is over the user's rows ``start[j]:start[j + 1]`` of ``item`` and ``label``; u are rows
        of ``items`` [items, d]. ``ridge`` is one number per user, ``shared`` [d, d] is common to all.
        Where nothing determines a direction it is left out.
        """

    @abstractmethod
    def top(
        self, scores: NDArray[np.float32], k: int, start: Integers, skip: Integers
    ) -> tuple[Integers, NDArray[np.float32]]:
        """The k columns with the highest scores of every row, best first, and their scores.

        Args:
            scores: [rows, columns].
            k: how many; a row with fewer columns left is filled up with column -1, score -inf.
            start, skip: row r leaves out the columns ``skip[start[r]:start[r + 1]]``.

        Equal scores come in the order of their columns. Shapes [rows, k].
        """
