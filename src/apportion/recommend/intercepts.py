"""How well each item is liked, before anything is said about tastes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.accounts.plan import Plan
from apportion.engine import queries
from apportion.recommend import releases
from apportion.recommend.offsets import Offset
from apportion.recommend.preparation import Preparation
from apportion.recommend.run import Array, Run
from apportion.recommend.settings import Settings
from apportion.recommend.sizes import Sizes

_LARGEST = float(np.finfo(np.float32).max)

# What is expected of items before anything is released, in units of the label bound: the variances of the
# line's height, at items as ratings have them, and of its slope; the variance around it, and that of this.
_HEIGHT, _SLOPE = 0.02, 0.02
_AROUND = (0.1, 0.01)


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What is known of the items before the sweeps, from released values.

    Attributes
        ridge: the penalty of each item, on the scale of its weighted rows, [items].
        scale: the typical weight of each item's users, [items].
        mass: about the sum of their weights, [items].
        users: about the number of users.
        intercepts: of the items, [items], or None.
    """

    ridge: Array
    scale: Array
    mass: Array
    users: float
    intercepts: NDArray[np.float32] | None


def learn_intercepts(run: Run, plan: Plan, preparation: Preparation, sizes: Sizes) -> Knowledge:
    """Release the intercepts, if they are planned, and center the session's ratings."""
    settings, session, offset = run.settings, run.session, preparation.offset
    scale, counts = sizes.scale, sizes.counts
    centering = offset.centering(settings)
    session.center(centering)
    intercepts = None
    if releases.INTERCEPTS in plan:
        label, query = settings.label, queries.Intercepts(settings.label)
        [sums], noise = run.released(plan, releases.INTERCEPTS, query)
        scatter = scatter_of(settings, offset)
        found = label * estimate(sums[:, 0] / label, noise / label, scale, counts, scatter)
        intercepts = as_singles(found)
        session.center(centering, intercepts.astype(np.float64))
    # Multiplied by an item's typical weight, a penalty means the same to its weighted rows as it
    # means to rows of weight one.
    ridge = settings.regularization * scale * counts**settings.exponent
    return Knowledge(ridge, scale, scale * counts, preparation.users, intercepts)


def estimate(sums: Array, noise: float, scale: Array, counts: Array, scatter: float = 1.0) -> Array:
    """The most likely intercepts given sums_i = mass_i * intercept_i + noise, mass = scale * counts, [items].

    Beside the noise of the release, labels have a variance of ``scatter`` about the intercept.
    Intercepts are taken to be normal around a line in the log of the count (what is rated often is
    rated well); the line and the variance around it follow from all items (empirical Bayes), as far as their
    noise lets them, and else are what is expected of items anyway. No intercept is farther than 2 from zero.
    """
    mass = scale * counts
    deviation = np.sqrt(noise**2 + scatter * scale * mass)
    b, a = sums / deviation, mass / deviation
    power = float(np.sum(a**2))
    logs = np.log(np.maximum(counts, 1.0))
    middle = float(counts @ logs) / float(counts.sum())
    line = np.stack([np.ones_like(counts), logs - middle], axis=1)
    seen = a[:, None] * line
    # Two items and more have scattered about their line once it is known to within a tenth of it.
    known = seen.T @ seen / (1.0 + power / len(b) * _AROUND[0])
    wanted = seen.T @ b / (1.0 + power / len(b) * _AROUND[0])
    found = np.linalg.solve(known + np.diag([1 / _HEIGHT, 1 / _SLOPE]), wanted)
    center = np.clip(line @ found, -2.0, 2.0)
    residual = b - a * center
    expected, unsure = _AROUND
    noise_of_variance = 2 * len(b) / max(power, 1e-300) ** 2
    variance = max(float(np.sum(residual**2)) - len(b), 0.0) / max(power, 1e-300)
    variance = (variance * unsure + expected * noise_of_variance) / (unsure + noise_of_variance)
    return np.asarray(
        np.clip(center + a * variance / (a**2 * variance + 1.0) * residual, -2.0, 2.0)
    )


def scatter_of(settings: Settings, offset: Offset) -> float:
    """The variance of labels about the intercepts of items, in units of the squared label bound."""
    within = offset.within
    return 1.0 if within is None else min(within / settings.label / settings.label, 1.0)


def as_singles(values: Array) -> NDArray[np.float32]:
    """Within 32 bits whatever the bound: what is infinite would stop the training."""
    return np.clip(values, -_LARGEST, _LARGEST).astype(np.float32)
