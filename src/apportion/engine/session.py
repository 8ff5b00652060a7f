"""A session in this machine's memory: what every user adds to each sum, row by row and in NumPy."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.data.centering import Centering, rating_moments
from apportion.engine import queries
from apportion.engine.base import Array, Block, Units
from apportion.engine.gains import fold_in_gains
from apportion.engine.held import HeldRows
from apportion.engine.queries import Query, Sample
from apportion.errors import ReleaseError
from apportion.privacy import rounding
from apportion.privacy.bounds import MARGIN, clip_rows, clip_values, scale_down
from apportion.privacy.noise import poisson_sample

Integers = NDArray[np.integer[Any]]


class LocalSession(HeldRows):
    """See ``Session``: the steps are in ``held.py``, here are the sums."""

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
            case queries.FoldInGains():
                yield 0, (self._fold_in_gains(query, *grids),)
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
        units = rounding.truncated(clip_rows(parts, 2.0), grid)
        return np.asarray(units.sum(axis=0, keepdims=True))

    def _fold_in_gains(self, query: queries.FoldInGains, grid: float) -> Units:
        def solve(*systems: Any) -> Array:
            vectors: Array = self._kernels.solve_users(*systems, bound=None, stretch=False)
            return vectors

        parts = np.nan_to_num(fold_in_gains(solve, self._chosen, query), posinf=0.0, neginf=0.0)
        units = rounding.truncated(clip_rows(np.clip(parts, -0.5, 0.5), 1.0), grid)
        return np.asarray(units.sum(axis=0, keepdims=True))

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

    # Parts of users

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

    # Sums without privacy

    def exact_sums(self, query: Query) -> Iterator[Block]:
        """See ``Session.exact_sums``. Every weight is one; rows of one user in one task share it."""
        chosen = self._chosen
        match query:
            case queries.WeightSums():
                of_tasks = np.bincount(chosen.task, self._exact_weights(), minlength=self.tasks)
                yield 0, (of_tasks[:, None],)
            case queries.Counts():
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
        """One for every pair, shared by its rows, [rows].

        Where pairs have confidences, in proportion to these; a user's squares sum to its number of pairs.
        """
        _, pair_of_row = self._chosen.graph()
        if pair_of_row is None:
            ones, confidence = np.ones(len(self._chosen.task)), self._chosen.confidence
            if confidence is None:
                return ones
            user, values = self._chosen.user, confidence.astype(np.float64)
            squares = np.bincount(user, values**2)[user]  # of each row's user: none has no rows
            return np.asarray(values * np.sqrt(np.bincount(user)[user] / squares))
        return np.asarray((1.0 / np.bincount(pair_of_row))[pair_of_row])

    def _exact_rows(self) -> tuple[Any, ...]:
        """By task: feature rows, labels, weights."""
        label = self._in_order(self._of_labels, "exact", lambda: self._labels)
        weight = self._in_order(self._of_rows, "exact weights", self._exact_weights)
        return self._by_task.feature_row, label, weight


def _count_parts(graph: Any, query: queries.Counts) -> Array:
    """What every pair adds to the count of its task, [pairs]."""
    if query.key is not None:
        return np.asarray(graph.sample(query.cap, query.key).astype(np.float64))
    of_user = np.minimum(1.0, np.sqrt(query.cap / np.maximum(graph.user_sizes(), 1.0)))
    return np.asarray(of_user[graph.user])
