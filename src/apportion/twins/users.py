"""Users' vectors: the twin of native/users.cpp."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.privacy import bounds

Array = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]

_VECTOR = 16  # numbers of a row come in whole vectors
_LOST = 1e-14  # a pivot smaller than this, times d, times the largest entry, is lost in rounding


def solve_users(
    start: Integers, item: Integers, label: Array, items: Array, ridge: Array, shared: Array
) -> Array:
    """For each user, argmin over v of sum (y - x . v)^2 + v' (shared + ridge I) v, [users, d].

    The sum is over the user's rows ``start[u]:start[u + 1]``; x are rows of ``items`` [items, d]. A
    direction that nothing determines is left out; without rows, or if all labels are zero, v is zero.

    A library's product of matrices might round by where the rows lie in memory, and so by who else is there.
    """
    users, d = len(start) - 1, items.shape[1]
    vectors = np.zeros((users, d))
    for user in range(users):
        own = slice(int(start[user]), int(start[user + 1]))
        X, y = items[item[own]], label[own]
        if y.any():
            A = shared + [(X[:, k, None] * X).sum(axis=0) for k in range(d)]
            A[np.diag_indices(d)] += ridge[user]
            vectors[user] = solve_semidefinite(A, (y[:, None] * X).sum(axis=0))
    return vectors


def solve_semidefinite(A: Array, b: Array) -> Array:
    """A^-1 b for a positive semi-definite A [d, d], zero where a pivot is lost in rounding, [d]."""
    A, v, d = A.copy(), b.copy(), len(b)
    least = _LOST * d * max(0.0, float(A.diagonal().max(initial=0.0)))
    for p in range(d):
        if not A[p, p] > least:
            A[p, p:] = 0.0
            v[p] = 0.0
            continue
        pivot = 1.0 / math.sqrt(A[p, p])
        A[p, p:] *= pivot
        v[p] *= pivot
        A[p + 1 :, p + 1 :] -= np.outer(A[p, p + 1 :], A[p, p + 1 :])
        v[p + 1 :] -= A[p, p + 1 :] * v[p]
    for p in reversed(range(d)):
        v[p] = v[p] / A[p, p] if A[p, p] else 0.0
        v[:p] -= A[:p, p] * v[p]
    return v


def short_rows(rows: Array, bound: float, *, stretch: bool = False) -> NDArray[np.int16]:
    """As ``privacy.bounds.short_rows``, with zeros up to whole vectors, [rows, d in whole vectors]."""
    count, d = rows.shape
    short = np.zeros((count, -(-d // _VECTOR) * _VECTOR), dtype=np.int16)
    short[:, :d], _ = bounds.short_rows(rows, bound, stretch=stretch)
    return short
