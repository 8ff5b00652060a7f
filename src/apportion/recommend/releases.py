"""What a recommender's training releases, declared once.

Plans print it, steps make it, model folders are checked by it.
"""

import math

from apportion.accounts.declared import Declared
from apportion.accounts.plan import Plan
from apportion.privacy import Part, UserBound
from apportion.recommend.groups import GradientDescent
from apportion.recommend.settings import Choice, Settings

MEAN, MOMENTS, COUNTS, WEIGHTS = "mean", "rating moments", "counts", "weights"
USERS, INTERCEPTS, POPULARITY, GAINS = "users", "intercepts", "popularity", "fold-in gains"
# Penalties of users' vectors that are compared: for vectors whose products with items have these variances,
# relative to what nobody can predict.
PENALTIES = (1.0, 0.3, 0.1, 0.03, 0.01)
_BUDGET = "a user's squared weights sum to <= 1"


def counts_of(settings: Settings) -> Declared | None:
    """Task counts: the catalog's, if it counts, or else the allocation's."""
    own = settings.catalog.declared()
    if own is not None or settings.catalog.counts is not None:
        return own
    source = settings.allocation.counts
    return None if source is None else source.declared()


def mean(settings: Settings) -> Declared:
    """Sensitivity: a user adds its mean, scaled to [-1, 1], and 1: sqrt(2), however many ratings it has."""
    bound = UserBound(math.sqrt(2), "a user adds its mean in [-1, 1], and 1")
    what = "sums of users' scaled mean ratings, and of users"
    return Declared(MEAN, (Part(MEAN, what, bound, width=2),), settings.mean_share, tasks=1)


def rating_moments(settings: Settings) -> Declared:
    """What says how far a user's own mean is to be trusted.

    Sensitivity: a user of n ratings in [-1, 1], of mean m and sample variance s^2, adds 1, m, 1,
    m^2 - s^2 / n and s^2 / 2; 1, m and zeros if n is 1. Squared and added up this is at most
    2 + m^2 + (m^2 - s^2 / n)^2 + s^4 / 4. Ratings in [-1, 1] have a mean square m^2 + s^2 (n - 1) / n <= 1.
    The sum is convex in (m^2, s^2), so it is largest at a corner of that triangle: 2 at (0, 0), 4 at (1, 0),
    and 2 + 1 / (n - 1)^2 + n^2 / (4 (n - 1)^2) <= 4 at (0, n / (n - 1)), n being at least 2. The norm: <= 2.
    """
    because = "a user adds 1, its mean in [-1, 1], and 1, a square and half a variance"
    what = "users, their means, and moments within and between them"
    part = Part(MOMENTS, what, UserBound(2.0, because), width=5)
    return Declared(MOMENTS, (part,), settings.mean_share, tasks=1)


def weight_sums(settings: Settings) -> Declared:
    """Sensitivity: sum_i w_ij^2 <= 1."""
    bound = UserBound(1.0, f"each pair adds its weight; {_BUDGET}")
    return Declared(
        WEIGHTS, (Part(WEIGHTS, "sums of weights per item", bound),), settings.shares.weights
    )


def popularity(share: float) -> Declared:
    """Sensitivity: sum_i w_ij^2 <= 1."""
    bound = UserBound(1.0, f"each pair adds its weight; {_BUDGET}")
    return Declared(POPULARITY, (Part(POPULARITY, "sums of weights per item", bound),), share)


def users(settings: Settings) -> Declared:
    """Sensitivity: 1."""
    part = Part(USERS, "number of users", UserBound(1.0, "a user counts once"))
    return Declared(USERS, (part,), settings.shares.users, tasks=1)


def intercepts(settings: Settings, share: float) -> Declared:
    """Sensitivity: user j's part is the vector of its w_ij y_ij, scaled down to a norm of label_bound.

    A user with many ratings far off counts less, whole; no single rating is clipped.
    """
    bound = UserBound(
        settings.label, "a user's weighted ratings are scaled down to the label bound"
    )
    part = Part(INTERCEPTS, "weighted sums of centered ratings", bound)
    return Declared(INTERCEPTS, (part,), share)


def gramian(settings: Settings, sweep: int, factors: int, share: float) -> Declared:
    """Sensitivity: a user adds v v', of Frobenius norm |v|^2 <= feature_bound^2."""
    bound = UserBound(settings.feature_bound**2, "|v v'| <= feature_bound^2")
    part = Part("gramian", "sum of all users' v v'", bound, factors, symmetric=True)
    return Declared(f"sweep {sweep} gramian", (part,), share, tasks=1)


