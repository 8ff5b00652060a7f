"""What a session leaves to its kernels: functions of arrays, compiled (``cpu``) or in NumPy (``reference``).

``apportion/twins`` defines them: the arguments are those of the twins, in their order. Whole sums are exact;
any implementation gives the same, to the bit.
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
    """One implementation of all of them."""

    @abstractmethod
    def solve_users(self, *systems: Any, bound: float | None, stretch: bool) -> Any:
        """Users' vectors [users, d] (``twins.users``); with a bound as 16-bit rows, in whole vectors."""

    @abstractmethod
    def short_rows(self, rows: Array, bound: float) -> Shorts:
        """Rows as 16-bit whole numbers, in whole vectors (``twins.users``)."""

    @abstractmethod
    def gram_sums(self, *arguments: Any) -> tuple[Units, Units]:
        """Sums of w x x', packed, and of w y x, in units of the grids (``twins.sums``)."""

    @abstractmethod
    def label_sums(self, *arguments: Any) -> Units:
        """Sums of w y x, in units of the grid (``twins.sums``)."""

    @abstractmethod
    def float_sums(self, *arguments: Any) -> tuple[Array, Array]:
        """Sums of w x x', packed, and of w y x, in float64 (``twins.sums``)."""

    @abstractmethod
    def number_sums(self, *arguments: Any) -> Units:
        """Sums of values by task, in units of the grid (``twins.sums``)."""

    @abstractmethod
    def row_gradients(self, *examples: Any, loss: Any, bound: float, grid: float) -> Any:
        """Sums of gradients clipped row by row, in units of the grid; in float64 if that is zero.

        As ``twins.gradients``, for a ``Loss``.
        """

    @abstractmethod
    def user_gradients(self, *examples: Any, loss: Any, bound: float, grid: float) -> Units:
        """Sums of gradients clipped user by user, in units of the grid; for a ``Loss``."""
