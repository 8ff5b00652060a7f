"""Users' rows in this machine's memory, and what is made of them: weights, labels, bounded features."""

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from apportion.data.centering import Centering
from apportion.data.ids import id_keys, match_ids
from apportion.data.rows import Rows
from apportion.data.sorting import counting_sort
from apportion.engine.base import Array, Session, Units
from apportion.engine.kernels import Kernels, Rows32, Starts
from apportion.engine.queries import UserSystems, WeightRule
from apportion.errors import ReleaseError
from apportion.privacy.bounds import UserWeights, clip_rows, row_norms
from apportion.privacy.noise import TILE
from apportion.privacy.parts import packed_width
from apportion.privacy.rounding import LONGEST
from apportion.threads import thread_count

Integers = NDArray[np.integer[Any]]

# Sums of a block of tasks take about so many bytes.
_BLOCK_BYTES = 40 * 2**20


@dataclass(frozen=True, eq=False)
class ByTask:
    """The chosen rows in the order of their tasks.

    Attributes
        start: where each task's rows begin, with the end appended, [tasks + 1].
        order: their places among the chosen rows, [rows].
        feature_row: the feature vector of each, [rows].
    """

    start: Starts
    order: Any
    feature_row: Rows32


class HeldRows(Session):
    """All steps of a ``Session``; ``LocalSession`` adds the sums.

    Rows are those of the chosen tasks, by user, unless a name says otherwise.

    Attributes
        block_bytes: what the sums of a block of tasks take, about. It changes no sum.
    """

    def __init__(self, rows: Rows, kernels: Kernels) -> None:
        self.block_bytes = _BLOCK_BYTES
        self._given, self._chosen, self.tasks = rows, rows, rows.tasks
        self._kernels = kernels
        # Numbers of chosen tasks for those of the catalog, -1 where a task is not chosen.
        self._numbers: Integers | None = None
        self._features: Any = rows.features
        self._dimension = 0 if rows.features is None else rows.features.shape[1]
        self._unit = 1.0
        self._weights: UserWeights | None = None
        self._row_weight: Array | None = None
        # What was made of rows, weights, labels and features, by name; forgotten when these change.
        self._of_rows: dict[Any, Any] = {}
        self._of_weights: dict[Any, Any] = {}
        self._of_labels: dict[Any, Any] = {}
        self._of_features: dict[Any, Any] = {}
        self.center(Centering())

    # What a session is made of, step by step

    def candidates(self, cap: int, key: int) -> tuple[NDArray[Any], Units]:
        """See ``Session.candidates``."""
        graph, _ = self._given.graph()
        # By the ids of the tasks: their places depend on who else is in the data.
        graph = replace(graph, task_key=id_keys(self._given.task_ids))
        counts = np.bincount(graph.task[graph.sample(cap, key)], minlength=graph.tasks)
        return self._given.task_ids, counts.astype(np.int64)

    def choose(self, task_ids: NDArray[Any]) -> None:
        """See ``Session.choose``."""
        given = self._given
        place = match_ids(task_ids, given.task_ids)
        numbers = np.full(given.tasks, -1, dtype=np.int32)
        numbers[place[place >= 0]] = np.flatnonzero(place >= 0)
        task, user = numbers[given.task], given.user
        kept = np.flatnonzero(task >= 0)
        kept = kept[np.lexsort((task[kept], user[kept]))]
        start = np.concatenate([[0], np.cumsum(np.bincount(user[kept], minlength=given.users))])
        self._numbers, self.tasks = numbers, len(task_ids)
        self._chosen = Rows(
            start=start,
            task=task[kept],
            task_ids=task_ids,
            user_key=given.user_key,
            label=None if given.label is None else given.label[kept],
            features=given.features,
            feature_row=None if given.feature_row is None else given.feature_row[kept],
            confidence=None if given.confidence is None else given.confidence[kept],
        )
        self._of_rows, self._of_weights = {}, {}
        self._weights = self._row_weight = None
        self.center(Centering())

    def weigh(self, rule: WeightRule) -> None:
        """See ``Session.weigh``."""
        graph, pair_of_row = self._chosen.graph()
        weights = rule(graph)
        if not isinstance(weights, UserWeights):
            raise ReleaseError("an allocation must give bounded weights")
        same = np.array_equal(weights.user, graph.user) and np.array_equal(weights.task, graph.task)
        if not same:
            raise ReleaseError("an allocation must give weights of exactly the graph's pairs")
        self._of_weights = {}
        self._weights = weights
        self._row_weight = weights.values if pair_of_row is None else weights.per_row(pair_of_row)

    def center(self, centering: Centering, intercepts: Array | None = None) -> None:
        """See ``Session.center``."""
        self._of_labels = {}
        self._centering = centering, intercepts

    @property
    def _labels(self) -> Array:
        return np.asarray(self._kept(self._of_labels, "centered", self._centered))

    def _centered(self) -> Array:
        """Labels less intercepts and centers, [rows]; one for an event."""
        given, chosen, (centering, intercepts) = self._given, self._chosen, self._centering
        if given.label is None or chosen.label is None:
            return np.ones(len(chosen.task))
        rating, mine = given.label.astype(np.float64), chosen.label.astype(np.float64)
        if intercepts is not None:
            # -1, not chosen, is the last.
            number = given.task if self._numbers is None else self._numbers[given.task]
            rating -= np.append(intercepts, 0.0)[number]
            mine -= intercepts[chosen.task]
        centers = centering.centers(given.start, rating)
        return np.asarray(mine - np.repeat(centers, np.diff(chosen.start)))

    def bound_features(self, bound: float, *, whole: bool = True) -> None:
        """See ``Session.bound_features``."""
        features = self._given.features
        assert features is not None, "features are solved here, not loaded"
        if whole:
            self._features = self._kernels.short_rows(features, bound)
            self._unit = bound / LONGEST
        else:
            self._features, self._unit = clip_rows(features, bound), 1.0
        self._of_features = {}

    def solve_users(
        self,
        items: Array,
        shared: Array,
        systems: UserSystems,
        bound: float | None,
        *,
        stretch: bool = False,
    ) -> None:
        """See ``Session.solve_users``."""
        start = self._starts
        self._features = None  # the largest array beside the rows: not twice
        self._of_features = {}
        self._dimension = items.shape[1]
        ridge = systems.ridge(np.diff(start))
        with np.errstate(all="ignore"):
            features = self._kernels.solve_users(
                start, self._task, self._labels, items, ridge, shared, bound=bound, stretch=stretch
            )
        if bound is None:
            # Numbers beyond all bounds must not stop a training.
            features[~np.isfinite(features).all(axis=1)] = 0.0
        self._features, self._unit = features, 1.0 if bound is None else bound / LONGEST

    def without_vectors(self) -> Self:
        """The same session before users' vectors were solved; they have to be solved again."""
        other = copy(self)
        other._features, other._of_features = None, {}
        return other

    # Rows, and what is made of them once

    @property
    def _starts(self) -> Starts:
        return np.ascontiguousarray(self._chosen.start, dtype=np.int64)

    @property
    def _task(self) -> Rows32:
        task: Rows32 = self._kept(
            self._of_rows, "task", lambda: np.ascontiguousarray(self._chosen.task, dtype=np.int32)
        )
        return task

    @property
    def _feature_row(self) -> Rows32:
        """The feature vector of every row, [rows]."""
        own = self._chosen.feature_row
        return np.ascontiguousarray(self._chosen.user if own is None else own, dtype=np.int32)

    @property
    def _by_task(self) -> ByTask:
        def sort() -> ByTask:
            start, order = counting_sort(self._chosen.task, self.tasks)
            own = np.ascontiguousarray(self._feature_row[order])
            return ByTask(np.asarray(start, dtype=np.int64), order, own)

        found: ByTask = self._kept(self._of_rows, "by task", sort)
        return found

    def _in_order(self, of: dict[Any, Any], name: Any, make: Callable[[], Array]) -> Array:
        """Numbers of the chosen rows in the order of their tasks; kept for the next sweep."""

        def sort() -> Array:
            array = make()
            # Labels of events are all the same, in any order.
            alike = len(array) > 0 and bool((array == array[0]).all())
            return array if alike else array[self._by_task.order]

        return np.asarray(self._kept(of, name, sort))

    def _kept(self, of: dict[Any, Any], name: Any, make: Callable[[], Any]) -> Any:
        if name not in of:
            of[name] = make()
        return of[name]

    @property
    def _ones(self) -> Array:
        return np.ones(len(self._features))

    def _float_features(self) -> tuple[Array, Array]:
        """Features as floating-point numbers, and their norms."""

        def make() -> tuple[Array, Array]:
            features = self._features
            if features.dtype == np.int16:
                features = features[:, : self._dimension] * self._unit
            features = np.ascontiguousarray(features, dtype=np.float64)
            return features, row_norms(features)

        found: tuple[Array, Array] = self._kept(self._of_features, "float", make)
        return found

    def _bounded_weights(self) -> UserWeights:
        assert self._weights is not None, "weigh first"
        return self._weights

    @property
    def _weight_of_rows(self) -> Array:
        assert self._row_weight is not None, "weigh first"
        return self._row_weight

    def _blocks_of_tasks(self) -> Iterator[tuple[int, slice, Starts]]:
        """So many tasks that their sums take little memory: whole tiles of noise, as many for each thread.

        The first task, its and the others' rows by task, and where each one's begin among these.
        """
        block = max(1, self.block_bytes // (16 * packed_width(self._dimension)))
        whole = TILE * thread_count() if block >= TILE * thread_count() else TILE
        block -= block % whole if block > whole else 0
        for first in range(0, self.tasks, block):
            start = self._by_task.start[first : min(first + block, self.tasks) + 1]
            yield first, slice(int(start[0]), int(start[-1])), start - start[0]
