"""Solutions of many small positive definite systems, several at once, by Cholesky factors.

As in ``spectral``: one system in each lane of the vector registers, in float64, matrices as their upper
triangles, row by row.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from apportion.engine.cpu.gram import take_next
from apportion.engine.cpu.lanes import LANES, fill, load, root, select, spread, store, vectors
from apportion.engine.cpu.spectral import added_to, solve_filtered
from apportion.threads import side_by_side, threads_for

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_EPSILON = float(np.finfo(np.float64).eps)


def solve_positive(
    packed: Array,
    b: Array,
    alpha: Array,
    scale: Array | None = None,
    shared: Array | None = None,
) -> Array:
    """(A + alpha_i I)^-1 b for each positive semi-definite A, by Cholesky, [systems, d].

    Where a pivot is lost in rounding, directions without data are left out. A: see ``solve_filtered``.
    """
    packed, b = (np.ascontiguousarray(rows, dtype=np.float64) for rows in (packed, b))
    theta, failed = np.empty(b.shape), np.zeros(len(b))
    added, counter = added_to(packed, scale, shared), np.zeros(1, dtype=np.int64)
    side_by_side(
        lambda _: _positive(packed, *added, b, alpha, counter, theta, failed),
        range(threads_for(len(b) * b.shape[1] ** 3)),
    )
    some = np.flatnonzero(failed)
    if len(some):
        A = packed[some] + added[0][some, None] * added[1]
        theta[some] = solve_filtered(A, b[some], alpha[some], 0.0)
    return theta


@njit(cache=True)  # type: ignore[untyped-decorator]
def _cholesky(n: int, matrix: Array, vector: Array, failed: Array) -> None:
    """Solve in place for positive definite matrices; ``failed`` is one where a pivot was lost."""
    zero, one = spread(matrix, 0.0), spread(matrix, 1.0)
    top, at = zero, 0
    for k in range(n):
        here = load(matrix, at)
        top = select(top < here, here, top)
        at += n - k
    lost = top * spread(matrix, n * _EPSILON)
    flag = zero
    at = 0
    for k in range(n):
        pivot = load(matrix, at)
        good = lost < pivot
        flag = select(good, flag, one)
        inverse = one / root(select(good, pivot, one))
        store(matrix, at, inverse)
        solved = load(vector, k) * inverse
        store(vector, k, solved)
        for j in range(k + 1, n):
            u = load(matrix, at + j - k) * inverse
            store(matrix, at + j - k, u)
            store(vector, j, load(vector, j) - solved * u)
        below = at + n - k
        i = k + 1
        while i + 1 < n:  # two rows at a time
            u0, u1 = load(matrix, at + i - k), load(matrix, at + i + 1 - k)
            after = below + n - i
            store(matrix, below, load(matrix, below) - u0 * u0)
            store(matrix, below + 1, load(matrix, below + 1) - u0 * u1)
            store(matrix, after, load(matrix, after) - u1 * u1)
            for j in range(i + 2, n):
                u = load(matrix, at + j - k)
                store(matrix, below + j - i, load(matrix, below + j - i) - u0 * u)
                store(matrix, after + j - i - 1, load(matrix, after + j - i - 1) - u1 * u)
            below = after + n - i - 1
            i += 2
        if i < n:
            u = load(matrix, at + i - k)
            store(matrix, below, load(matrix, below) - u * u)
        at += n - k
    for k in range(n - 1, -1, -1):
        at -= n - k
        rest = load(vector, k)
        for j in range(k + 1, n):
            rest = rest - load(matrix, at + j - k) * load(vector, j)
        store(vector, k, rest * load(matrix, at))
    store(failed, 0, flag)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _positive(
    packed: Array,
    scale: Array,
    shared: Array,
    b: Array,
    alpha: Array,
    counter: Integers,
    theta: Array,
    failed: Array,
) -> None:
    systems, n = b.shape
    nothing = np.zeros(max(systems, n))
    matrix, vector = vectors(packed, packed.shape[1]), vectors(packed, n)
    of_matrix, of_vector, lost = vectors(packed, 1), vectors(packed, 1), vectors(packed, 1)
    while True:
        start = take_next(counter) * LANES
        if start >= systems:
            break
        fill(packed, scale, shared, start, matrix, of_matrix)
        fill(b, nothing, nothing, start, vector, of_vector)
        at = 0
        for k in range(n):
            for lane in range(LANES):
                shift = alpha[min(start + lane, systems - 1)]
                matrix[at * LANES + lane] += shift / of_matrix[lane]
            at += n - k
        _cholesky(n, matrix, vector, lost)
        for lane in range(min(LANES, systems - start)):
            failed[start + lane] = lost[lane]
            for k in range(n):
                value = vector[k * LANES + lane] * of_vector[lane]
                theta[start + lane, k] = value / of_matrix[lane]
