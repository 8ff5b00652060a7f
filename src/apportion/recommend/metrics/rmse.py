"""Root mean squared error of predicted ratings."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from apportion.data import Interactions
from apportion.errors import DataError
from apportion.recommend.metrics.buckets import item_buckets, means_of
from apportion.recommend.recommender import Recommender


@dataclass(frozen=True)
class RatingMetrics:
    """Root mean squared error of predicted ratings, overall and by bucket of items, tail first."""

    rmse: float
    rmse_by_bucket: tuple[float, ...]


def rating_metrics(
    model: Recommender,
    histories: Interactions,
    test: Interactions,
    counts: ArrayLike,
    buckets: int = 5,
) -> RatingMetrics:
    """RMSE of the test ratings, predicted from the histories.

    Args:
        model: of explicit feedback.
        histories: what users' vectors are made from.
        test: the ratings to predict; from the same data as the histories.
        counts: training counts of the items of the test's catalog, [items].
        buckets: how many buckets of items.
    """
    rating = test.by_user.rating
    if rating is None:
        raise DataError("the test interactions have no ratings to compare predictions with")
    if len(rating) == 0:
        raise DataError("there are no test interactions: take a larger share for the test")
    bucket = item_buckets(counts, test.items, buckets)[test.by_user.other]
    squared = (model.predict_many(histories, test) - rating) ** 2
    rows = np.bincount(bucket, minlength=buckets)
    sums = np.bincount(bucket, weights=squared, minlength=buckets)
    return RatingMetrics(
        rmse=float(np.sqrt(squared.mean())),
        rmse_by_bucket=tuple(np.sqrt(means_of(sums, rows)).tolist()),
    )
