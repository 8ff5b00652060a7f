"""Features as a training sees them: scaled by public ranges, with a constant for the intercept."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.data import TaskData
from apportion.errors import ParameterError
from apportion.privacy import clip_rows

Array = NDArray[np.float64]
Ranges = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Scaling:
    """Maps features x to x' = scale * (x - middle), and a constant ``bound`` after them.

    A row's x' depends on that row alone and on public numbers, so whatever bounds a user's part in a sum
    of x' holds as it does for x.

    Attributes
        ranges: of the features, [d, 2]; None for features that are taken as they are.
        scale, middle: [d].
        bound: the largest norm of x', without the constant; longer ones are scaled down.
        intercept: whether there is a constant.
    """

    bound: float
    intercept: bool
    ranges: Array | None
    scale: Array
    middle: Array

    @classmethod
    def of(
        cls, bound: float, ranges: Ranges | None, dimension: int, *, intercept: bool
    ) -> "Scaling":
        """For features within these public ranges, [d, 2], x' is no longer than the bound.

        With an intercept a range's middle becomes zero; without one zero stays zero.
        """
        ones, zeros = np.ones(dimension), np.zeros(dimension)
        if ranges is None:
            return cls(bound, intercept, None, ones, zeros)
        found = check_ranges(ranges)
        if len(found) != dimension:
            raise ParameterError(
                f"feature_ranges has {len(found)} ranges, and the data has {dimension} features; they "
                "must agree"
            )
        low, high = found.T
        middle = (low + high) / 2 if intercept else zeros
        reach = np.maximum(np.abs(low - middle), np.abs(high - middle))
        return cls(bound, intercept, found, bound / (reach * math.sqrt(dimension)), middle)

    @property
    def row_bound(self) -> float:
        """The largest norm of a row, with the constant."""
        return self.bound * math.sqrt(2) if self.intercept else self.bound

    def apply(self, data: TaskData, *, clip: bool) -> TaskData:
        """The same examples with features x'; without ``clip`` nothing is scaled down."""
        if self.ranges is None and not self.intercept:
            return data
        features = data.features
        if self.ranges is not None:
            if clip:  # what is outside its range is brought to its end
                features = np.clip(features, *self.ranges.T)
            features = (features - self.middle) * self.scale
        if clip:
            features = clip_rows(features, self.bound)
        if self.intercept:
            constant = np.full((len(features), 1), self.bound)
            features = np.hstack([features, constant])
        return data.with_features(features)

    def back(self, coef: Array) -> tuple[Array, Array]:
        """Models and intercepts for x, of models for x', [tasks, d] and [tasks]."""
        if self.ranges is None and not self.intercept:
            return coef, np.zeros(len(coef))
        seen = coef @ self.view().T
        return np.ascontiguousarray(seen[:, :-1]), np.ascontiguousarray(seen[:, -1])

    def view(self) -> Array:
        """The matrix that makes (theta, intercept) for x of theta' for x', [d + 1, d'].

        theta' . x' = (scale theta') . x + bound theta'_constant - (scale theta') . middle
        """
        dimension = len(self.scale)
        matrix = np.zeros((dimension + 1, dimension + self.intercept))
        matrix[np.arange(dimension), np.arange(dimension)] = self.scale
        matrix[dimension, :dimension] = -self.scale * self.middle
        if self.intercept:
            matrix[dimension, dimension] = self.bound
        return matrix


def check_ranges(ranges: Any) -> Array:
    """Ranges as an array, [d, 2]; a ``ParameterError`` if they are none."""
    try:
        found = np.array(ranges, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.zeros(0)
    if found.ndim != 2 or found.shape[1] != 2 or not np.isfinite(found).all():
        raise ParameterError(
            "feature_ranges must be a list of (low, high), one pair for each feature, as in "
            "[(0, 120), (0, 1)]"
        )
    reach = np.abs(found).max(axis=1)
    if not (found[:, 0] < found[:, 1]).all() or (reach > 1e100).any() or (reach < 1e-100).any():
        odd = int(np.argmin((found[:, 0] < found[:, 1]) & (reach <= 1e100) & (reach >= 1e-100)))
        raise ParameterError(f"feature_ranges: the range of feature {odd} must go up")
    return found
