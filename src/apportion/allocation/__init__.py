"""How a user's one unit of budget is split among its tasks."""

from apportion.allocation import theory
from apportion.allocation.base import Allocation
from apportion.allocation.counts import PrivateCounts, PublicCounts
from apportion.allocation.optimal import OptimalWeights
from apportion.allocation.sampling import TailSampling, UniformSampling
from apportion.allocation.weights import AdaptiveWeights, UniformWeights

__all__ = [
    "AdaptiveWeights",
    "Allocation",
    "OptimalWeights",
    "PrivateCounts",
    "PublicCounts",
    "TailSampling",
    "UniformSampling",
    "UniformWeights",
    "theory",
]
