"""How good a recommender is, overall and by popularity: ratings, rankings and neighbours.

Items fall into buckets of equally many by their training counts: bucket 0 is the tail. A bucket in
which nothing can be measured is NaN. Users and items are taken block by block: scores of all users
and items are never held at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.checks import whole
from apportion.data import HeldOut, Interactions
from apportion.data.buckets import task_buckets
from apportion.data.ids import Integers, match_ids
from apportion.errors import DataError, ParameterError
from apportion.recommend.recommender import Recommender

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RatingMetrics:
    """Root mean squared error of predicted ratings, overall and by bucket of items, tail first."""

    rmse: float
    rmse_by_bucket: tuple[float, ...]


@dataclass(frozen=True)
class RankingMetrics:
    """Quality of top-k lists, overall and by bucket of items, tail first.

    Attributes
        k: the length of the lists.
        recall: Recall@k, hits over min(k, labels), mean over users with a label.
        ndcg: NDCG@k of binary relevance, mean over the same users.
        coverage: the share of the data's catalogue that is in some user's list.
        k_by_bucket: how far down the ranking labels of each bucket are looked for.
        recall_by_bucket, ndcg_by_bucket: the same of labels in the bucket, mean over users with one.
        coverage_by_bucket: the share of the bucket's items that is in some user's list of length k.
    """

    k: int
    recall: float
    ndcg: float
    coverage: float
    k_by_bucket: tuple[int, ...]
    recall_by_bucket: tuple[float, ...]
    ndcg_by_bucket: tuple[float, ...]
    coverage_by_bucket: tuple[float, ...]


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
        counts: training counts of the items of the test's catalogue, [items].
        buckets: how many buckets of items.
    """
    rating = test.by_user.rating
    if rating is None:
        raise DataError("the test interactions have no ratings to compare predictions with")
    if len(rating) == 0:
        raise DataError("there are no test interactions: take a larger share for the test")
    bucket = _item_buckets(counts, test.items, buckets)[test.by_user.other]
    squared = (model.predict_many(histories, test) - rating) ** 2
    rows = np.bincount(bucket, minlength=buckets)
    sums = np.bincount(bucket, weights=squared, minlength=buckets)
    return RatingMetrics(
        rmse=float(np.sqrt(squared.mean())),
        rmse_by_bucket=tuple(np.sqrt(_means(sums, rows)).tolist()),
    )


def ranking_metrics(
    model: Recommender,
    held: HeldOut,
    counts: ArrayLike,
    k: int = 20,
    k_by_bucket: Sequence[int] = (100, 80, 60, 40, 20),
) -> RankingMetrics:
    """How many labels of held-out users are among the items recommended from their histories.

    Items of a user's history are not recommended. A label that the model does not know is a miss.

    Args:
        model: the recommender.
        held: users outside training, as from ``Interactions.hold_out_users``.
        counts: training counts of the items of the labels' catalogue, [items].
        k: how many items are recommended.
        k_by_bucket: for each bucket, where the overall ranking is cut: rare items come later in it.
    """
    k = whole("k", k, at_least=1)
    k_by_bucket = tuple(whole("k_by_bucket", cut, at_least=1) for cut in k_by_bucket)
    labels, buckets = held.labels, len(k_by_bucket)
    if not np.array_equal(held.history.user_key, labels.user_key):
        raise DataError("the history and the labels must have the same users")
    bucket = _item_buckets(counts, labels.items, buckets)
    # Slice 0 is all items, slice b + 1 is bucket b.
    cuts = (k, *k_by_bucket)
    label_count = _labels_by_slice(labels, bucket, buckets)
    users = np.count_nonzero(label_count[held.users], axis=0)
    if users[0] == 0:
        raise DataError("no held-out user has a label: hold out users of at least two interactions")

    # by_user is sorted by user, then item: so are these codes. One past all of them ends the search.
    label_codes = labels.user_of_row.astype(np.int64) * labels.items + labels.by_user.other
    label_codes = np.append(label_codes, labels.users * labels.items)
    item_of_place = np.append(match_ids(model.item_ids, labels.item_ids), -1)
    discount = 1 / np.log2(np.arange(max(labels.items, len(model.item_ids))) + 2)
    ideal = np.concatenate([[0.0], np.cumsum(discount)])
    seen = np.zeros(labels.items + 1, dtype=bool)  # the last is what -1 refers to: no item
    recall, ndcg = np.zeros(len(cuts)), np.zeros(len(cuts))
    for user, places, _ in model.recommend_blocks(held.history, max(cuts), users=held.users):
        ranked = item_of_place[places]
        seen[ranked[:, :k]] = True
        codes = user[:, None].astype(np.int64) * labels.items + ranked
        hit = (label_codes[np.searchsorted(label_codes, codes)] == codes) & (ranked >= 0)
        hit_bucket = np.where(hit, bucket[ranked], -1)
        for place, cut in enumerate(cuts):
            found = hit[:, :cut] if place == 0 else hit_bucket[:, :cut] == place - 1
            # At least 1: a user without a label has no hit either and adds zero.
            attainable = np.clip(label_count[user, place], 1, cut)
            recall[place] += (found.sum(axis=1) / attainable).sum()
            ndcg[place] += (found @ discount[: found.shape[1]] / ideal[attainable]).sum()

    recall, ndcg = _means(recall, users), _means(ndcg, users)
    covered = np.bincount(bucket, weights=seen[:-1], minlength=buckets)
    coverage = _means(covered, np.bincount(bucket, minlength=buckets))
    return RankingMetrics(
        k=k,
        recall=float(recall[0]),
        ndcg=float(ndcg[0]),
        coverage=float(seen[:-1].mean()),
        k_by_bucket=k_by_bucket,
        recall_by_bucket=tuple(recall[1:].tolist()),
        ndcg_by_bucket=tuple(ndcg[1:].tolist()),
        coverage_by_bucket=tuple(coverage.tolist()),
    )


