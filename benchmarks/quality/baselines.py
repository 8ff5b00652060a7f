"""What a model must never be worse than, at the same epsilon and delta.

Of ratings: a constant, users' means shrunk towards it, and a bias model. Each is as private as the
model: sums over users with Gaussian noise, the parts of one user bounded. (The noise is NumPy's: these are
yardsticks and not mechanisms to be used.) Of events: the items with the largest noisy counts.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

import apportion as ap
from benchmarks.quality.splits import EventSplit, RatingSplit, Score

Array = NDArray[np.float64]

# Of the budget, for the mean of all; and how many ratings equal to it a user's own are joined by.
_MEAN_SHARE, _JOINED = 0.05, 3.0
DELTA = 1e-5


def rating_baselines(split: RatingSplit, epsilon: float, seed: int) -> dict[str, Score]:
    """Scores of ``constant``, ``user mean`` and ``bias``."""
    train = split.train
    rating, rating_range = train.by_user.rating, train.rating_range
    assert rating is not None
    assert rating_range is not None
    low, high = rating_range
    noise = _Noise(epsilon, seed)
    y = (rating.astype(np.float64) - (low + high) / 2) / (high - low) * 2
    user, item = train.user_of_row, train.by_user.other
    count = np.bincount(user, minlength=train.users)
    some = count > 0
    mean_of_user = np.bincount(user, y, minlength=train.users)[some] / count[some]
    # A user adds its mean and one: a norm of at most sqrt(2).
    total, users = noise(
        np.array([mean_of_user.sum(), float(some.sum())]), math.sqrt(2), _MEAN_SHARE
    )
    mean = float(np.clip(total / max(users, 1.0), -1, 1))
    center = (np.bincount(user, y, minlength=train.users) + _JOINED * mean) / (count + _JOINED)
    intercepts = _intercepts(y - center[user], user, item, train, noise)
    own = np.bincount(user, y - intercepts[item], minlength=train.users)
    with_items = (own + _JOINED * mean) / (count + _JOINED)
    nothing = np.zeros(train.items)
    models = {
        "constant": (np.full(train.users, mean), nothing),
        "user mean": (center, nothing),
        "bias": (with_items, intercepts),
    }

    def rmse(model: tuple[Array, Array], rows: ap.Interactions) -> float:
        of_user, of_item = model
        predicted = of_user[rows.user_of_row] + of_item[rows.by_user.other]
        scale = (high - low) / 2
        predicted = np.clip((low + high) / 2 + scale * predicted, low, high)
        rating = rows.by_user.rating
        assert rating is not None
        return float(np.sqrt(np.mean((predicted - rating) ** 2)))

    return {
        name: Score(rmse(model, split.validation), rmse(model, split.test))
        for name, model in models.items()
    }


def _intercepts(
    y: Array,
    user: NDArray[Any],
    item: NDArray[Any],
    train: ap.Interactions,
    noise: "_Noise",
) -> Array:
    """Of the items, from sums of labels and of weights, uniform weights, shrunk by their known noise."""
    weight = 1 / np.sqrt(np.bincount(user, minlength=train.users)[user])
    bound = 0.5  # of a user's weighted labels: half of the largest that there are
    norm = np.sqrt(np.bincount(user, (weight * y) ** 2, minlength=train.users))
    y = y * np.minimum(1.0, bound / np.maximum(norm, 1e-12))[user]
    share = (1 - _MEAN_SHARE) / 2
    sums = noise(np.bincount(item, weight * y, minlength=train.items), bound, share)
    mass = noise(np.bincount(item, weight, minlength=train.items), 1.0, share)
    mass = np.maximum(mass, noise.scale(1.0, share))
    # Labels scatter by about as much as the bound; an item's sum of squared weights is about its mass
    # times the weight of most.
    typical = float(np.mean(weight))
    variance_of_sum = noise.scale(bound, share) ** 2 + bound**2 * typical * mass
    of_items = max(
        float(np.sum(sums**2 - variance_of_sum) / np.sum(mass**2)),
        1e-4 * float(np.sum(sums**2) / np.sum(mass**2)),
    )
    divisor = mass**2 + variance_of_sum / of_items
    return np.divide(mass * sums, divisor, out=np.zeros_like(sums), where=divisor > 0)


def popularity(split: EventSplit, epsilon: float, seed: int) -> dict[str, Score]:
    """Scores of ``popularity``: lists in the order of noisy counts, whole users scaled down to 50 items."""
    train, noise, cap = split.train, _Noise(epsilon, seed), 50
    size = np.bincount(train.user_of_row, minlength=train.users)
    part = np.minimum(1.0, np.sqrt(cap / np.maximum(size, 1)))[train.user_of_row]
    counts = noise(np.bincount(train.by_user.other, part, train.items), math.sqrt(cap), 1.0)
    order = np.argsort(-counts, kind="stable")
    recalls = []
    for held in (split.validation, split.test):
        found = []
        for one in held.users:
            history, labels = (
                side.by_user.other[slice(*side.by_user.start[one : one + 2])]
                for side in (held.history, held.labels)
            )
            if len(labels) == 0:
                continue
            best = order[: 20 + len(history)]
            best = best[~np.isin(best, history)][:20]
            found.append(np.isin(best, labels).sum() / min(20, len(labels)))
        recalls.append(float(np.mean(found)))
    return {"popularity": Score(*recalls)}


class _Noise:
    """Gaussian noise for portions of a budget."""

    def __init__(self, epsilon: float, seed: int) -> None:
        self._mu = math.inf if math.isinf(epsilon) else ap.mu_from_epsilon(epsilon, DELTA)
        self._rng = np.random.default_rng([seed, 19])

    def scale(self, sensitivity: float, share: float) -> float:
        """The standard deviation."""
        return sensitivity / (self._mu * math.sqrt(share))

    def __call__(self, sums: NDArray[Any], sensitivity: float, share: float) -> Array:
        return np.asarray(sums + self.scale(sensitivity, share) * self._rng.normal(size=sums.shape))
