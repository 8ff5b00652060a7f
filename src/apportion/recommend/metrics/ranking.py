"""How good top-k lists are, overall and by popularity.

Users and items are taken block by block: scores of all users and items are never held at once. A metric of
one user's list has a file of its own (``recall``, ``ndcg``) and is listed in ``OF_USERS``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from apportion.checks import whole
from apportion.data import HeldOut, Interactions
from apportion.data.ids import Integers, match_ids
from apportion.errors import DataError
from apportion.recommend.metrics.buckets import item_buckets, means_of
from apportion.recommend.metrics.ndcg import ndcg
from apportion.recommend.metrics.recall import recall
from apportion.recommend.recommender import Recommender

OF_USERS = {"recall": recall, "ndcg": ndcg}


@dataclass(frozen=True)
class RankingMetrics:
    """Quality of top-k lists, overall and by bucket of items, tail first.

    Attributes
        k: the length of the lists.
        recall: Recall@k, hits over min(k, labels), mean over users with a label.
        ndcg: NDCG@k of binary relevance, mean over the same users.
        coverage: the share of the data's catalog that is in some user's list.
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
        counts: training counts of the items of the labels' catalog, [items].
        k: how many items are recommended.
        k_by_bucket: for each bucket, where the overall ranking is cut: rare items come later in it.
    """
    k = whole("k", k, at_least=1)
    k_by_bucket = tuple(whole("k_by_bucket", cut, at_least=1) for cut in k_by_bucket)
    labels, buckets = held.labels, len(k_by_bucket)
    if not np.array_equal(held.history.user_key, labels.user_key):
        raise DataError("the history and the labels must have the same users")
    bucket = item_buckets(counts, labels.items, buckets)
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
    seen = np.zeros(labels.items + 1, dtype=bool)  # the last is what -1 refers to: no item
    sums = {name: np.zeros(len(cuts)) for name in OF_USERS}
    for user, places, _ in model.recommend_blocks(held.history, max(cuts), users=held.users):
        ranked = item_of_place[places]
        seen[ranked[:, :k]] = True
        codes = user[:, None].astype(np.int64) * labels.items + ranked
        hit = (label_codes[np.searchsorted(label_codes, codes)] == codes) & (ranked >= 0)
        hit_bucket = np.where(hit, bucket[ranked], -1)
        for place, cut in enumerate(cuts):
            found = hit[:, :cut] if place == 0 else hit_bucket[:, :cut] == place - 1
            for name, metric in OF_USERS.items():
                sums[name][place] += metric(found, label_count[user, place], cut).sum()

    of_recall, of_ndcg = (means_of(sums[name], users) for name in ("recall", "ndcg"))
    covered = np.bincount(bucket, weights=seen[:-1], minlength=buckets)
    coverage = means_of(covered, np.bincount(bucket, minlength=buckets))
    return RankingMetrics(
        k=k,
        recall=float(of_recall[0]),
        ndcg=float(of_ndcg[0]),
        coverage=float(seen[:-1].mean()),
        k_by_bucket=k_by_bucket,
        recall_by_bucket=tuple(of_recall[1:].tolist()),
        ndcg_by_bucket=tuple(of_ndcg[1:].tolist()),
        coverage_by_bucket=tuple(coverage.tolist()),
    )


def _labels_by_slice(labels: Interactions, bucket: Integers, buckets: int) -> Integers:
    """How many labels each user has among all items and in each bucket, [users, 1 + buckets]."""
    code = labels.user_of_row.astype(np.int64) * buckets + bucket[labels.by_user.other]
    by_bucket = np.bincount(code, minlength=labels.users * buckets).reshape(-1, buckets)
    return np.column_stack([by_bucket.sum(axis=1), by_bucket])
