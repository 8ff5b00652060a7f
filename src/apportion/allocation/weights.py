"""Task weights: every task of a user gets a part of its budget."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from apportion.allocation.base import Allocation, Rule
from apportion.allocation.counts import Counts, PrivateCounts, check_counts
from apportion.allocation.scaling import clipped, normalized
from apportion.allocation.theory import concentration_bound, optimal_task_weights
from apportion.checks import number, whole, word
from apportion.data import Graph
from apportion.errors import ParameterError
from apportion.privacy import UserWeights


@dataclass(frozen=True)
class UniformWeights(Allocation):
    """The same weight for all tasks of a user: 1 / sqrt(number of its tasks)."""

    def weigh(self, graph: Graph, sizes: NDArray[np.float64], key: int) -> UserWeights:
        """Equal weights; sizes and key play no part."""
        del sizes, key
        return normalized(graph.user, graph.task, np.ones(len(graph.task)))


@dataclass(frozen=True)
class AdaptiveWeights(Allocation):
    """Weights proportional to n_i^-exponent: small tasks get more of each user's budget.

    Args:
        exponent: the paper's mu, from 0 (uniform) to 1; 1/4 is its choice for convex losses, 1/2
            for strongly convex ones.
        mode: ``"normalize"`` scales the weights of every user to its whole budget. ``"clip"`` is the
            paper's formula (equations 11 and 12): one scale for all users, and users above their budget are
            scaled down. It wastes most of the budget where a task is small (Lemma A.4 is false): a warning
            says so.
        counts: where task sizes come from.
        users: the number of users, as a public (rounded) figure; only ``"clip"`` needs it.
        concentration: c(n) of ``"clip"``; the log of ``users`` unless given.

    >>> AdaptiveWeights.for_strongly_convex().exponent
    0.5
    """

    exponent: float = 0.5
    mode: Literal["normalize", "clip"] = "normalize"
    counts: Counts = field(default_factory=PrivateCounts)
    users: int | None = None
    concentration: float | None = None

    def __post_init__(self) -> None:
        number("exponent", self.exponent, at_least=0, at_most=1)
        check_counts(self.counts)
        word("mode", self.mode, ("normalize", "clip"))
        if self.users is not None:
            whole("users", self.users, at_least=2, at_most=2**50)
        elif self.mode == "clip":
            raise ParameterError('mode="clip" needs users=, a public figure for their number')
        if self.concentration is not None:
            number("concentration", self.concentration, above=0, at_most=1e100)

    @classmethod
    def for_convex(cls) -> Self:
        """The exponent that minimizes the bound for convex Lipschitz losses, 1/4."""
        return cls(exponent=0.25)

    @classmethod
    def for_strongly_convex(cls) -> Self:
        """The exponent that minimizes the bound for strongly convex losses, 1/2."""
        return cls(exponent=0.5)

    def weigh(self, graph: Graph, sizes: NDArray[np.float64], key: int) -> UserWeights:
        """Weights from task sizes and each user's own tasks."""
        del key
        if self.mode == "normalize":
            task_weights = sizes**-self.exponent
            return normalized(graph.user, graph.task, task_weights[graph.task])
        assert self.users is not None
        concentration = math.log(self.users) if self.concentration is None else self.concentration
        task_weights = optimal_task_weights(sizes, self.exponent, self.users, 1 / concentration)
        return clipped(graph.user, graph.task, task_weights[graph.task])

    def rule(
        self,
        tasks: int,
        sizes: NDArray[np.float64] | None,
        key: int,
        public_graph: Callable[[], Graph],
    ) -> Rule:
        """See ``Allocation.rule``; warns, of released or public sizes, where c(n) = log n is not proved."""
        if self.mode == "clip" and self.concentration is None and sizes is not None:
            assert self.users is not None
            bound, log = concentration_bound(sizes, self.exponent, self.users), math.log(self.users)
            if bound > log:
                warnings.warn(
                    f"the smallest tasks are too small for c(n) = log n = {log:.3g}: some users may spend "
                    f"up to {bound:.3g} times the average and will be scaled down, while all others spend "
                    f"{1 / log:.0%} of their budget on average. The guarantee holds; for accuracy use "
                    'mode="normalize"',
                    stacklevel=2,
                )
        return super().rule(tasks, sizes, key, public_graph)

    def typical_weights(
        self,
        sizes: NDArray[np.float64] | None,
        counts: NDArray[np.float64] | None,
        sums: NDArray[np.float64],
        noise: float,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """n_i^-exponent times one factor for all tasks, so that sums of weights are as released.

        Where these stand out of their noise, so that their total is right; among the others as their
        regression on what the expected sizes make of them, since the total of a long tail is lost in noise.
        """
        if sizes is None or counts is None:
            raise ParameterError("adaptive weights need the sizes of the tasks")
        shape = sizes**-self.exponent
        unit = float((shape * counts).max())
        predicted = shape * counts / unit
        factor = float(sums @ predicted) / float(predicted @ predicted)
        if noise > 0:
            trust = np.clip(factor * predicted / noise, 1e-9, 1.0)
            factor = float(sums @ trust) / float(predicted @ trust)
        # A user who spreads its budget over all tasks has weights of 1 / sqrt(tasks).
        least = 1 / (math.sqrt(len(sums)) * float(shape.max()))
        return np.minimum(max(factor / unit, least) * shape, 1.0), counts
