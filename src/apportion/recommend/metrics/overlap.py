"""Do two models agree on which items are alike?"""

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from apportion.data.ids import Integers, match_ids
from apportion.errors import DataError
from apportion.recommend.metrics.buckets import item_buckets, means_of
from apportion.recommend.recommender import Recommender


def neighbor_overlap(
    model: Recommender,
    reference: Recommender,
    counts: ArrayLike,
    k: int = 20,
    buckets: int = 5,
    by: Literal["dot", "cosine"] = "dot",
) -> tuple[float, ...]:
    """The share of an item's k nearest neighbors that the reference has too, mean by bucket, [buckets].

    An item is not its own neighbor. Only items that both models know count, as queries and as
    neighbors.

    Args:
        model, reference: the recommenders to compare.
        counts: training counts of the items of ``model``, [items].
        k: how many neighbors; all where there are fewer.
        buckets: how many buckets of items.
        by: what makes neighbors near.
    """
    bucket = item_buckets(counts, len(model.item_ids), buckets)
    place = match_ids(model.item_ids, reference.item_ids)
    common = np.flatnonzero(place >= 0)
    if len(common) < 2:
        raise DataError("the models have fewer than two items in common: nothing has a neighbor")
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
    return tuple(means_of(sums, np.bincount(bucket, minlength=buckets)).tolist())


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
