"""The model where nothing beyond popularity can be learned: everybody is recommended what is popular."""

from apportion.accounts.plan import Plan
from apportion.engine import queries
from apportion.recommend import releases
from apportion.recommend.masses import Masses
from apportion.recommend.run import Array, Run
from apportion.recommend.sizes import Sizes

WARNING = (
    "the model is popularity alone: for this budget there are too few interactions to learn tastes, so "
    "everybody gets the same list, less what they have already"
)


def learn_popularity(run: Run, plan: Plan, masses: Masses, sizes: Sizes) -> tuple[Array, Array]:
    """Numbers of users per item, [items], and the one factor that ranks by them, [items, 1].

    All that is left of the budget goes into sums of weights, which join what was known of these before.
    """
    [sums], noise = run.released(plan, releases.POPULARITY, queries.WeightSums())
    counts = masses.joined(sums[:, 0], 1 / noise**2).expected / sizes.scale
    return counts, one_factor(counts)


def one_factor(counts: Array) -> Array:
    """The factor that ranks by these counts, [items, 1]."""
    return (counts / max(float(counts.max(initial=0.0)), 1e-300))[:, None]
