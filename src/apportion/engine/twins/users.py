"""Users' vectors: the twin of native/users.cpp."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]

LONGEST = 2**15 - 1  # the norm of a row of 16-bit numbers is at most this
_MARGIN = 1e-9  # relative distance that clipped numbers keep from their bound
_VECTOR = 16  # numbers of a row come in whole vectors
_LOST = 1e-14  # a pivot smaller than this, times d, times the largest entry, is lost in rounding


def solve_users(
    start: Integers, item: Integers, label: Array, items: Array, ridge: Array, shared: Array
) -> Array:
    """For each user, argmin over v of sum (y - x . v)^2 + v' (shared + ridge I) v, [users, d].

    The sum is over the user's rows ``start[u]:start[u + 1]``; x are rows of ``items`` [items, d]. A
    direction that nothing determines is left out; without rows, or if all labels are zero, v is zero.
    """
    users, d = len(start) - 1, items.shape[1]
    vectors = np.zeros((users, d))
    for user in range(users):
        own = slice(int(start[user]), int(start[user + 1]))
        X, y = items[item[own]], label[own]
        if y.any():
            A = X.T @ X + shared
            A[np.diag_indices(d)] += ridge[user]
            vectors[user] = solve_semidefinite(A, X.T @ y)
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
        rest = v[p] - A[p, p + 1 :] @ v[p + 1 :]
        v[p] = rest / A[p, p] if A[p, p] else 0.0
    return v


def turned_items(items: Array, shared: Array) -> tuple[Array, Array, Array]:
    """Items in the directions in which ``shared`` is diagonal, its diagonal there, and these directions.

    What the compiled kernel asks for besides: of released values, by LAPACK. Shapes [items, d], [d] and
    [d, d], the last [0, 0] where nothing is shared.
    """
    d = items.shape[1]
    if not shared.any():
        return items, np.zeros(d), np.zeros((0, 0))
    eigenvalues, turn = np.linalg.eigh(shared)
    return np.ascontiguousarray(items @ turn), eigenvalues, np.ascontiguousarray(turn)


def short_rows(rows: Array, bound: float, *, stretch: bool = False) -> NDArray[np.int16]:
    """Rows [rows, d] as 16-bit whole numbers of norm at most 2^15 - 1, [rows, d in whole vectors].

    The unit is bound / (2^15 - 1). Rounding moves a row by at most sqrt(d) / 2 units, so rows are clipped
    (or stretched) to that much less than the bound before. A row that is not finite gives zeros. What a
    row gives follows from the row alone, to the bit.
    """
    count, d = rows.shape
    unit = bound / LONGEST
    limit = (bound - unit * math.sqrt(d) / 2) * (1 - _MARGIN)
    given = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
    largest = np.abs(given).max(axis=1, initial=0.0)
    safe = np.where(largest > 0.0, largest, 1.0)[:, None]
    # Squares are added as eight lanes do it, and the lanes by halves.
    lanes = np.zeros((count, -(-d // 8) * 8))
    lanes[:, :d] = given / safe
    squares = np.zeros((count, 8))
    for first in range(0, lanes.shape[1], 8):
        squares += lanes[:, first : first + 8] * lanes[:, first : first + 8]
    while squares.shape[1] > 1:
        squares = squares[:, : squares.shape[1] // 2] + squares[:, squares.shape[1] // 2 :]
    norm = np.sqrt(squares[:, 0])
    with np.errstate(over="ignore", divide="ignore"):
        change: NDArray[np.bool_] = np.logical_or(stretch, norm > limit / safe[:, 0])
        factor = limit / np.where(norm > 0.0, norm, 1.0)
    bounded = np.where(change[:, None], lanes[:, :d] * factor[:, None], given)
    short = np.zeros((count, -(-d // _VECTOR) * _VECTOR), dtype=np.int16)
    short[:, :d] = np.rint(bounded / unit)
    return short