def neighbour_overlap(
    model: Recommender,
    reference: Recommender,
    counts: ArrayLike,
    k: int = 20,
    buckets: int = 5,
    by: Literal["dot", "cosine"] = "dot",
) -> tuple[float, ...]:
    """The share of an item's k nearest neighbours that the reference has too, mean by bucket, [buckets].

    An item is not its own neighbour. Only items that both models know count, as queries and as
    neighbours.

    Args:
        model, reference: the recommenders to compare.
        counts: training counts of the items of ``model``, [items].
        k: how many neighbours; all where there are fewer.
        buckets: how many buckets of items.
        by: what makes neighbours near.
    """
    bucket = _item_buckets(counts, len(model.item_ids), buckets)
    place = match_ids(model.item_ids, reference.item_ids)
    common = np.flatnonzero(place >= 0)
    if len(common) < 2:
        raise DataError("the models have fewer than two items in common: nothing has a neighbour")
    bucket, every = bucket[common], np.arange(len(common))
    of_model = _restrict(model, common).similar_blocks(every, k, by)
    of_reference = _restrict(reference, place[common]).similar_blocks(every, k, by)
    shares = []
    for (ours, _), (theirs, _) in zip(of_model, of_reference, strict=True):
        # Places are -1 where factors are not finite: no item, and no item of the row before.
        row = (len(common) + 1) * np.arange(len(ours))[:, None]
        shared = np.isin(ours + row, theirs + row) & (ours >= 0)
        shares.append(shared.mean(axis=1))
    sums = np.bincount(bucket, weights=np.concatenate(shares), minlength=buckets)
    return tuple(_means(sums, np.bincount(bucket, minlength=buckets)).tolist())


def _item_buckets(counts: ArrayLike, items: int, buckets: int) -> Integers:
    buckets = whole("the number of buckets", buckets, at_least=1)
    sizes = np.asarray(counts)
    if sizes.shape != (items,) or sizes.dtype.kind not in "iuf" or not np.isfinite(sizes).all():
        raise ParameterError(f"counts must be {items} numbers, one for each item of the catalogue")
    return task_buckets(sizes, buckets)


def _labels_by_slice(labels: Interactions, bucket: Integers, buckets: int) -> Integers:
    """How many labels each user has among all items and in each bucket, [users, 1 + buckets]."""
    code = labels.user_of_row.astype(np.int64) * buckets + bucket[labels.by_user.other]
    by_bucket = np.bincount(code, minlength=labels.users * buckets).reshape(-1, buckets)
    return np.column_stack([by_bucket.sum(axis=1), by_bucket])


def _restrict(model: Recommender, places: Integers) -> Recommender:
    """The model of the items at these places only, in this order."""
    released = model.released
    return Recommender(
        replace(
            released,
            items=released.items[places],
            item_ids=released.item_ids[places],
            counts=None,
            titles=None,
        )
    )


def _means(sums: NDArray[Any], numbers: Integers) -> Array:
    """Sums over numbers, NaN where there are none."""
    means: Array = np.full(len(sums), np.nan)
    np.divide(sums, numbers, out=means, where=numbers > 0)
    return means
