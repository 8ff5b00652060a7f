"""What every way of splitting a user's budget has in common."""

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.allocation.counts import Counts
from apportion.data import Graph
from apportion.errors import ParameterError, ReleaseError
from apportion.privacy import ADD_OR_REMOVE, Curator, UserWeights


class Allocation(ABC):
    """Splits each user's unit of budget among its tasks, from released counts and its own tasks.

    A user's weights may depend on that user's tasks, on released or public counts and on public
    settings, never on another user: this is what makes a user's part in a sum its own.

    Attributes
        counts: where the task sizes come from; None if they are not needed.
    """

    counts: Counts | None = None

    @abstractmethod
    def weigh(self, graph: Graph, sizes: NDArray[np.float64], key: int) -> UserWeights:
        """The weights of all pairs, given task sizes [tasks] and a secret key for sampling."""

    @property
    def share(self) -> float:
        """The portion of mu^2 that is spent on task counts before training."""
        return 0.0 if self.counts is None else self.counts.share

    def allocate(
        self, graph: Graph, curator: Curator, known: NDArray[np.float64] | None = None
    ) -> tuple[UserWeights, NDArray[np.float64] | None]:
        """Release task counts if needed, then weigh. Without privacy every weight is one.

        Also returns the task sizes that were released or are public, [tasks], if there are any.
        ``known`` are sizes that were released already; no others are then.
        """
        if math.isinf(curator.target.epsilon):
            return UserWeights.unbounded(graph.user, graph.task), None
        released = known
        if released is None and self.counts is not None:
            released = self.counts.estimate(graph, curator)
        sizes = np.ones(graph.tasks) if released is None else released
        weights = self.weigh(graph, sizes, curator.noise.sampling_key("allocation"))
        if not weights.bounded or not weights.covers(graph.user, graph.task):
            raise ReleaseError(
                f"{type(self).__name__} must return bounded weights of the graph's pairs"
            )
        return weights, released

    def typical_weights(
        self, sizes: NDArray[np.float64] | None, sums: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """About what weight a task's users have, and about how many they are, [tasks] each.

        From released values: task sizes, and noisy sums over users of the weights of each task, [tasks].
        """
        del sizes, sums
        raise ParameterError(
            f"{type(self).__name__} has no typical weights: use AdaptiveWeights(0)"
        )

    def neighbouring(self) -> str:
        """Which data sets the guarantee cannot tell apart."""
        return ADD_OR_REMOVE if self.counts is None else self.counts.neighbouring()

    def public_inputs(self) -> dict[str, Any]:
        """What the allocation takes as public, for the privacy report."""
        inputs = {"allocation": repr(self)}
        return inputs if self.counts is None else {**inputs, **self.counts.public_inputs()}

    def warnings(self) -> tuple[str, ...]:
        """What a reader of the privacy report should know."""
        return () if self.counts is None else self.counts.warnings()
