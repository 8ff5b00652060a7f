"""The engine that compiled kernels make fast: all cores of one machine."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.data.rows import Rows
from apportion.data.sorting import counting_sort
from apportion.engine import queries
from apportion.engine.base import Array, Block, Engine, Units
from apportion.engine.cpu.gradients import row_clipped_gradient, user_clipped_gradient
from apportion.engine.cpu.machine import arithmetic
from apportion.engine.cpu.sums import moments, statistics, whole_vectors
from apportion.engine.cpu.users import solve_users
from apportion.engine.reference import Integers, ReferenceSession
from apportion.privacy.bounds import MARGIN, clip_values, row_norms
from apportion.privacy.noise import TILE
from apportion.privacy.packing import packed_width

# Sums of a block of tasks take about so many bytes.
_BLOCK_BYTES = 64 * 2**20


class CpuEngine(Engine):
    """Compiled loops on all cores; sums do not depend on the number of threads."""

    def identity(self) -> dict[str, str]:
        """See ``Engine.identity``."""
        return {"engine": "cpu", **arithmetic()}

    def load(self, rows: Rows) -> "CpuSession":
        """See ``Engine.load``."""
        return CpuSession(rows)

    def __repr__(self) -> str:
        return "CpuEngine()"


@dataclass(frozen=True, eq=False)
class _ByTask:
    """The chosen rows in the order of their tasks; labels may be one for all, and there is one order only.

    Attributes
        start: where each task's rows begin, with the end appended, [tasks + 1].
        order: their places among the chosen rows, [rows].
        feature_row: [rows].
    """

    start: Integers
    order: Any
    feature_row: NDArray[np.int32]


class CpuSession(ReferenceSession):
    """The reference session with everything heavy compiled."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)
        self._sorted: _ByTask | None = None
        self._sorted_rows: dict[Any, Array] = {}
        self._padded: tuple[Any, Any] | None = None

    def _forget_rows(self) -> None:
        super()._forget_rows()
        self._sorted, self._sorted_rows = None, {}

    def _forget_weights(self) -> None:
        super()._forget_weights()
        self._sorted_rows = {}

    def _forget_labels(self) -> None:
        super()._forget_labels()
        self._sorted_rows = {}

    def _by_task(self) -> _ByTask:
        if self._sorted is None:
            start, order = counting_sort(self._chosen.task, self.tasks)
            own = np.ascontiguousarray(self._feature_row[order], dtype=np.int32)
            self._sorted = _ByTask(np.asarray(start, dtype=np.int64), order, own)
        return self._sorted

    def _in_order(self, name: Any, values: Any) -> Array:
        """Values of the chosen rows in the order of their tasks; kept for the next sweep."""
        if name not in self._sorted_rows:
            array = values()
            # Labels of events are all the same, in any order.
            alike = len(array) > 0 and bool((array == array[0]).all())
            self._sorted_rows[name] = array if alike else array[self._by_task().order]
        return self._sorted_rows[name]

    def _solve(self, items: Array, shared: Array, ridge: Array) -> Array:
        self._padded, chosen = None, self._chosen
        return solve_users(chosen.start, chosen.task, self._labels, items, ridge, shared)

    def _shorts(self) -> Any:
        """Features with zeros up to whole vectors; kept, since sums come block by block."""
        if self._padded is None or self._padded[0] is not self._features:
            self._padded = self._features, whole_vectors(self._features)
        return self._padded[1]

    def _gramian(self, grid: float) -> Units:
        users = len(self._features)
        everybody, ones = np.arange(users, dtype=np.int32), np.ones(users)
        start = np.array([0, users])
        packed, _ = statistics(
            self._shorts(), self._dimension, self._unit, everybody, ones, ones, ones, start,
            (grid, 1.0),
        )  # fmt: skip
        return _units(packed, grid)

    def _second_moment(self, grid: float, of_mass: float) -> tuple[Units, Units]:
        squared = self._squared_weights()
        share, start = np.ones(len(self._features)), np.array([0, len(squared)])
        row = np.ascontiguousarray(self._feature_row, dtype=np.int32)
        packed, _ = statistics(
            self._shorts(), self._dimension, self._unit, row, squared, share, squared, start,
            (grid, 1.0),
        )  # fmt: skip
        return _units(packed, grid), self._mass(squared, of_mass)

    def _right_hand_sides(self, query: queries.RightHandSides, grid: float) -> Units:
        label, share, weight = self._right_rows(query)
        rows = self._by_task()
        sums = moments(
            self._shorts(), self._dimension, self._unit, rows.feature_row, label, share, weight,
            rows.start, grid,
        )  # fmt: skip
        return _units(sums, grid)

    def _statistics(
        self, query: queries.Statistics, of_gram: float, of_right: float
    ) -> Iterator[Block]:
        label, share, weight = self._right_rows(query.right)
        rows, features, d = self._by_task(), self._shorts(), self._dimension
        examples = (rows.feature_row, label, share, weight)
        for first, stop in self._blocks_of_tasks():
            start = rows.start[first : stop + 1]
            packed, right = statistics(
                features, d, self._unit, *examples, start, (of_gram, of_right)
            )
            yield first, (_units(packed, of_gram), _units(right, of_right))

    def _gradients(self, query: queries.Gradients, grid: float) -> Units:
        return _units(self._sum_gradients(query, grid), 1.0)

    def _right_rows(self, query: queries.RightHandSides) -> tuple[Array, Array, Array]:
        """Labels by task [rows], shares of feature vectors [vectors], weights by task [rows]."""
        labels, share = self._bounded_labels(query)
        name = "labels", query.label_bound if query.clip == "row" else None
        return (
            self._in_order(name, lambda: labels),
            share,
            self._in_order("weights", lambda: self._weight_of_rows),
        )

    def _sum_gradients(self, query: queries.Gradients, grid: float) -> Array:
        features = np.ascontiguousarray(self._float_features())
        private = grid > 0
        labels = clip_values(self._labels, query.label_bound) if private else self._labels
        weight = self._sampled(query.sample) if private else self._exact_weights()
        settings = (query.coef, query.loss.compiled, query.bound * (1 - MARGIN), grid)
        norms, chosen = row_norms(features), self._chosen
        if private and query.clip == "user":
            row = np.ascontiguousarray(self._feature_row, dtype=np.int32)
            places = (np.asarray(chosen.task), np.asarray(chosen.start, dtype=np.int64))
            return user_clipped_gradient(
                len(labels), features, norms, row, labels, weight, *places, *settings
            )
        rows = self._by_task()
        return row_clipped_gradient(
            len(labels), features, norms, rows.feature_row, labels[rows.order],
            weight[rows.order], rows.start, *settings,
        )  # fmt: skip

    def _exact_statistics(self, weight: Array) -> Iterator[Block]:
        rows, d = self._by_task(), self._dimension
        features = np.ascontiguousarray(self._features, dtype=np.float64)
        label = self._in_order("labels", lambda: self._labels)
        ordered = self._in_order("exact weights", lambda: weight)
        examples = (rows.feature_row, label, np.ones(len(features)), ordered)
        for first, stop in self._blocks_of_tasks():
            start = rows.start[first : stop + 1]
            yield first, statistics(features, d, 1.0, *examples, start, None)

    def _exact_gradients(self, query: queries.Gradients, weight: Array) -> Array:
        return self._sum_gradients(query, 0.0)

    def _blocks_of_tasks(self) -> Iterator[tuple[int, int]]:
        """So many tasks that their sums take little memory: whole tiles of noise, if there are any."""
        block = max(1, _BLOCK_BYTES // (16 * packed_width(self._dimension)))
        block -= block % TILE if block > TILE else 0
        for first in range(0, self.tasks, block):
            yield first, min(first + block, self.tasks)

def _units(sums: Array, grid: float) -> Units:
    """Whole numbers of the grid's units; sums are exact multiples of it."""
    return np.rint(sums / grid).astype(np.int64)
