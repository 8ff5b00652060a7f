"""How good top-k lists are, overall and by popularity.

Users and items are taken block by block: scores of all users and items are never held at once. A metric of
one user's list has a file of its own (``recall``, ``ndcg``) and is listed in ``OF_USERS``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.checks import whole
from apportion.data import HeldOut, Interactions
from apportion.data.ids import Integers, match_ids
from apportion.errors import DataError
from apportion.recommend.metrics.buckets import item_buckets, means_of
from apportion.recommend.metrics.hit_rate import hit_rate
from apportion.recommend.metrics.ndcg import ndcg
from apportion.recommend.metrics.novelty import surprise
from apportion.recommend.metrics.precision import precision
from apportion.recommend.metrics.recall import recall
from apportion.recommend.metrics.reciprocal_rank import reciprocal_rank
from apportion.recommend.metrics.rows import Array
from apportion.recommend.recommender import Recommender

OF_USERS = {
    "recall": recall,
    "ndcg": ndcg,
    "precision": precision,
    "hit_rate": hit_rate,
    "mrr": reciprocal_rank,
}
# Those that are taken by bucket, too.
_BY_BUCKET = ("recall", "ndcg")
K_BY_BUCKET = (100, 80, 60, 40, 20)


@dataclass(frozen=True)
class RankingMetrics:
    """Quality of top-k lists, overall and by bucket of items, tail first.

    Attributes
        k: the length of the lists.
        recall: Recall@k, hits over min(k, labels), mean over users with a label.
        ndcg: NDCG@k of binary relevance, mean over the same users; so are the next three.
        precision: hits over k.
        hit_rate: the share of users whose list has a hit.
        mrr: one over the rank of the first hit, 0 without one.
        novelty: bits of surprise at an item that is recommended, -log2 of its share of interactions.
        coverage: the share of the data's catalog that is in some user's list.
        k_by_bucket: how far down the ranking labels of each bucket are looked for.
        recall_by_bucket, ndcg_by_bucket: the same of labels in the bucket, mean over users with one.
        coverage_by_bucket: the share of the bucket's items that is in some user's list of length k.
    """

    k: int
    recall: float
    ndcg: float
    precision: float
    hit_rate: float
    mrr: float
    novelty: float
    coverage: float
    k_by_bucket: tuple[int, ...]
    recall_by_bucket: tuple[float, ...]
    ndcg_by_bucket: tuple[float, ...]
    coverage_by_bucket: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Judged:
    """The lists of users, judged one by one.

    Attributes
        sums: by metric, the sums over users, of all items and of each bucket, [1 + buckets] or [1].
        with_label: how many users have a label, of all items and of each bucket, [1 + buckets].
        novelty: the sum of what is known of it, and of how many users that is, [2].
        seen: whether each item is in some user's list, [items].
        of_user: by metric, that of every user's list; of users with a label, [users].

    Those of some users and of others add up to those of all, but for ``seen``, and ``of_user``.
    """

    sums: Mapping[str, Array]
    with_label: Integers
    novelty: Array
    seen: NDArray[np.bool_]
    of_user: Mapping[str, Array]

    def metrics(self, counts: ArrayLike, k: int, k_by_bucket: Sequence[int]) -> RankingMetrics:
        """The means; arguments as in ``ranking_metrics``."""
        if self.with_label[0] == 0:
            raise DataError(
                "no held-out user has a label: hold out users of at least two interactions"
            )
        means = {
            name: means_of(sums, self.with_label[: len(sums)]) for name, sums in self.sums.items()
        }
        bucket = item_buckets(counts, len(self.seen), len(k_by_bucket))
        covered = np.bincount(bucket, weights=self.seen, minlength=len(k_by_bucket))
        coverage = means_of(covered, np.bincount(bucket, minlength=len(k_by_bucket)))
        return RankingMetrics(
            k=k,
            novelty=float(means_of(self.novelty[:1], self.novelty[1:])[0]),
            coverage=float(self.seen.mean()),
            k_by_bucket=tuple(k_by_bucket),
            coverage_by_bucket=tuple(coverage.tolist()),
            **{name: float(mean[0]) for name, mean in means.items()},  # type: ignore[arg-type]
            **{f"{name}_by_bucket": tuple(means[name][1:].tolist()) for name in _BY_BUCKET},  # type: ignore[arg-type]
        )


def ranking_metrics(
    model: Recommender,
    held: HeldOut,
    counts: ArrayLike,
    k: int = 20,
    k_by_bucket: Sequence[int] = K_BY_BUCKET,
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
    return judge_lists(model, held, counts, k, k_by_bucket).metrics(counts, k, k_by_bucket)


def judge_lists(
    model: Recommender,
    held: HeldOut,
    counts: ArrayLike,
    k: int,
    k_by_bucket: Sequence[int],
) -> Judged:
    """What each user's list is worth; see ``ranking_metrics``."""
    labels, buckets = held.labels, len(k_by_bucket)
    if not np.array_equal(held.history.user_key, labels.user_key):
        raise DataError("the history and the labels must have the same users")
    bucket = item_buckets(counts, labels.items, buckets)
    # Slice 0 is all items, slice b + 1 is bucket b.
    cuts = (k, *k_by_bucket)
    label_count = _labels_by_slice(labels, bucket, buckets)
    judged = (
        label_count[held.users, 0] > 0
    )  # the others are recommended to, which counts for coverage
    # by_user is sorted by user, then item: so are these codes. One past all of them ends the search.
    label_codes = labels.user_of_row.astype(np.int64) * labels.items + labels.by_user.other
    label_codes = np.append(label_codes, labels.users * labels.items)
    item_of_place = np.append(match_ids(model.item_ids, labels.item_ids), -1)
    seen = np.zeros(labels.items + 1, dtype=bool)  # the last is what -1 refers to: no item
    bits = np.append(surprise(np.asarray(counts, dtype=np.float64)), 0.0)
    found = {name: [np.zeros((0, 1 + buckets * (name in _BY_BUCKET)))] for name in OF_USERS}
    novelty: list[Array] = [np.zeros(0)]
    for user, places, _ in model.recommend_blocks(held.history, max(cuts), users=held.users):
        ranked = item_of_place[places]
        seen[ranked[:, :k]] = True
        listed = ranked[:, :k]
        novelty.append(means_of(bits[listed].sum(axis=1), (listed >= 0).sum(axis=1)))
        codes = user[:, None].astype(np.int64) * labels.items + ranked
        hit = (label_codes[np.searchsorted(label_codes, codes)] == codes) & (ranked >= 0)
        hit_bucket = np.where(hit, bucket[ranked], -1)
        inside = [hit, *(hit_bucket == number for number in range(buckets))]
        slices = list(zip(range(len(cuts)), cuts, inside, strict=True))
        for name, metric in OF_USERS.items():
            columns = [
                metric(hits[:, :cut], label_count[user, place], cut)
                for place, cut, hits in (slices if name in _BY_BUCKET else slices[:1])
            ]
            found[name].append(np.column_stack(columns))

    values = {name: np.concatenate(blocks)[judged] for name, blocks in found.items()}
    with_label = np.count_nonzero(label_count[held.users], axis=0)
    of_user = {name: value[:, 0] for name, value in values.items()}
    of_user["novelty"] = np.concatenate(novelty)[judged]
    known = of_user["novelty"][np.isfinite(of_user["novelty"])]
    return Judged(
        sums={name: value.sum(axis=0) for name, value in values.items()},
        with_label=with_label,
        novelty=np.array([known.sum(), len(known)]),
        seen=seen[:-1],
        of_user=of_user,
    )


def _labels_by_slice(labels: Interactions, bucket: Integers, buckets: int) -> Integers:
    """How many labels each user has among all items and in each bucket, [users, 1 + buckets]."""
    code = labels.user_of_row.astype(np.int64) * buckets + bucket[labels.by_user.other]
    by_bucket = np.bincount(code, minlength=labels.users * buckets).reshape(-1, buckets)
    return np.column_stack([by_bucket.sum(axis=1), by_bucket])