def item_step(settings: Settings, sweep: int, factors: int, share: float) -> Declared:
    """The sums of one sweep from which items are fitted.

    Sensitivity: in A a user's part in item i is w_ij v v' of norm <= w_ij G^2, in b w_ij y v of norm
    <= w_ij L G, where ratings are clipped (``"row"``); squared and summed with sum_i w_ij^2 <= 1 this gives
    G^4 and (L G)^2. With ``clip="user"`` the user's whole part in b is scaled down to L G. A gradient is
    clipped to its bound, over all items together, before it is added.
    """
    name, G, L = f"sweep {sweep}", settings.feature_bound, settings.label
    solver = settings.solver
    if isinstance(solver, GradientDescent):
        because = "a user's gradient over all tasks is scaled to gradient_bound"
        bound = UserBound(settings.gradient_bound, because)
        part = Part("gradients", f"clipped gradients, {solver.steps} steps", bound, factors)
        return Declared(name, (part,), share, steps=solver.steps)
    if settings.clip == "user":
        right = UserBound(G * L, "a user's part is scaled down to label_bound * feature_bound")
    else:
        right = UserBound(G * L, f"|y x| <= label_bound * feature_bound; {_BUDGET}")
    b = Part("b", "weighted sums of y x", right, factors)
    if settings.shared:
        return Declared(name, (b,), share)
    gram = UserBound(G * G, f"|x x'| <= feature_bound^2; {_BUDGET}")
    A = Part("A", "weighted sums of x x'", gram, factors, symmetric=True)
    return Declared(name, (A, b), share, (solver.gram_share, 1 - solver.gram_share))


def fold_in_gains(settings: Settings) -> Declared:
    """Which penalty of users' vectors predicts best what they were not made from.

    Sensitivity: a user's part, whatever it is, is scaled down to a norm of at most 1. It depends on this
    user's rows and on released values.
    """
    bound = UserBound(1.0, "a user's gains are scaled down to a norm of 1")
    what = "by how much users' vectors help, by penalty"
    part = Part(GAINS, what, bound, width=len(PENALTIES))
    return Declared(GAINS, (part,), settings.validation_share, tasks=1)


def plan(settings: Settings, choice: Choice | None = None) -> Plan:
    """All releases of a training, in their order; without a choice, what is left for it."""
    declared = []
    if settings.center == "global":
        declared.append(mean(settings))
    elif settings.center == "user":
        declared.append(rating_moments(settings))
    counts = counts_of(settings)
    if counts is not None:
        declared.append(counts)
    declared.append(weight_sums(settings))
    if settings.shared:
        declared.append(users(settings))
    if settings.validated:
        declared.append(fold_in_gains(settings))
    left = 1 - math.fsum(each.share for each in declared)
    of_rest = "intercepts and sweeps" if settings.explicit else "sweeps"
    opened = Plan(settings.target, tuple(declared), left, of_rest)
    return opened if choice is None else chosen(opened, settings, choice)


def before_training(plan: Plan) -> tuple[Declared, ...]:
    """What is released before anything is fitted, in its order; of a plan without a choice."""
    return tuple(each for each in plan.releases if each.name != GAINS)


def chosen(plan: Plan, settings: Settings, choice: Choice) -> Plan:
    """A plan without a choice, completed by what follows from one."""
    declared = list(before_training(plan))
    # Without vectors there is nothing to validate.
    last = plan.releases[len(declared) :] if choice.sweeps > 0 else ()
    left = 1 - math.fsum(each.share for each in (*declared, *last))
    if choice.intercept_share > 0:
        declared.append(intercepts(settings, left * choice.intercept_share))
    if choice.sweeps == 0:
        if not settings.explicit:
            declared.append(popularity(left))
        return Plan(settings.target, tuple(declared))
    of_sweep = (1 - math.fsum(each.share for each in (*declared, *last))) / choice.sweeps
    of_gramian = settings.shares.gramian if settings.gramian else 0.0
    for sweep in range(1, choice.sweeps + 1):
        if settings.gramian:
            declared.append(gramian(settings, sweep, choice.factors, of_sweep * of_gramian))
        declared.append(item_step(settings, sweep, choice.factors, of_sweep * (1 - of_gramian)))
    return Plan(settings.target, (*declared, *last))
