"""The sampling baselines: k tasks of every user get the whole budget, the others nothing."""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from apportion.allocation.base import Allocation
from apportion.allocation.counts import Counts, PrivateCounts
from apportion.data import Graph
from apportion.privacy import UserWeights
from apportion.privacy.checks import whole


def _equal_weights(graph: Graph, chosen: NDArray[np.bool_], k: int) -> UserWeights:
    return UserWeights.clipped(graph.user, graph.task, chosen / math.sqrt(k))


@dataclass(frozen=True)
class UniformSampling(Allocation):
    """Keep k tasks of every user, chosen uniformly at random, with weight 1 / sqrt(k) each."""

    k: int = 50

    def __post_init__(self) -> None:
        whole("k", self.k, at_least=1)

    def weigh(self, graph: Graph, sizes: NDArray[np.float64], key: int) -> UserWeights:
        """Weights of the sampled pairs; zero elsewhere."""
        del sizes
        return _equal_weights(graph, graph.sample(self.k, key), self.k)


@dataclass(frozen=True)
class TailSampling(Allocation):
    """Keep the k smallest tasks of every user (by noisy counts), with weight 1 / sqrt(k) each."""

    k: int = 50
    counts: Counts = field(default_factory=PrivateCounts)

    def __post_init__(self) -> None:
        whole("k", self.k, at_least=1)

    def weigh(self, graph: Graph, sizes: NDArray[np.float64], key: int) -> UserWeights:
        """Weights of each user's smallest tasks, ties at random; zero elsewhere."""
        chosen = graph.rank_within_user(sizes[graph.task], graph.scores(key)) < self.k
        return _equal_weights(graph, chosen, self.k)
