"""How far predicted ratings are off, overall and by popularity.

A metric has a file of its own (``rmse``, ``mae``) and is listed in ``OF_ROWS``.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from apportion.data import Interactions
from apportion.data.ids import Integers
from apportion.errors import DataError
from apportion.recommend.metrics.buckets import item_buckets, means_of
from apportion.recommend.metrics.mae import MAE
from apportion.recommend.metrics.rmse import RMSE
from apportion.recommend.metrics.rows import Array
from apportion.recommend.recommender import Recommender

OF_ROWS = {"rmse": RMSE, "mae": MAE}


@dataclass(frozen=True)
class RatingMetrics:
    """Errors of predicted ratings, overall and by bucket of items, tail first.

    Attributes
        rmse, rmse_by_bucket: root mean squared errors.
        mae, mae_by_bucket: mean absolute errors.
    """

    rmse: float
    rmse_by_bucket: tuple[float, ...]
    mae: float
    mae_by_bucket: tuple[float, ...]


def rating_metrics(
    model: Recommender,
    histories: Interactions,
    test: Interactions,
    counts: ArrayLike,
    buckets: int = 5,
) -> RatingMetrics:
    """Errors of the test ratings, predicted from the histories.

    Args:
        model: of explicit feedback.
        histories: what users' vectors are made from.
        test: the ratings to predict; from the same data as the histories.
        counts: training counts of the items of the test's catalog, [items].
        buckets: how many buckets of items.
    """
    ratings_of(test)
    bucket = item_buckets(counts, test.items, buckets)
    return of_predictions(model.predict_many(histories, test), test, bucket, buckets)


def ratings_of(test: Interactions, *, some: bool = True) -> Array:
    """The ratings to predict, [rows]; if there have to be ``some``, none are an error."""
    if test.by_user.rating is None:
        raise DataError("the test interactions have no ratings to compare predictions with")
    if some and len(test.by_user.rating) == 0:
        raise DataError("there are no test interactions: take a larger share for the test")
    return test.by_user.rating.astype(np.float64)


def of_predictions(
    predicted: Array, test: Interactions, bucket: Integers, buckets: int
) -> RatingMetrics:
    """The metrics of predictions, in the order of ``test.by_user``, given the bucket of every item."""
    return from_sums(*sums_of(predicted, test, bucket, buckets))


def sums_of(
    predicted: Array, test: Interactions, bucket: Integers, buckets: int
) -> tuple[Array, Array]:
    """Of the metrics' parts of rows the sums by bucket, [metrics, buckets], and how many, [buckets].

    Those of some users and of others add up to those of all.
    """
    error = predicted - ratings_of(test, some=False)
    place = bucket[test.by_user.other]
    parts = [
        np.bincount(place, weights=metric.of_row(error), minlength=buckets)
        for metric in OF_ROWS.values()
    ]
    return np.stack(parts), np.bincount(place, minlength=buckets).astype(np.float64)


def from_sums(sums: Array, rows: Array) -> RatingMetrics:
    """The metrics, given ``sums_of`` all users."""
    found: dict[str, float] = {}
    by_bucket: dict[str, tuple[float, ...]] = {}
    for metric, (name, of_name) in zip(sums, OF_ROWS.items(), strict=True):
        found[name] = float(of_name.of_mean(metric.sum() / rows.sum()))
        by_bucket[f"{name}_by_bucket"] = tuple(of_name.of_mean(means_of(metric, rows)).tolist())
    return RatingMetrics(**found, **by_bucket)  # type: ignore[arg-type]
