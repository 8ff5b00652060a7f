"""What is known of a rating before its item is: the mean of all, and how far a user's own is to be trusted.

A user's center is (k * mean + sum of its n ratings) / (k + n): the posterior mean of its true one, if true
means have variance B around ``mean``, ratings have variance W around their user's, and k = W / B. The three
follow from one small release; the user's own sum stays with the user.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from apportion.accounts.plan import Plan
from apportion.data.centering import Centering
from apportion.engine import Session, queries
from apportion.engine.feed import exact
from apportion.recommend import releases
from apportion.recommend.settings import Settings

if TYPE_CHECKING:
    from apportion.recommend.run import Run

# What is expected of people before anything is released, with its variance, in units of half the rating
# range: their mean; the variance of their ratings around their own; that of their true means. The
# noisier the release, the more these count.
_MEAN, _WITHIN, _BETWEEN = (0.0, 0.16), (0.2, 0.01), (0.05, 0.0025)
# Of the variance between users, so that no user's mean is ever ignored, and of what a user's own counts for.
_LEAST, _FEWEST, _MOST = 0.002, 0.5, 50.0
# About the variance of one user's part, in the same units: few users say little even without noise.
_SCATTER = 0.1


@dataclass(frozen=True)
class Offset:
    """What all users have in common.

    Attributes
        mean: of all users' ratings; also the center of a user without ratings.
        shrinkage: how many ratings equal to ``mean`` a user's own are joined by.
        within: the variance of ratings around their user's mean, or None where nothing is known of it.
    """

    mean: float = 0.0
    shrinkage: float = 0.0
    within: float | None = None

    def centering(self, settings: Settings) -> Centering:
        """What is subtracted from ratings."""
        return Centering(settings.center, self.mean, self.shrinkage)


def scale_of(settings: Settings) -> tuple[float, float]:
    """The middle of the ratings and half their range; without a public one, what the label bound says."""
    if settings.rating_range is None:
        return 0.0, 4 * settings.label
    low, high = settings.rating_range
    return (low + high) / 2, (high - low) / 2


def release(run: "Run", plan: Plan) -> Offset:
    """What is common to all users, privately."""
    settings = run.settings
    middle, half = scale_of(settings)
    if settings.center == "global":
        [[[total, users]]], _ = run.released(plan, releases.MEAN, queries.Means(middle, half))
        low, high = middle - half, middle + half
        return Offset(float(np.clip(middle + half * total / max(users, 1.0), low, high)))
    if settings.center == "user":
        query = queries.RatingMoments(middle, half)
        [[sums]], noise = run.released(plan, releases.MOMENTS, query)
        return estimate(sums, noise, middle, half)
    return Offset()


def compute(settings: Settings, session: Session) -> Offset:
    """The same without privacy, from exact sums."""
    if settings.center == "none" or (settings.center == "user" and settings.rating_range is None):
        return Offset()
    middle, half = scale_of(settings)
    if settings.center == "global":
        [[[total, users]]] = exact(session, queries.Means(middle, half))
        return Offset(float(middle + half * total / max(users, 1.0)))
    [[sums]] = exact(session, queries.RatingMoments(middle, half))
    return estimate(sums, 0.0, middle, half)


def estimate(sums: np.ndarray, noise: float, middle: float, half: float) -> Offset:
    """From the sums of ``RatingMoments`` and the standard deviation of their noise.

    Each quotient is averaged with what is expected of people, as its noise commands.
    """
    users = max(float(sums[0]), noise, 1.0)
    several = max(float(sums[2]), noise, 1.0)
    of_mean = (noise**2 + _SCATTER * users) / users**2
    mean = _posterior(float(np.clip(sums[1] / users, -1.0, 1.0)), 2 * of_mean, *_MEAN)
    of_others = (noise**2 + _SCATTER * several) / several**2
    within = _posterior(float(np.clip(2 * sums[4] / several, 0.0, 2.0)), 5 * of_others, *_WITHIN)
    square = float(np.clip(sums[3] / several, -1.0, 1.0))
    between = _posterior(square - mean**2, 2 * of_others + 8 * mean**2 * of_mean, *_BETWEEN)
    ratio = within / max(between, _LEAST)
    return Offset(
        mean=middle + half * mean,
        shrinkage=float(np.clip(ratio, _FEWEST, _MOST)),
        within=half * half * within,
    )


def _posterior(found: float, noise: float, expected: float, variance: float) -> float:
    """The mean of what was found with this variance of noise, and what was expected."""
    return (found * variance + expected * noise) / (variance + noise)
