"""The reference engine: every query in plain NumPy. It defines what the others must compute.

It works wherever NumPy does, and needs no compiler. The compiled engine (``engine/cpu``) takes over all that is
done once a fit and user by user (weights, labels, bounds), and replaces what is heavy.
"""

import platform
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.data.centering import Centering
from apportion.data.graph import Graph
from apportion.data.ids import id_keys, match_ids
from apportion.data.rows import Rows
from apportion.engine import queries
from apportion.engine.base import Array, Block, Engine, Session, Units
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
    short_rows,
)
from apportion.privacy.noise import poisson_sample
from apportion.privacy.packing import pack, packed_width

Integers = NDArray[np.integer[Any]]

# Sums and temporaries of about so many bytes at a time.
_BLOCK_BYTES = 64 * 2**20


class ReferenceEngine(Engine):
    """NumPy, in one thread."""

    def identity(self) -> dict[str, str]:
        """See ``Engine.identity``."""
        libraries = {name: version(name) for name in ("numpy", "scipy")}
        return {"engine": "reference", **libraries, "processor": platform.machine()}

    def load(self, rows: Rows) -> "ReferenceSession":
        """See ``Engine.load``."""
        return ReferenceSession(rows)

    def __repr__(self) -> str:
        return "ReferenceEngine()"


