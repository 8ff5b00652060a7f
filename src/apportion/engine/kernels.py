"""What a session leaves to its kernels: functions of arrays, compiled (``cpu``) or in NumPy (``reference``).

Rows of a task (of a user) are ``start[i] : start[i + 1]``. Whole sums are exact; any implementation gives the
same, to the bit. ``twins`` defines them.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Shorts = NDArray[np.int16]
Units = NDArray[np.int64]
Rows32 = NDArray[np.int32]
Starts = NDArray[np.int64]


class Kernels(ABC):
    """See ``twins`` for what each function computes."""

    @abstractmethod
    def solve_users(
        self,
        start: Starts,
        item: Rows32,
        label: Array,
        items: Array,
        ridge: Array,
        shared: Array,
        bound: float | None,
        stretch: bool,
    ) -> Any:
        """Users' vectors [users, d]; with a bound as 16-bit rows of it, in whole vectors."""

    @abstractmethod
    def short_rows(self, rows: Array, bound: float) -> Shorts:
        """Rows as 16-bit whole numbers, in whole vectors."""

    @abstractmethod
    def gram_sums(
        self,
        features: Shorts,
        d: int,
        row: Rows32,
        label: Array,
        share: Array | None,
        weight: Array,
        start: Starts,
        unit: float,
        grid: float,
        grid_of_b: float,
    ) -> tuple[Units, Units]:
        """Sums of w x x', packed, and of w y x, in units of the grids."""

    @abstractmethod
    def label_sums(
        self,
        features: Shorts,
        d: int,
        row: Rows32,
        label: Array,
        share: Array | None,
        weight: Array,
        start: Starts,
        unit: float,
        grid: float,
    ) -> Units:
        """Sums of w y x, in units of the grid."""

    @abstractmethod
    def float_sums(
        self, features: Array, row: Rows32, label: Array, weight: Array, start: Starts
    ) -> tuple[Array, Array]:
        """Sums of w x x', packed, and of w y x, in float64."""

    @abstractmethod
    def number_sums(self, task: Rows32, value: Array, tasks: int, grid: float) -> Units:
        """Sums of values by task, in units of the grid."""

    @abstractmethod
    def row_gradients(
        self,
        features: Array,
        norms: Array,
        row: Rows32,
        label: Array,
        weight: Array,
        start: Starts,
        coef: Array,
        loss: Any,
        bound: float,
        grid: float,
    ) -> Any:
        """Sums of gradients clipped row by row, in units of the grid; in float64 if that is zero."""

    @abstractmethod
    def user_gradients(
        self,
        features: Array,
        norms: Array,
        row: Rows32,
        label: Array,
        weight: Array,
        task: Rows32,
        start: Starts,
        coef: Array,
        loss: Any,
        bound: float,
        grid: float,
    ) -> Units:
        """Sums of gradients clipped user by user, in units of the grid."""
