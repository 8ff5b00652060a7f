"""Step sizes: how far to go along a noisy gradient. Everything here comes after the release."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from apportion.allocation import theory

Array = NDArray[np.float64]


class Schedule(ABC):
    """Step sizes eta_i of all tasks, step by step."""

    @abstractmethod
    def rates(self, step: int, gradient: Array) -> Array:
        """The step sizes [tasks, 1] of this step (from 1 on), given its noisy gradient [tasks, d]."""


@dataclass
class Adaptive(Schedule):
    """rate * radius / sqrt(sum of squared norms of the gradients so far), for each task by itself.

    AdaGrad with one step size per task. It needs to know neither the size of a task nor the noise: both
    show in the released gradients.
    """

    reach: float
    _total: Array | None = field(default=None, init=False)

    def rates(self, step: int, gradient: Array) -> Array:
        """See ``Schedule.rates``."""
        del step
        squared = np.sum(gradient**2, axis=1, keepdims=True)
        self._total = squared if self._total is None else self._total + squared
        root = np.sqrt(self._total)
        return np.divide(self.reach, root, out=np.zeros_like(root), where=root > 0)


@dataclass(frozen=True)
class Decaying(Schedule):
    """rate / t^power: constant for power 0, 1/sqrt(t) for 1/2, 1/t for 1."""

    rate: float | Array
    power: float

    def rates(self, step: int, gradient: Array) -> Array:
        """See ``Schedule.rates``."""
        rate = np.broadcast_to(np.asarray(self.rate, dtype=np.float64), (len(gradient), 1))
        return np.asarray(rate / step**self.power)


@dataclass(frozen=True)
class Theory:
    """Steps and step sizes of thm:tradeoff-dpsgd, in our units.

    The paper gives users a budget beta and adds noise G sqrt(T/2); we give them a budget of one and add
    noise G sqrt(T) / mu. Multiplying our weights and gradients by sqrt(beta) with beta = mu^2 / 2 turns
    ours into theirs.
    """

    sizes: Array
    exponent: float
    users: int
    dimension: int
    mu: float
    gradient_bound: float
    diameter: float
    alpha: float

    @property
    def _weights(self) -> Array:
        ours = theory.optimal_task_weights(self.sizes, self.exponent, self.users)
        return ours * math.sqrt(self.mu**2 / 2)

    @property
    def steps(self) -> int:
        """T, at least one: part (b) of the theorem if there is a regularizer, else part (a)."""
        chosen = theory.descent_steps_strongly_convex if self.alpha else theory.descent_steps_convex
        return max(1, round(chosen(self._weights, self.sizes, dimension=self.dimension)))

    def schedule(self, steps: int) -> Schedule:
        """eta for this many steps."""
        if self.alpha:
            # The weighted objective, ours, is alpha-strongly convex whatever the weights.
            return Decaying(1 / self.alpha, 1.0)
        first = theory.descent_rates_convex(
            self._weights,
            self.sizes,
            steps=steps,
            step=1,
            dimension=self.dimension,
            gradient_bound=self.gradient_bound,
            diameter=self.diameter,
        )
        return Decaying(math.sqrt(self.mu**2 / 2) * first[:, None], 0.5)
