"""The model where nothing beyond popularity can be learned: everybody is recommended what is popular."""

import numpy as np
from numpy.typing import NDArray

from apportion.accounts.plan import Plan
from apportion.allocation.denoising import expected_sizes
from apportion.engine import Session, queries
from apportion.engine.feed import released
from apportion.privacy import Curator
from apportion.recommend import releases

Array = NDArray[np.float64]

WARNING = (
    "the model is popularity alone: for this budget there are too few interactions to learn tastes, so "
    "everybody gets the same list, less what they have already"
)


def learn_popularity(
    plan: Plan, scale: Array, session: Session, curator: Curator
) -> tuple[Array, Array]:
    """Numbers of users per item, [items], and the one factor that ranks by them, [items, 1].

    All that is left of the budget goes into sums of weights; ``scale`` is the typical weight of an item's
    users.
    """
    release = plan[releases.POPULARITY].open(curator, session.tasks)
    [sums] = released(session, queries.WeightSums(), release)
    counts = expected_sizes(sums[:, 0], release.records[0].noise_scale) / scale
    return counts, one_factor(counts)


def one_factor(counts: Array) -> Array:
    """The factor that ranks by these counts, [items, 1]."""
    return (counts / max(float(counts.max(initial=0.0)), 1e-300))[:, None]
