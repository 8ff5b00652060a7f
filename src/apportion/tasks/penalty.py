"""Quadratic penalties per task, from public constants and released values only."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Penalty:
    """1/2 theta_i' (scale_i * shared + ridge_i I) theta_i is added to the objective of task i.

    Attributes
        ridge: [tasks].
        scale: [tasks].
        shared: symmetric and positive semi-definite, [d, d]; None stands for zero.
    """

    ridge: Array
    scale: Array
    shared: Array | None = None

    @classmethod
    def ridge_only(cls, alpha: float, tasks: int) -> Self:
        """The same ridge for all tasks."""
        return cls(np.full(tasks, float(alpha)), np.zeros(tasks))

    def gradient(self, coef: Array) -> Array:
        """At these models, [tasks, d]."""
        slope = self.ridge[:, None] * coef
        return slope if self.shared is None else slope + self.scale[:, None] * (coef @ self.shared)

    def largest_eigenvalues(self) -> Array:
        """Of each task's matrix, [tasks]."""
        if self.shared is None:
            return self.ridge
        return self.ridge + self.scale * float(np.linalg.eigvalsh(self.shared)[-1])
