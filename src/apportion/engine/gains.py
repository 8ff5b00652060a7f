"""How much users' vectors help to predict ratings that they were not made from: each user for itself."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.data.rows import Rows
from apportion.engine.queries import FoldInGains
from apportion.privacy.bounds import row_sums

Array = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]

# Vectors, and products of rows, of so many bytes at a time.
_BLOCK_BYTES, _PRODUCT_BYTES = 64 * 2**20, 8 * 2**20


def fold_in_gains(solve: Callable[..., Array], chosen: Rows, query: FoldInGains) -> Array:
    """What users add to the query ``FoldInGains``, [users, systems], before it is bounded.

    Args:
        solve: solves users' vectors from start, item, label, items, ridge and shared.
        chosen: the users' rows.
        query: what is asked.
    """
    assert chosen.label is not None, "ratings"
    users, start, task = chosen.users, chosen.start, chosen.task
    rating = chosen.label.astype(np.float64)
    if query.intercepts is not None:
        rating -= query.intercepts[task]
    size = max(1, _BLOCK_BYTES // (8 * query.items.shape[1] * len(query.systems)))
    found = [np.zeros((0, len(query.systems)))]
    for first in range(0, users, size):
        own = start[first : min(first + size, users) + 1]
        rows = slice(int(own[0]), int(own[-1]))
        found.append(_of_block(solve, own - own[0], task[rows], rating[rows], query))
    return np.concatenate(found)


def _of_block(
    solve: Callable[..., Array], start: Integers, task: Integers, rating: Array, query: FoldInGains
) -> Array:
    count = np.diff(start)
    user = np.repeat(np.arange(len(count)), count)
    odd = (np.arange(len(user)) - start[:-1][user]) % 2 == 1
    shared = np.zeros((query.items.shape[1],) * 2)
    total = np.zeros((len(count), len(query.systems)))
    with np.errstate(all="ignore"):
        for known in (odd, ~odd):
            of_user = np.bincount(user[known], minlength=len(count))
            begin = np.concatenate([[0], np.cumsum(of_user)]).astype(np.int64)
            centers = query.centering.centers(begin, rating[known])
            label = rating[known] - centers[user[known]]
            item = np.ascontiguousarray(task[known], dtype=np.int32)
            others = user[~known]
            target = rating[~known] - centers[others]
            rows = begin, item, label, query.items
            vectors = [solve(*rows, system.ridge(of_user), shared) for system in query.systems]
            products = _products(vectors, others, query.items, task[~known])
            for place, predicted in enumerate(products):
                gain = predicted * (2 * target - predicted)
                total[:, place] += np.bincount(others, gain, minlength=len(count))
        return total / (query.unit * np.sqrt(np.maximum(count, 1)))[:, None]


def _products(vectors: list[Array], user: Integers, items: Array, item: Integers) -> Array:
    """u_i . v_j of every row for users' vectors of each kind, [kinds, rows].

    A row's depends on nothing else, to the bit.
    """
    d, kinds = items.shape[1], len(vectors)
    size = max(1, _PRODUCT_BYTES // (8 * d * kinds))
    found = np.zeros((kinds, len(user)))
    for first in range(0, len(user), size):
        rows = slice(first, first + size)
        of_row = items[item[rows]]
        products = np.empty((kinds, *of_row.shape))
        for place, each in enumerate(vectors):
            np.multiply(each[user[rows]], of_row, out=products[place])
        found[:, rows] = row_sums(products.reshape(-1, d)).reshape(kinds, -1)
    return found
