"""Steps of gradient descent: how many there are, and how far each goes along a noisy gradient."""

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from apportion.allocation import theory
from apportion.checks import number, whole, word
from apportion.errors import ParameterError

Array = NDArray[np.float64]

DEFAULT_STEPS = 50
# Without privacy a step costs time only: at most about eight times that of a private training.
EXACT_STEPS = 8 * DEFAULT_STEPS
# From here on the theorem's number of steps is announced before the first one.
MANY_STEPS = 1000
POWERS = {"constant": 0.0, "1/sqrt(t)": 0.5, "1/t": 1.0}


@dataclass(frozen=True)
class Steps:
    """How ``MultiTaskDescent`` goes down: a number of steps alone stands for ``Steps(number)``.

    Attributes
        number: how many steps, 50 by default (without privacy as many as it takes, up to 400), or
            ``"theory"`` for the paper's.
        schedule: ``"adaptive"`` (AdaGrad, one step size per task), ``"constant"``, ``"1/sqrt(t)"``,
            ``"1/t"``, or ``"theory"`` for the paper's, which needs counts and ``users``.
        learning_rate: the first step size; for ``"adaptive"`` in units of the radius.
        momentum: the share of the last move that is added to the next.
        average: return the mean of this last portion of the steps; 0 returns the last one.
        clip: ``"user"`` clips the whole weighted gradient of a user, over all its tasks, once;
            ``"row"`` clips each example's gradient before it is weighted. The sensitivity is the same,
            and ``"user"`` never clips more.
        sampling_rate: below 1, each user takes part in a step with this probability (true Poisson
            sampling, accounted by dp-accounting, an extra).
        users: the number of users as a public (rounded) figure, for ``"theory"``.
    """

    number: int | Literal["theory"] | None = None
    schedule: str = "adaptive"
    learning_rate: float | None = None
    momentum: float = 0.0
    average: float = 0.5
    clip: Literal["user", "row"] = "user"
    sampling_rate: float = 1.0
    users: int | None = None

    def __post_init__(self) -> None:
        if self.number is not None and not self.by_theory:
            whole("steps", self.number, at_least=1)
        word("steps.schedule", self.schedule, ("adaptive", *POWERS, "theory"))
        if self.learning_rate is not None:
            number("steps.learning_rate", self.learning_rate, above=0, at_most=1e30)
        number("steps.momentum", self.momentum, at_least=0, below=1)
        number("steps.average", self.average, at_least=0, at_most=1)
        word("steps.clip", self.clip, ("user", "row"))
        number("steps.sampling_rate", self.sampling_rate, at_least=1e-9, at_most=1)
        if self.users is not None:
            whole("steps.users", self.users, at_least=2, at_most=2**50)

    @property
    def by_theory(self) -> bool:
        """Whether the paper's theorem says how many steps there are."""
        return isinstance(self.number, str) and self.number == "theory"

    @property
    def fixed(self) -> int:
        """The number of steps, where the theorem does not say it."""
        assert not isinstance(self.number, str)
        return DEFAULT_STEPS if self.number is None else int(self.number)


def find_steps(steps: "int | str | Steps | None") -> Steps:
    """The steps that a parameter stands for."""
    if isinstance(steps, Steps):
        return steps
    if isinstance(steps, (dict, list, tuple)):
        raise ParameterError(f"steps must be a number, 'theory' or Steps, got {steps!r}")
    return Steps(steps)  # type: ignore[arg-type]


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
    """Steps and step sizes of Theorem 3.12, in our units.

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
    regularization: float
    per_user: bool = False

    @property
    def _weights(self) -> Array:
        ours = theory.optimal_task_weights(self.sizes, self.exponent, self.users)
        return ours * math.sqrt(self.mu**2 / 2)

    @property
    def steps(self) -> int:
        """T, at least one: part (b) of the theorem if there is a regularizer, else part (a)."""
        chosen = (
            theory.descent_steps_strongly_convex
            if self.regularization
            else theory.descent_steps_convex
        )
        steps = max(1, round(chosen(self._weights, self.sizes, dimension=self.dimension)))
        if steps > MANY_STEPS:
            warnings.warn(
                f"the theorem's T is {steps:,} steps, each a sum over all rows: a number of steps "
                f"(Steps({DEFAULT_STEPS}), the default) takes {steps / DEFAULT_STEPS:,.0f} times less",
                stacklevel=2,
            )
        return steps

    def schedule(self, steps: int) -> Schedule:
        """eta for this many steps."""
        if self.regularization and self.per_user:
            # The proof's rate 1 / (omega_i n_i lambda t) is for gradients that are weighted by omega_i: with
            # our weights for our gradients, no factor is left.
            ours = theory.optimal_task_weights(self.sizes, self.exponent, self.users)
            first = theory.descent_rates_strongly_convex(
                ours, self.sizes, step=1, strong_convexity=self.regularization
            )
            return Decaying(first[:, None], 1.0)
        if self.regularization:
            # A penalty of the task makes its weighted objective lambda-strongly convex whatever the weights.
            return Decaying(1 / self.regularization, 1.0)
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
