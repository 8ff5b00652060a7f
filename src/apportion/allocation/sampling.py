"""The sampling baselines: k tasks of every user get the whole budget, the others nothing."""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from apportion.allocation.base import Allocation
from apportion.allocation.counts import Counts, PrivateCounts, check_counts
from apportion.allocation.denoising import expected_sizes
from apportion.allocation.scaling import clipped
from apportion.checks import whole
from apportion.data import Graph
from apportion.privacy import UserWeights


@dataclass(frozen=True)
class _Sampling(Allocation):
    """Keeps k tasks of every user, with weight 1 / sqrt(k) each."""

    k: int = 50
    samples: ClassVar[bool] = True

    def __post_init__(self) -> None:
        whole("k", self.k, at_least=1, at_most=2**50)

    def _equal_weights(self, graph: Graph, chosen: NDArray[np.bool_]) -> UserWeights:
        return clipped(graph.user, graph.task, chosen / math.sqrt(self.k))

    def typical_weights(
        self,
        sizes: NDArray[np.float64] | None,
        counts: NDArray[np.float64] | None,
        sums: NDArray[np.float64],
        noise: float,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """1 / sqrt(k), and the number of users who keep the task."""
        del sizes, counts
        weight = 1 / math.sqrt(self.k)
        return np.full(len(sums), weight), expected_sizes(sums / weight, noise / weight)


@dataclass(frozen=True)
class UniformSampling(_Sampling):
    """Keep k tasks of every user, chosen uniformly at random, with weight 1 / sqrt(k) each."""

    def weigh(self, graph: Graph, sizes: NDArray[np.float64], key: int) -> UserWeights:
        """Weights of the sampled pairs; zero elsewhere."""
        del sizes
        return self._equal_weights(graph, graph.sample(self.k, key))


@dataclass(frozen=True)
class TailSampling(_Sampling):
    """Keep the k smallest tasks of every user (by noisy counts), with weight 1 / sqrt(k) each."""

    counts: Counts = field(default_factory=PrivateCounts)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(self.counts)

    def weigh(self, graph: Graph, sizes: NDArray[np.float64], key: int) -> UserWeights:
        """Weights of each user's smallest tasks, ties at random; zero elsewhere."""
        chosen = graph.rank_within_user(sizes[graph.task], graph.scores(key)) < self.k
        return self._equal_weights(graph, chosen)
