"""What a recommender's training releases once, before its sweeps."""

import math

import numpy as np

from apportion.data import Interactions
from apportion.privacy import Curator, UserBound
from apportion.privacy.errors import DataError
from apportion.recommend.recommender import UserStep


def release_mean(data: Interactions, curator: Curator, mu: float) -> float:
    """The mean of the users' mean ratings.

    Sensitivity: with ratings scaled to [-1, 1] a user adds its mean, of size <= 1, to one sum and
    1 to the other: a vector of norm <= sqrt(2), however many ratings it has.
    """
    if data.rating_range is None or data.by_user.rating is None:
        raise DataError('centring="global" needs ratings in a public rating_range')
    low, high = data.rating_range
    middle, half = (low + high) / 2, (high - low) / 2
    start = data.by_user.start
    own = UserStep("explicit", 0.0, 0.0, mean=middle).means(start, data.by_user.rating)
    some = np.diff(start) > 0
    scaled = np.clip((own[some] - middle) / half, -1.0, 1.0)
    bound = UserBound(math.sqrt(2), "a user adds its mean in [-1, 1], and 1")
    sums = np.array([[scaled.sum(), float(some.sum())]])
    what = "sums of users' scaled mean ratings, and of users"
    [[total, users]] = curator.sums("mean", sums, bound, mu, what)
    return float(np.clip(middle + half * total / max(users, 1.0), low, high))


def release_users(data: Interactions, curator: Curator, mu: float) -> float:
    """The number of users with a row, at least one. Sensitivity: 1."""
    exact = float(np.count_nonzero(np.diff(data.by_user.start)))
    bound = UserBound(1.0, "a user counts once")
    [[users]] = curator.sums("users", np.array([[exact]]), bound, mu, "users")
    return max(float(users), 1.0)
