"""What anybody could do without a model: predict averages, recommend what is popular.

They are computed from the histories as they are, without noise: a model has to be better than these.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.accounts import PrivacyReport
from apportion.data import Interactions
from apportion.privacy import Ledger, PrivacyTarget
from apportion.recommend.fold_in import FoldIn
from apportion.recommend.metrics.buckets import means_of
from apportion.recommend.metrics.rows import Array
from apportion.recommend.model import ItemModel
from apportion.recommend.recommender import Recommender


@dataclass(frozen=True, eq=False)
class Averages:
    """What everybody's histories say.

    Attributes
        mean: of all ratings.
        of_item: the mean rating of every item, [items], NaN where there is none.
    """

    mean: float
    of_item: Array


def averages_of(histories: Interactions) -> Averages:
    """Those of these histories."""
    rows = histories.by_user
    assert rows.rating is not None
    rating = rows.rating.astype(np.float64)
    mean = float(rating.mean()) if len(rating) else float(np.mean(histories.rating_range or 0.0))
    return Averages(mean, _means_by(rows.other, histories.items, rating))


def averages(
    histories: Interactions, pairs: Interactions, everybody: Averages | None = None
) -> dict[str, Array]:
    """Predictions of the pairs by name, in the order of ``pairs.by_user``, [rows] each.

    Who or what has no rating in the histories gets the mean of all. If the histories are those of some users,
    ``everybody`` says what all have.
    """
    known = averages_of(histories) if everybody is None else everybody
    rows = histories.by_user
    assert rows.rating is not None
    of_user = _means_by(histories.user_of_row, histories.users, rows.rating.astype(np.float64))

    def wanted(means: Array, places: NDArray[np.integer]) -> Array:
        return np.asarray(np.where(np.isfinite(means), means, known.mean)[places])

    return {
        "mean of all ratings": np.full(len(pairs.by_user.other), known.mean),
        "mean of the user": wanted(of_user, pairs.user_of_row),
        "mean of the item": wanted(known.of_item, pairs.by_user.other),
    }


def _means_by(group: NDArray[np.integer], groups: int, rating: Array) -> Array:
    sums = np.bincount(group, weights=rating, minlength=groups)
    return means_of(sums, np.bincount(group, minlength=groups))


def popularity(item_ids: NDArray[np.generic], counts: ArrayLike) -> Recommender:
    """Recommends to everybody what most have, whatever their history."""
    step = FoldIn("implicit", regularization=1.0, exponent=0.0, unobserved_weight=1.0)
    report = PrivacyReport(ledger=Ledger(PrivacyTarget(math.inf, 1e-5)))
    popular = np.asarray(counts, dtype=np.float64)
    nothing = np.zeros((len(item_ids), 1), dtype=np.float32)
    return Recommender(ItemModel(nothing, item_ids, popular, None, step, report))