class ReferenceSession(Session):
    """See ``Session``. Arrays named ``_row_...`` have one entry for every row of the chosen tasks."""

    def __init__(self, rows: Rows) -> None:
        self._given = rows
        self._features: Any = rows.features
        self._unit = 1.0
        self._weights: UserWeights | None = None
        self._row_weight: Array | None = None
        self._pairs: tuple[Graph, Integers] | None = None
        # Numbers of chosen tasks for those of the catalogue, -1 where a task is not chosen.
        self._numbers: Integers | None = None
        self._chosen = rows
        self._labels = Centering().labels(rows.start, rows.label, np.zeros(rows.users))

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
        numbers = np.full(given.tasks, -1, dtype=np.int64)
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
        self._forget_rows()
        self.center(Centering())

    def _forget_rows(self) -> None:
        """Other rows are chosen: whatever was made of them is out of date."""
        self._pairs = None
        self._forget_weights()

    def _forget_weights(self) -> None:
        self._weights = self._row_weight = None

    def _forget_labels(self) -> None:
        pass

    def _graph(self) -> tuple[Graph, Integers]:
        if self._pairs is None:
            self._pairs = self._chosen.graph()
        return self._pairs

    def weigh(self, rule: WeightRule) -> None:
        """See ``Session.weigh``."""
        self._forget_weights()
        graph, pair_of_row = self._graph()
        weights = rule(graph)
        if not isinstance(weights, UserWeights) or not weights.bounded:
            raise ReleaseError("an allocation must give bounded weights")
        if not weights.covers(graph.user, graph.task):
            raise ReleaseError("an allocation must give weights of exactly the graph's pairs")
        self._weights, self._row_weight = weights, weights.per_row(pair_of_row)

    def center(self, centering: Centering, intercepts: Array | None = None) -> None:
        """See ``Session.center``."""
        self._forget_labels()
        given, chosen = self._given, self._chosen
        if given.label is None:
            self._labels = np.ones(len(chosen.task))
            return
        rating, mine = given.label.astype(np.float64), chosen.label
        assert mine is not None
        if intercepts is not None:
            # -1, not chosen, is the last.
            number = given.task if self._numbers is None else self._numbers[given.task]
            rating = rating - np.append(intercepts, 0.0)[number]
            mine = mine.astype(np.float64) - intercepts[chosen.task]
        centers = centering.centers(given.start, rating)
        self._labels = centering.labels(chosen.start, mine, centers)

    def bound_features(self, bound: float, *, whole: bool = True) -> None:
        """See ``Session.bound_features``."""
        features = self._given.features
        assert features is not None, "features are solved here, not loaded"
        if whole:
            self._features, self._unit = short_rows(features, bound)
        else:
            self._features, self._unit = clip_rows(features, bound), 1.0

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
        start = self._chosen.start
        self._features = None  # the largest array beside the rows: not twice
        vectors = self._solve(items, shared, systems.ridge(np.diff(start)))
        # Numbers beyond all bounds must not stop a training: that it stopped would be a release.
        vectors[~np.isfinite(vectors).all(axis=1)] = 0.0
        if bound is None:
            self._features, self._unit = vectors, 1.0
        else:
            self._features, self._unit = short_rows(vectors, bound, stretch=stretch)

    # Sums of whole numbers

    def sums(self, query: Query, grids: tuple[float, ...]) -> Iterator[Block]:
        """See ``Session.sums``."""
        match query:
            case queries.Users():
                some = (np.diff(self._chosen.start) > 0).astype(np.float64)
                yield 0, (rounding.truncated(some, *grids).sum(keepdims=True)[:, None],)
            case queries.Means():
                yield 0, (self._means(query, *grids),)
            case queries.Counts():
                graph, _ = self._graph()
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
        sums = np.zeros((self.tasks, 1), dtype=np.int64)
        np.add.at(sums[:, 0], task, rounding.truncated(parts, grid))
        return sums

    def _means(self, query: queries.Means, grid: float) -> Units:
        given = self._given
        centers = Centering("user", query.middle).centers(given.start, given.label)
        some = np.diff(given.start) > 0
        scaled = np.clip((centers[some] - query.middle) / query.half, -1.0, 1.0)
        units = rounding.truncated(np.stack([scaled, np.ones_like(scaled)], axis=1), grid)
        return np.asarray(units.sum(axis=0, keepdims=True))

    def _gramian(self, grid: float) -> Units:
        total = np.zeros((1, packed_width(self._dimension)), dtype=np.int64)
        for some in self._blocks(len(self._features)):
            weight = np.ones(len(self._features[some]))
            roots = rounding.roots_of_weights(weight, self._unit, self._dimension, grid)
            z = rounding.square_roots(self._features[some], roots)
            total += _packed_square(z)
        return total

    def _second_moment(self, grid: float, of_mass: float) -> tuple[Units, Units]:
        squared = self._squared_weights()
        total = np.zeros((1, packed_width(self._dimension)), dtype=np.int64)
        for some in self._blocks(len(squared)):
            roots = rounding.roots_of_weights(squared[some], self._unit, self._dimension, grid)
            total += _packed_square(rounding.square_roots(self._features_of(some), roots))
        return total, self._mass(squared, of_mass)

    def _squared_weights(self) -> Array:
        """Rows of one user in one task share the pair's squared weight, as they share its weight, [rows]."""
        _, pair_of_row = self._graph()
        return np.asarray(self._weight_of_rows * self._bounded_weights().values[pair_of_row])

    def _mass(self, squared: Array, grid: float) -> Units:
        users = self._chosen.users
        # Floating-point numbers also where there are no rows.
        of_user = np.bincount(self._chosen.user, squared, minlength=users).astype(np.float64)
        return np.asarray(rounding.truncated(of_user, grid).sum(keepdims=True)[:, None])

    def _right_hand_sides(self, query: queries.RightHandSides, grid: float) -> Units:
        labels, share = self._bounded_labels(query)
        sums = np.zeros((self.tasks, self._dimension), dtype=np.int64)
        for some in self._blocks(len(labels)):
            label = labels[some] * share[self._feature_row[some]]
            factor = self._weight_of_rows[some] * label * (self._unit / grid)
            parts = rounding.right_hand_sides(self._features_of(some), factor)
            np.add.at(sums, self._chosen.task[some], parts)
        return sums

    def _statistics(
        self, query: queries.Statistics, of_gram: float, of_right: float
    ) -> Iterator[Block]:
        labels, share = self._bounded_labels(query.right)
        d, unit = self._dimension, self._unit
        roots = rounding.roots_of_weights(self._weight_of_rows, unit, d, of_gram)
        longest = rounding.longest_root(unit, of_gram)
        # z z' stands for a row of the weight (r / R)^2: with this weight it is in b, too.
        per_square = unit / of_right / longest / longest
        factor = roots * roots * (labels * share[self._feature_row]) * per_square
        order = np.argsort(self._chosen.task, kind="stable")
        edges = np.searchsorted(self._chosen.task[order], np.arange(self.tasks + 1))
        at_once = max(1, _BLOCK_BYTES // (8 * packed_width(d)))
        for first in range(0, self.tasks, at_once):
            stop = min(first + at_once, self.tasks)
            gram = np.zeros((stop - first, packed_width(d)), dtype=np.int64)
            right = np.zeros((stop - first, d), dtype=np.int64)
            for task in range(first, stop):
                rows = order[edges[task] : edges[task + 1]]
                features = self._features_of(rows)
                z = rounding.square_roots(features, roots[rows])
                gram[task - first] = _packed_square(z)
                right[task - first] = rounding.right_hand_sides(features, factor[rows]).sum(axis=0)
            yield first, (gram, right)

    def _gradients(self, query: queries.Gradients, grid: float) -> Units:
        slope, _ = self._clipped_slopes(query)
        features, task = self._float_features(), self._chosen.task
        sums = np.zeros((self.tasks, self._dimension), dtype=np.int64)
        for some in self._blocks(len(slope)):
            parts = rounding.gradients(features[self._feature_row[some]], slope[some], grid)
            np.add.at(sums, task[some], parts)
        return sums

    # Sums without privacy

    def exact_sums(self, query: Query) -> Iterator[Block]:
        """See ``Session.exact_sums``. Every weight is one; rows of one user in one task share it."""
        chosen, features = self._chosen, self._features
        graph, _ = self._graph()
        weight = self._exact_weights()
        match query:
            case queries.Counts() | queries.WeightSums():
                sizes = np.bincount(graph.task, minlength=self.tasks)
                yield 0, (sizes[:, None].astype(np.float64),)
            case queries.Means():
                centers = Centering("user", query.middle).centers(chosen.start, chosen.label)
                some = np.diff(chosen.start) > 0
                scaled = (centers[some] - query.middle) / query.half
                yield 0, (np.array([[scaled.sum(), float(some.sum())]]),)
            case queries.Intercepts():
                sums = np.bincount(chosen.task, weight * self._labels, minlength=self.tasks)
                yield 0, (sums[:, None],)
            case queries.Gramian():
                yield 0, (pack((features.T @ features)[None]),)
            case queries.Statistics():
                yield from self._exact_statistics(weight)
            case queries.Gradients():
                yield 0, (self._exact_gradients(query, weight),)
            case _:
                raise ReleaseError(f"{type(query).__name__} is not used without privacy")

    def _exact_weights(self) -> Array:
        """One for every pair, shared by its rows, [rows]."""
        _, pair_of_row = self._graph()
        return np.asarray((1.0 / np.bincount(pair_of_row))[pair_of_row])

    def _exact_statistics(self, weight: Array) -> Iterator[Block]:
        d = self._dimension
        order = np.argsort(self._chosen.task, kind="stable")
        edges = np.searchsorted(self._chosen.task[order], np.arange(self.tasks + 1))
        at_once = max(1, _BLOCK_BYTES // (8 * packed_width(d)))
        for first in range(0, self.tasks, at_once):
            stop = min(first + at_once, self.tasks)
            gram, right = np.zeros((stop - first, d, d)), np.zeros((stop - first, d))
            for task in range(first, stop):
                rows = order[edges[task] : edges[task + 1]]
                x = self._features_of(rows)
                weighted = weight[rows, None] * x
                gram[task - first] = weighted.T @ x
                right[task - first] = weighted.T @ self._labels[rows]
            yield first, (pack(gram), right)

    def _exact_gradients(self, query: queries.Gradients, weight: Array) -> Array:
        x, task = self._features[self._feature_row], self._chosen.task
        margin = np.einsum("ij,ij->i", query.coef[task], x)
        slope = weight * query.loss.slopes(margin, self._labels)
        sums = np.zeros((self.tasks, self._dimension))
        np.add.at(sums, task, slope[:, None] * x)
        return sums

    # Parts of users

    @property
    def _dimension(self) -> int:
        return int(self._features.shape[1])

    @property
    def _feature_row(self) -> Integers:
        """The feature vector of every row, [rows]."""
        own = self._chosen.feature_row
        return self._chosen.user if own is None else own

    def _features_of(self, rows: Any) -> Any:
        return self._features[self._feature_row[rows]]

    def _float_features(self) -> Array:
        features = self._features
        if features.dtype == np.int16:
            return np.asarray(features * self._unit)
        return np.asarray(features)

    def _bounded_weights(self) -> UserWeights:
        assert self._weights is not None, "weigh first"
        return self._weights

    @property
    def _weight_of_rows(self) -> Array:
        assert self._row_weight is not None, "weigh first"
        return self._row_weight

    def _scaled_labels(self, bound: float) -> Array:
        """Labels, those of a user all times what brings its weighted ones down to the bound, [rows]."""
        weights = self._bounded_weights()
        factors = scale_down(weights.part_norms(self._labels, self._chosen.users), bound)
        return np.asarray(self._labels * factors[weights.user])

    def _bounded_labels(self, query: queries.RightHandSides) -> tuple[Array, Array]:
        """Labels [rows], and what those of each feature vector are multiplied by, [vectors].

        With ``clip="user"``, user j's part is w_ij y_ij v_j for all its tasks i: of norm
        |(w_ij y_ij)_i| |v_j|. Its labels are multiplied by what brings this down to the bound.
        """
        if query.clip == "row":
            return clip_values(self._labels, query.label_bound), np.ones(len(self._features))
        assert self._chosen.feature_row is None, "users with one feature vector each"
        norms = self._bounded_weights().part_norms(self._labels, self._chosen.users)
        # In units of feature_bound, so that no product of two bounds is too large or small a number.
        lengths = np.sqrt((self._features.astype(np.int64) ** 2).sum(axis=1).astype(np.float64))
        with np.errstate(invalid="ignore"):
            norms = norms * (lengths * (self._unit / query.feature_bound))
        return self._labels, scale_down(norms, query.label_bound)

    def _clipped_slopes(self, query: queries.Gradients) -> tuple[Array, Array]:
        """What each row's x is multiplied by, weighted and clipped, [rows]; and the margins."""
        with np.errstate(all="ignore"):  # a warning would tell of somebody's numbers
            return self._slopes(query)

    def _slopes(self, query: queries.Gradients) -> tuple[Array, Array]:
        features, task = self._float_features(), self._chosen.task
        norm = row_norms(features)[self._feature_row]
        bound = query.bound * (1 - MARGIN)
        labels = clip_values(self._labels, query.label_bound)
        weight = self._sampled(query.sample)
        margin = np.empty(len(labels))
        for some in self._blocks(len(labels)):
            x = features[self._feature_row[some]]
            margin[some] = np.einsum("ij,ij->i", query.coef[task[some]], x)
        slope = rounding.usable_slopes(query.loss.slopes(margin, labels), norm)
        if query.clip == "row":
            return weight * rounding.shortened(slope, np.abs(slope) * (norm / bound)), margin
        slope = weight * slope
        # In a task the norms of the user's rows are added up, squared, and added up over its tasks.
        graph, pair_of_row = self._graph()
        of_pair = np.bincount(pair_of_row, np.abs(slope) * (norm / bound), len(graph.user))
        excess = np.sqrt(np.bincount(graph.user, of_pair * of_pair, self._chosen.users))
        return rounding.shortened(slope, excess[self._chosen.user]), margin

    def _sampled(self, sample: Sample | None) -> Array:
        """The weights of rows, zero for those of users who do not take part, [rows]."""
        if sample is None:
            return self._weight_of_rows
        taken = poisson_sample(self._chosen.user_key, sample.key, sample.rate)
        return np.asarray(self._weight_of_rows * taken[self._chosen.user])

    def _blocks(self, rows: int) -> Iterator[slice]:
        at_once = max(1, _BLOCK_BYTES // (8 * self._dimension))
        for first in range(0, rows, at_once):
            yield slice(first, min(first + at_once, rows))

    def _solve(self, items: Array, shared: Array, ridge: Array) -> Array:
        """Users' vectors, one system after the other, [users, d]."""
        start, item = self._chosen.start, self._chosen.task
        vectors = np.zeros((len(start) - 1, items.shape[1]))
        with np.errstate(all="ignore"):
            for user in range(len(vectors)):
                rows = slice(start[user], start[user + 1])
                label = self._labels[rows]
                if label.any():
                    vectors[user] = solve_user(items[item[rows]], label, shared, ridge[user])
        return vectors


def solve_user(x: Array, label: Array, shared: Array, ridge: float) -> Array:
    """argmin over v of |label - x v|^2 + v' (shared + ridge I) v, [d].

    A direction that nothing determines is left out.
    """
    matrix = x.T @ x + shared
    matrix[np.diag_indices_from(matrix)] += ridge
    if not np.isfinite(matrix).all():
        return np.full(len(matrix), np.nan)
    values, basis = np.linalg.eigh(matrix)
    known = values > 1e-14 * len(values) * values[-1]
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=known)
    return np.asarray(basis @ (inverse * (basis.T @ (x.T @ label))))


def _count_parts(graph: Any, query: queries.Counts) -> Array:
    """What every pair adds to the count of its task, [pairs]."""
    if query.key is not None:
        return np.asarray(graph.sample(query.cap, query.key).astype(np.float64))
    of_user = np.minimum(1.0, np.sqrt(query.cap / np.maximum(graph.user_sizes(), 1.0)))
    return np.asarray(of_user[graph.user])


def _packed_square(z: Units) -> Units:
    """The sum of z z' over rows, its upper triangle, [d (d + 1) / 2].

    In floating point where that is exact: no sum of squares passes 2^53.
    """
    rows, columns = np.triu_indices(z.shape[1])
    wide = z.astype(np.float64)
    if float((wide * wide).sum(axis=0).max(initial=0.0)) < 2.0**53:
        return np.asarray((wide.T @ wide)[rows, columns].astype(np.int64))
    return np.asarray((z.T @ z)[rows, columns])
