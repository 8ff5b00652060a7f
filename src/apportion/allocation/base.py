"""How every way of splitting a user's budget looks from outside."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from apportion.allocation.counts import Counts
from apportion.allocation.scaling import emphasized
from apportion.data import Graph
from apportion.errors import ParameterError
from apportion.privacy import ADD_OR_REMOVE, UserWeights


@dataclass(frozen=True, eq=False)
class Rule:
    """An allocation with all that it needs: sessions weigh their own users by it.

    Attributes
        allocation: whose ``weigh`` is called.
        sizes: released or public task sizes, [tasks].
        key: a secret key for sampling.
    """

    allocation: "Allocation"
    sizes: NDArray[np.float64]
    key: int

    def __call__(self, graph: Graph) -> UserWeights:
        """The weights of all pairs of these users; where pairs have confidences, shifted by them."""
        weights = self.allocation.weigh(graph, self.sizes, self.key)
        return weights if graph.confidence is None else emphasized(weights, graph.confidence)


class Allocation(ABC):
    """Splits each user's unit of budget among its tasks, from released counts and its own tasks.

    A user's weights may depend on that user's tasks, on released or public counts and on public
    settings, never on another user: this is what makes a user's part in a sum its own. Users may be weighed
    in several shards, so ``weigh`` may see some of them only.

    Attributes
        counts: where the task sizes come from; None if they are not needed.
        samples: whether a user keeps some of its tasks only, so that task sizes say little of who keeps one.
    """

    counts: Counts | None = None
    samples: ClassVar[bool] = False

    @abstractmethod
    def weigh(self, graph: Graph, sizes: NDArray[np.float64], key: int) -> UserWeights:
        """The weights of all pairs, given task sizes [tasks] and a secret key for sampling."""

    @property
    def share(self) -> float:
        """The portion of mu^2 that is spent on task counts before training."""
        return 0.0 if self.counts is None else self.counts.share

    def rule(
        self,
        tasks: int,
        sizes: NDArray[np.float64] | None,
        key: int,
        public_graph: Callable[[], Graph],
    ) -> Rule:
        """How sessions weigh their users, given task sizes [tasks], if there are any.

        ``public_graph`` is for allocations that declare the graph public.
        """
        del public_graph
        return Rule(self, np.ones(tasks) if sizes is None else sizes, key)

    def typical_weights(
        self,
        sizes: NDArray[np.float64] | None,
        counts: NDArray[np.float64] | None,
        sums: NDArray[np.float64],
        noise: float,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """About what weight a task's users have, and about how many they are, [tasks] each.

        From released values, [tasks] each: the sizes from which weights follow, the expected sizes, and noisy
        sums over users of the weights of each task, with the standard deviation of their noise.
        """
        del sizes, counts, sums, noise
        raise ParameterError(
            f"{type(self).__name__} has no typical weights: use AdaptiveWeights(0)"
        )

    def neighboring(self) -> str:
        """Which data sets the guarantee cannot tell apart."""
        return ADD_OR_REMOVE if self.counts is None else self.counts.neighboring()

    def public_inputs(self) -> dict[str, Any]:
        """What the allocation takes as public, for the privacy report."""
        inputs = {"allocation": repr(self)}
        return inputs if self.counts is None else {**inputs, **self.counts.public_inputs()}

    def warnings(self) -> tuple[str, ...]:
        """What a reader of the privacy report should know."""
        return () if self.counts is None else self.counts.warnings()
