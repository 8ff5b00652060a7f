"""How strongly the vectors of users are penalized when the model is used: ratings, privately.

The more there is to learn of tastes, the farther a user's vector may move predictions away from the averages.
How far is asked of the users: each makes vectors from one half of its ratings and predicts the other half,
with every penalty, and what it gains goes into one small release. Items are private already, so that a user
has hardly influenced them, and no rows need to be kept out of training.
"""

from dataclasses import replace

import numpy as np

from apportion.accounts.plan import Plan
from apportion.engine import queries
from apportion.engine.queries import UserSystems
from apportion.recommend import releases
from apportion.recommend.groups import LARGEST
from apportion.recommend.intercepts import Knowledge, as_singles
from apportion.recommend.offsets import Offset, scale_of
from apportion.recommend.run import Array, Run
from apportion.recommend.settings import Choice, Settings

AVERAGES = (
    "ratings are predicted from averages of users and items alone: for this budget nobody's tastes could be "
    "told from noise"
)
# A gain has to be so many standard deviations of the noise to be believed.
_CLEAR = 2.0


def choose_penalty(
    run: Run, choice: Choice, plan: Plan, offset: Offset, known: Knowledge, items: Array
) -> Choice:
    """The choice, with the penalty of users' vectors that follows from the release, if there is one."""
    settings = run.settings
    if choice.sweeps == 0 and settings.explicit:
        return replace(choice, serving_regularization=LARGEST)
    if not settings.validated:
        return choice
    served = as_singles(items).astype(np.float64)
    candidates = penalties(served, known.mass / known.scale)
    _, half = scale_of(settings)
    query = queries.FoldInGains(
        items=served,
        systems=tuple(UserSystems(penalty, 0.0) for penalty in candidates),
        centering=offset.centering(settings),
        intercepts=None if known.intercepts is None else known.intercepts.astype(np.float64),
        unit=half * half,
    )
    [[gains]], noise = run.released(plan, releases.GAINS, query)
    return replace(choice, serving_regularization=best(candidates, gains, noise))


def penalties(items: Array, counts: Array) -> list[float]:
    """Those that are compared, the smallest first: in the scale of the items, whatever that is.

    A user whose coordinates have variance s^2 around zero, and whose ratings have variance W around
    what its vector says, has a vector with penalty W / s^2. Its products with items have a variance of
    s^2 |u|^2, which is to be a portion p of W on the average: a penalty of the mean of |u|^2 over p.
    """
    with np.errstate(over="ignore"):
        square = float(counts @ np.square(items).sum(axis=1)) / float(counts.sum())
    square = float(np.clip(np.nan_to_num(square, nan=0.0), 1e-30, 1e-3 * LARGEST))
    return [square / portion for portion in releases.PENALTIES]


def best(candidates: list[float], gains: Array, noise: float) -> float:
    """The penalty to use, given noisy gains and the standard deviation of their noise.

    If none helps beyond doubt, the one that leaves averages alone. Otherwise the next larger than the one
    with the largest gain: the items have seen these very ratings, so small penalties look better than
    they are.
    """
    place = int(np.argmax(gains))
    if not gains[place] > _CLEAR * noise:
        return LARGEST
    return candidates[min(place + 1, len(candidates) - 1)]


def penalty_of(settings: Settings, choice: Choice) -> tuple[float, float]:
    """The penalty of users' vectors when the model is used, and the exponent of their number of ratings."""
    if choice.serving_regularization > 0:
        return choice.serving_regularization, 0.0
    return settings.user_regularization, settings.exponent
