"""A user's vector, from its own history and the items that are public: in training and ever after."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from apportion.data.centering import Centering
from apportion.data.ids import Integers
from apportion.engine.queries import UserSystems
from apportion.engine.users import UserSolver

Array = NDArray[np.float64]


@dataclass(frozen=True)
class FoldIn:
    """How a user's vector follows from its history and the items.

    v = argmin sum over the history of (y - u_i . v)^2 + unobserved_weight * sum over all items of
    (u_i . v)^2 + regularization * n^exponent |v|^2, n being the length of the history. For implicit
    feedback y = 1. For explicit feedback y is the rating less the item's intercept and a center: the user's
    own mean of such differences (``center="user"``), drawn towards ``mean`` by n / (n + ``shrinkage``), or
    ``mean``, the same for all.
    """

    feedback: Literal["explicit", "implicit"]
    regularization: float
    exponent: float
    unobserved_weight: float = 0.0
    center: Literal["user", "global", "none"] = "user"
    mean: float = 0.0
    shrinkage: float = 0.0
    rating_range: tuple[float, float] | None = None

    def centers(self, start: Integers, rating: NDArray[Any] | None) -> Array:
        """What is subtracted from each user's ratings, which are less their items' intercepts, [users]."""
        return self._centering.centers(start, rating)

    def labels(self, start: Integers, rating: NDArray[Any] | None, centers: Array) -> Array:
        """y of every row, [rows]."""
        return self._centering.labels(start, rating, centers)

    def solver(self, items: NDArray[Any]) -> UserSolver:
        """What solves users' vectors for these items [items, factors]; it is made once for all users."""
        shared = np.zeros((items.shape[1], items.shape[1]))
        if self.unobserved_weight:
            whole = items.astype(np.float64)
            shared = self.unobserved_weight * (whole.T @ whole)
        return UserSolver(items, shared)

    def vectors(
        self,
        start: Integers,
        item: Integers,
        labels: Array,
        solver: UserSolver,
        *,
        exact: bool = False,
    ) -> Array:
        """The vectors of all users, [users, factors]; see ``UserSolver.solve``."""
        ridge = UserSystems(self.regularization, self.exponent).ridge(np.diff(start))
        vectors = solver.solve(start, item, labels, ridge, exact=exact)
        vectors[~np.isfinite(vectors).all(axis=1)] = 0.0
        return vectors

    @property
    def _centering(self) -> Centering:
        if self.feedback == "implicit":
            return Centering()
        return Centering(self.center, self.mean, self.shrinkage)
