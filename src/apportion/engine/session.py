"""A session in this machine's memory: everything about users but the kernels, row by row and in NumPy."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.data.centering import Centering, rating_moments
from apportion.data.ids import id_keys, match_ids
from apportion.data.rows import Rows
from apportion.data.sorting import counting_sort
from apportion.engine import queries
from apportion.engine.base import Array, Block, Session, Units
from apportion.engine.kernels import Kernels, Rows32, Starts
from apportion.engine.queries import Query, Sample, UserSystems, WeightRule
from apportion.errors import ReleaseError
from apportion.privacy import rounding
from apportion.privacy.bounds import (
    MARGIN,
    UserWeights,
    clip_rows,
    clip_values,
    row_norms,
    scale_down,
)
from apportion.privacy.noise import TILE, poisson_sample
from apportion.privacy.parts import packed_width
from apportion.privacy.rounding import LONGEST

Integers = NDArray[np.integer[Any]]

# Sums of a block of tasks take about so many bytes.
_BLOCK_BYTES = 64 * 2**20


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


class LocalSession(Session):
    """See ``Session``. Rows are those of the chosen tasks, by user, unless a name says otherwise."""

    def __init__(self, rows: Rows, kernels: Kernels) -> None:
        self._given, self._chosen = rows, rows
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

    @property
    def tasks(self) -> int:
        """See ``Session.tasks``."""
        return self._chosen.tasks

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
        self._numbers = numbers
        self._chosen = Rows(
            start=start,
            task=task[kept],
            task_ids=task_ids,
            user_key=given.user_key,
            label=None if given.label is None else given.label[kept],
            features=given.features,
            feature_row=None if given.feature_row is None else given.feature_row[kept],
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
        given, chosen = self._given, self._chosen
        if given.label is None or chosen.label is None:
            self._labels = np.ones(len(chosen.task))
            return
        rating, mine = given.label.astype(np.float64), chosen.label.astype(np.float64)
        if intercepts is not None:
            # -1, not chosen, is the last.
            number = given.task if self._numbers is None else self._numbers[given.task]
            rating -= np.append(intercepts, 0.0)[number]
            mine -= intercepts[chosen.task]
        centers = centering.centers(given.start, rating)
        self._labels = centering.labels(chosen.start, mine, centers)

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

    # Sums of whole numbers

    def sums(self, query: Query, grids: tuple[float, ...]) -> Iterator[Block]:
        """See ``Session.sums``."""
        match query:
            case queries.Users():
                some = (np.diff(self._chosen.start) > 0).astype(np.float64)
                yield 0, (rounding.truncated(some, *grids).sum(keepdims=True)[:, None],)
            case queries.Means():
                yield 0, (self._means(query, *grids),)
            case queries.RatingMoments():
                yield 0, (self._rating_moments(query, *grids),)
            case queries.Counts():
                graph, _ = self._chosen.graph()
                yield 0, (self._added_up(graph.task, _count_parts(graph, query), *grids),)
            case queries.WeightSums():
                weights = self._bounded_weights()
                yield 0, (self._added_up(weights.task, weights.values, *grids),)
            case queries.Intercepts():
                weights = self._bounded_weights()
                parts = weights.values * self._scaled_labels(query.bound)
                yield 0, (self._added_up(weights.task, parts, *grids),)
            case queries.Gramian():
                yield 0, (self._gramian(*grids),)
            case queries.SecondMoment():
                yield 0, self._second_moment(*grids)
            case queries.RightHandSides():
                yield 0, (self._right_hand_sides(query, *grids),)
            case queries.Statistics():
                yield from self._statistics(query, *grids)
            case queries.Gradients():
                yield 0, (self._gradients(query, *grids),)
            case _:
                raise ReleaseError(f"this engine does not know {type(query).__name__}")

    def _added_up(self, task: Integers, parts: Array, grid: float) -> Units:
        rows = np.ascontiguousarray(task, dtype=np.int32)
        return self._kernels.number_sums(rows, parts, self.tasks, grid)[:, None]

    def _means(self, query: queries.Means, grid: float) -> Units:
        given = self._given
        centers = Centering("user", query.middle).centers(given.start, given.label)
        some = np.diff(given.start) > 0
        scaled = np.clip((centers[some] - query.middle) / query.half, -1.0, 1.0)
        units = rounding.truncated(np.stack([scaled, np.ones_like(scaled)], axis=1), grid)
        return np.asarray(units.sum(axis=0, keepdims=True))

    def _rating_moments(self, query: queries.RatingMoments, grid: float) -> Units:
        parts = rating_moments(self._given.start, self._given.label, query.middle, query.half)
        parts *= scale_down(row_norms(parts), 2.0)[:, None]
        return np.asarray(rounding.truncated(parts, grid).sum(axis=0, keepdims=True))

    def _gramian(self, grid: float) -> Units:
        everybody, ones = np.arange(len(self._features), dtype=np.int32), self._ones
        start = np.array([0, len(self._features)])
        rows = (self._features, self._dimension, everybody, ones, None, ones, start)
        return self._kernels.gram_sums(*rows, self._unit, grid, 1.0)[0]

    def _second_moment(self, grid: float, of_mass: float) -> tuple[Units, Units]:
        squared = self._squared_weights()
        row, start = self._feature_row, np.array([0, len(squared)])
        rows = (self._features, self._dimension, row, squared, None, squared, start)
        packed, _ = self._kernels.gram_sums(*rows, self._unit, grid, 1.0)
        return packed, self._mass(squared, of_mass)

    def _squared_weights(self) -> Array:
        """Rows of one user in one task share the pair's squared weight, as they share its weight, [rows]."""
        weights, (_, pair_of_row) = self._bounded_weights(), self._chosen.graph()
        own = weights.values if pair_of_row is None else weights.values[pair_of_row]
        return np.asarray(self._weight_of_rows * own)

    def _mass(self, squared: Array, grid: float) -> Units:
        """The sum over users of their squared weights, [1, 1]."""
        users = self._chosen.users
        # Floating-point numbers also where there are no rows.
        of_user = np.bincount(self._chosen.user, squared, minlength=users).astype(np.float64)
        return np.asarray(rounding.truncated(of_user, grid).sum(keepdims=True)[:, None])

    def _right_hand_sides(self, query: queries.RightHandSides, grid: float) -> Units:
        rows, start = self._right_rows(query), self._by_task.start
        return self._kernels.label_sums(*rows, start, self._unit, grid)

    def _statistics(
        self, query: queries.Statistics, of_gram: float, of_right: float
    ) -> Iterator[Block]:
        features, d, *rows = self._right_rows(query.right)
        for first, own, start in self._blocks_of_tasks():
            row, label, share, weight = rows
            given = (features, d, row[own], label[own], share, weight[own], start)
            yield first, self._kernels.gram_sums(*given, self._unit, of_gram, of_right)

    def _right_rows(self, query: queries.RightHandSides) -> tuple[Any, ...]:
        """Features, d, and by task: feature rows, labels, the users' shares, weights."""
        labels, share = self._bounded_labels(query)
        name = "labels", query.label_bound if query.clip == "row" else None
        label = self._in_order(self._of_labels, name, lambda: labels)
        weight = self._in_order(self._of_weights, "weights", lambda: self._weight_of_rows)
        return self._features, self._dimension, self._by_task.feature_row, label, share, weight

    def _gradients(self, query: queries.Gradients, grid: float) -> Any:
        label = self._kept(
            self._of_labels,
            ("clipped", query.label_bound),
            lambda: clip_values(self._labels, query.label_bound),
        )
        weight = self._sampled(query.sample)
        features, norms = self._float_features()
        bound = query.bound * (1 - MARGIN)
        if query.clip == "user":
            rows: tuple[Any, ...] = (self._feature_row, label, weight, self._task, self._starts)
            return self._kernels.user_gradients(
                features, norms, *rows, query.coef, loss=query.loss, bound=bound, grid=grid
            )
        task = self._by_task
        rows = (task.feature_row, label[task.order], weight[task.order], task.start)
        return self._kernels.row_gradients(
            features, norms, *rows, query.coef, loss=query.loss, bound=bound, grid=grid
        )

    # Sums without privacy

    def exact_sums(self, query: Query) -> Iterator[Block]:
        """See ``Session.exact_sums``. Every weight is one; rows of one user in one task share it."""
        chosen = self._chosen
        match query:
            case queries.Counts() | queries.WeightSums():
                sizes = np.bincount(chosen.graph()[0].task, minlength=self.tasks)
                yield 0, (sizes[:, None].astype(np.float64),)
            case queries.Means():
                centers = Centering("user", query.middle).centers(chosen.start, chosen.label)
                some = np.diff(chosen.start) > 0
                scaled = (centers[some] - query.middle) / query.half
                yield 0, (np.array([[scaled.sum(), float(some.sum())]]),)
            case queries.RatingMoments():
                yield (
                    0,
                    (
                        rating_moments(
                            self._given.start, self._given.label, query.middle, query.half
                        ).sum(axis=0, keepdims=True),
                    ),
                )
            case queries.Intercepts():
                parts = self._exact_weights() * self._labels
                yield 0, (np.bincount(chosen.task, parts, minlength=self.tasks)[:, None],)
            case queries.Gramian():
                everybody, ones = np.arange(len(self._features), dtype=np.int32), self._ones
                start = np.array([0, len(self._features)])
                sums = self._kernels.float_sums(self._features, everybody, ones, None, ones, start)
                yield 0, (sums[0],)
            case queries.Statistics():
                features, _ = self._float_features()
                row, label, weight = self._exact_rows()
                for first, own, start in self._blocks_of_tasks():
                    given = (features, row[own], label[own], None, weight[own], start)
                    yield first, self._kernels.float_sums(*given)
            case queries.Gradients():
                features, norms = self._float_features()
                rows, start = self._exact_rows(), self._by_task.start
                examples = (features, norms, *rows, start, query.coef)
                found = self._kernels.row_gradients(
                    *examples, loss=query.loss, bound=np.inf, grid=0.0
                )
                yield 0, (found,)
            case _:
                raise ReleaseError(f"{type(query).__name__} is not used without privacy")

    def _exact_weights(self) -> Array:
        """One for every pair, shared by its rows, [rows]."""
        _, pair_of_row = self._chosen.graph()
        if pair_of_row is None:
            return np.ones(len(self._chosen.task))
        return np.asarray((1.0 / np.bincount(pair_of_row))[pair_of_row])

    def _exact_rows(self) -> tuple[Any, ...]:
        """By task: feature rows, labels, weights."""
        label = self._in_order(self._of_labels, "exact", lambda: self._labels)
        weight = self._in_order(self._of_rows, "exact weights", self._exact_weights)
        return self._by_task.feature_row, label, weight

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

    # Parts of users

    def _bounded_weights(self) -> UserWeights:
        assert self._weights is not None, "weigh first"
        return self._weights

    @property
    def _weight_of_rows(self) -> Array:
        assert self._row_weight is not None, "weigh first"
        return self._row_weight

    def _label_norms(self) -> Array:
        """The norm of each user's weighted labels, [users]."""
        weights = self._bounded_weights()
        return np.asarray(
            self._kept(
                self._of_labels,
                "norms",
                lambda: weights.part_norms(self._labels, self._chosen.users),
            )
        )

    def _scaled_labels(self, bound: float) -> Array:
        """Labels, those of a user all times what brings its weighted ones down to the bound, [rows]."""
        factors = scale_down(self._label_norms(), bound)
        return np.asarray(self._labels * factors[self._chosen.user])

    def _bounded_labels(self, query: queries.RightHandSides) -> tuple[Array, Array | None]:
        """Labels [rows], and what those of each feature vector are multiplied by, [vectors].

        With ``clip="user"``, user j's part is w_ij y_ij v_j for all its tasks i: of norm
        |(w_ij y_ij)_i| |v_j|. Its labels are multiplied by what brings this down to the bound.
        """
        if query.clip == "row":
            return clip_values(self._labels, query.label_bound), None
        assert self._chosen.feature_row is None, "users with one feature vector each"
        squares = np.einsum("ij,ij->i", self._features, self._features, dtype=np.int64)
        lengths = np.sqrt(squares.astype(np.float64))
        # In units of feature_bound, so that no product of two bounds is too large or small a number.
        with np.errstate(invalid="ignore"):
            norms = self._label_norms() * (lengths * (self._unit / query.feature_bound))
        return self._labels, scale_down(norms, query.label_bound)

    def _sampled(self, sample: Sample | None) -> Array:
        """The weights of rows, zero for those of users who do not take part, [rows]."""
        if sample is None:
            return self._weight_of_rows
        taken = poisson_sample(self._chosen.user_key, sample.key, sample.rate)
        return np.asarray(self._weight_of_rows * taken[self._chosen.user])

    def _blocks_of_tasks(self) -> Iterator[tuple[int, slice, Starts]]:
        """So many tasks that their sums take little memory: whole tiles of noise, if there are any.

        The first task, its and the others' rows by task, and where each one's begin among these.
        """
        block = max(1, _BLOCK_BYTES // (16 * packed_width(self._dimension)))
        block -= block % TILE if block > TILE else 0
        for first in range(0, self.tasks, block):
            start = self._by_task.start[first : min(first + block, self.tasks) + 1]
            yield first, slice(int(start[0]), int(start[-1])), start - start[0]


def _count_parts(graph: Any, query: queries.Counts) -> Array:
    """What every pair adds to the count of its task, [pairs]."""
    if query.key is not None:
        return np.asarray(graph.sample(query.cap, query.key).astype(np.float64))
    of_user = np.minimum(1.0, np.sqrt(query.cap / np.maximum(graph.user_sizes(), 1.0)))
    return np.asarray(of_user[graph.user])
