"""Quadratic penalties per task, from public constants and released values only."""

import math
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from apportion.accounts.declared import Declared
from apportion.engine import Session, queries
from apportion.engine.feed import exact, released
from apportion.privacy import Curator, Part, UserBound

Array = NDArray[np.float64]

# Of what a penalty is: of a task, whatever its size, or of each of its users (lambda n_i, equation 4).
RegularizationPer = Literal["task", "user"]
# What the sums of weights cost, of the budget that is left for training.
WEIGHTS_SHARE = 0.05


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
    def ridge_only(cls, ridge: Array) -> Self:
        """A ridge for each task, [tasks]."""
        return cls(ridge, np.zeros(len(ridge)))

    def gradient(self, coef: Array) -> Array:
        """At these models, [tasks, d]."""
        slope = self.ridge[:, None] * coef
        return slope if self.shared is None else slope + self.scale[:, None] * (coef @ self.shared)

    def largest_eigenvalues(self) -> Array:
        """Of each task's matrix, [tasks]."""
        if self.shared is None:
            return self.ridge
        return self.ridge + self.scale * float(np.linalg.eigvalsh(self.shared)[-1])


def weight_sums() -> Declared:
    """The sum of each task's weights.

    Sensitivity: user j adds w_ij to the sum of task i, and sum_i w_ij^2 <= 1.
    """
    bound = UserBound(1.0, "each pair adds its weight; a user's squared weights sum to <= 1")
    return Declared("weights", (Part("weights", "sums of weights", bound),), WEIGHTS_SHARE)


def release_weight_sums(session: Session, curator: Curator, mu: float) -> tuple[Array, float]:
    """The noisy sum of each task's weights, at least its noise, [tasks]; and that noise."""
    release = weight_sums().open(curator, session.tasks, mu)
    [sums] = released(session, queries.WeightSums(), release)
    return np.maximum(sums[:, 0], 1 / mu), 1 / mu


def private_ridge(
    regularization: float, per: RegularizationPer, session: Session, curator: Curator
) -> Array:
    """The ridge of each task: lambda, or lambda times the released sum of its users' weights, [tasks].

    The latter is Algorithm 1's sum_j w_ij lambda I, taken out of the sum that it does not belong to: as a
    part of A_i it would be released without noise of its own (its sensitivity is left out of Theorem 3.3).
    """
    if per == "task" or regularization == 0:
        return np.full(session.tasks, regularization)
    mu = curator.ledger.affordable_mu() * math.sqrt(WEIGHTS_SHARE)
    return regularization * release_weight_sums(session, curator, mu)[0]


def exact_ridge(regularization: float, per: RegularizationPer, session: Session) -> Array:
    """The same without privacy, where every weight is one: lambda, or lambda n_i, [tasks]."""
    if per == "task" or regularization == 0:
        return np.full(session.tasks, regularization)
    [sizes] = exact(session, queries.Counts(1))
    return np.asarray(regularization * sizes[:, 0], dtype=np.float64)
