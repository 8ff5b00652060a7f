"""What anybody could do without a model: predict averages, recommend what is popular.

They are computed from the histories as they are, without noise: a model has to be better than these.
"""

import math

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


def averages(histories: Interactions, pairs: Interactions) -> dict[str, Array]:
    """Predictions of the pairs by name, in the order of ``pairs.by_user``, [rows] each.

    Who or what has no rating in the histories gets the mean of all.
    """
    rows = histories.by_user
    assert rows.rating is not None
    rating = rows.rating.astype(np.float64)
    mean = float(rating.mean()) if len(rating) else float(np.mean(histories.rating_range or 0.0))

    def by(group: NDArray[np.integer], groups: int, wanted: NDArray[np.integer]) -> Array:
        sums = np.bincount(group, weights=rating, minlength=groups)
        means = means_of(sums, np.bincount(group, minlength=groups))
        return np.asarray(np.where(np.isfinite(means), means, mean)[wanted])

    return {
        "mean of all ratings": np.full(len(pairs.by_user.other), mean),
        "mean of the user": by(histories.user_of_row, histories.users, pairs.user_of_row),
        "mean of the item": by(rows.other, histories.items, pairs.by_user.other),
    }


def popularity(item_ids: NDArray[np.generic], counts: ArrayLike) -> Recommender:
    """Recommends to everybody what most have, whatever their history."""
    step = FoldIn("implicit", regularization=1.0, exponent=0.0, unobserved_weight=1.0)
    report = PrivacyReport(ledger=Ledger(PrivacyTarget(math.inf, 1e-5)))
    popular = np.asarray(counts, dtype=np.float64)
    nothing = np.zeros((len(item_ids), 1), dtype=np.float32)
    return Recommender(ItemModel(nothing, item_ids, popular, None, step, report))
