"""What every way of splitting a user's budget has in common."""

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.allocation.counts import Counts
from apportion.data import Graph
from apportion.privacy import Curator, UserWeights
from apportion.privacy.errors import ReleaseError
from apportion.privacy.report import ADD_OR_REMOVE


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
        self, graph: Graph, curator: Curator
    ) -> tuple[UserWeights, NDArray[np.float64] | None]:
        """Release task counts if needed, then weigh. Without privacy every weight is one.

        Also returns the task sizes that were released or are public, [tasks], if there are any.
        """
        if math.isinf(curator.target.epsilon):
            return UserWeights.unbounded(graph.user, graph.task), None
        released = None if self.counts is None else self.counts.estimate(graph, curator)
        sizes = np.ones(graph.tasks) if released is None else released
        weights = self.weigh(graph, sizes, curator.noise.sampling_key("allocation"))
        if not weights.bounded or not weights.covers(graph.user, graph.task):
            raise ReleaseError(
                f"{type(self).__name__} must return bounded weights of the graph's pairs"
            )
        return weights, released

    def neighbouring(self) -> str:
        """Which data sets the guarantee cannot tell apart."""
        fixed = "" if self.counts is None else self.counts.fixed()
        return f"{ADD_OR_REMOVE}, {fixed} being public and fixed" if fixed else ADD_OR_REMOVE

    def public_inputs(self) -> dict[str, Any]:
        """What the allocation takes as public, for the privacy report."""
        inputs = {"allocation": repr(self)}
        return inputs if self.counts is None else {**inputs, **self.counts.public_inputs()}

    def warnings(self) -> tuple[str, ...]:
        """What a reader of the privacy report should know."""
        return () if self.counts is None else self.counts.warnings()
