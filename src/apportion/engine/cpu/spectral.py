"""Solutions of many small symmetric systems, several at once, one in each lane of the vector registers.

How
    A lane does the same arithmetic whatever its neighbours are, so the solution of a system does not
    depend on which others it is solved with, nor on the number of threads.

    Rounding matters where it is not small beside the ridge. Where it is, which is usual for noisy systems,
    numbers are float32, of which a register holds twice as many; elsewhere they are float64. Which of both
    is decided for each system by itself.

    A function of a symmetric matrix times a vector needs no eigenvectors: reflections make the matrix
    tridiagonal and rotations (implicit QL) make it diagonal. Both are applied to the vector as they come,
    its entries are multiplied by the function of the eigenvalues, and both are taken back in reverse.

    Matrices are symmetric and come as their upper triangles, row by row: [systems, d (d + 1) / 2].
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from apportion.engine.cpu.diagonal import (
    Integers,
    Numbers,
    diagonalise,
    reflect_back,
    rotate_back,
    tridiagonalise,
)
from apportion.engine.cpu.gram import take_next
from apportion.engine.cpu.lanes import (
    LANES,
    fill,
    lanes_in,
    load,
    load_wide,
    root,
    select,
    spread,
    spread_wide,
    store,
    vectors,
)
from apportion.threads import side_by_side, threads_for

Array = NDArray[np.float64]

_EPSILON = float(np.finfo(np.float64).eps)
# Nothing is divided by a number smaller than this.
_NORMAL = float(np.finfo(np.float64).tiny) * (1 + 2.0**-20)
# Systems are solved in float32 if the norm of A is at most so many times the ridge: rounding is then as if A
# were different by about 2^-24 |A|, or 2^-15 of the ridge. Of millions of systems near this limit none had a
# solution that was wrong by more than 2^-12 |b| / ridge.
_SINGLE = 512.0
# A ridge so many times larger than A and alpha leaves too little that float32 could hold.
_OUTWEIGHED = 1e30
# Sweeps of QL allowed for each dimension; 2.3 are usual.
_SWEEPS = 6


def solve_filtered(
    packed: Array,
    b: Array,
    alpha: Array,
    ridge: float,
    scale: Array | None = None,
    shared: Array | None = None,
) -> Array:
    """argmin |(A+ + alpha_i I) theta - b|^2 + ridge^2 |theta|^2 for each system, [systems, d].

    A+ is the projection of A on the positive semi-definite matrices. With A = V diag(l) V' this is V f(l)
    V' b, f(l) = v / (v^2 + ridge^2), v = max(l, 0) + alpha_i. Directions in which v is lost in the rounding
    of the largest are left out. A is the packed matrix plus scale_i times the shared one (packed), if there
    is one.
    """
    packed, b = (np.ascontiguousarray(rows, dtype=np.float64) for rows in (packed, b))
    scale, shared = added_to(packed, scale, shared)
    theta, left = np.empty(b.shape), np.arange(len(b))
    for kind, sizes in ((np.float32, (_SINGLE, 1 / _OUTWEIGHED)), (np.float64, (np.inf, 0.0))):
        if len(left) and (ridge > 0 or kind is np.float64):
            columns = packed, scale, b, alpha
            some = columns if len(left) == len(b) else [column[left] for column in columns]
            theta[left], failed = _in_lanes(kind, sizes, ridge, shared, *some)
            left = left[failed]
    for system in left:
        A = packed[system] + scale[system] * shared
        theta[system] = _by_eigenvectors(A, b[system], alpha[system], ridge)
    return theta


def added_to(packed: Array, scale: Array | None, shared: Array | None) -> tuple[Array, Array]:
    """What is added to each matrix, a multiple of the shared one: nothing, if there is none."""
    if scale is None or shared is None:
        return np.zeros(len(packed)), np.zeros(packed.shape[1])
    return scale, shared


def _in_lanes(
    kind: type[np.floating[Any]],
    sizes: tuple[float, float],
    ridge: float,
    shared: Array,
    packed: Array,
    scale: Array,
    b: Array,
    alpha: Array,
) -> tuple[Array, NDArray[np.bool_]]:
    """The solutions in one precision, and those systems [systems] that are not solved by it.

    ``sizes`` are the most and the least that A may be, as multiples of the ridge.
    """
    theta, failed = np.empty(b.shape), np.zeros(len(b), dtype=np.bool_)
    like, counter = np.empty(0, dtype=kind), np.zeros(1, dtype=np.int64)
    epsilon = float(np.finfo(kind).eps)
    # Squares below this are rounded coarsely or to zero. Matrices are scaled to a largest entry of one
    # before anything is squared, so what is dropped on its account is far below rounding.
    tiny = float(np.finfo(kind).tiny) / epsilon**2
    limits, sweeps = (epsilon, tiny, *sizes), _SWEEPS * (b.shape[1] + 4)
    side_by_side(
        lambda _: _filtered(
            packed,
            scale,
            shared,
            b,
            alpha,
            float(ridge),
            limits,
            sweeps,
            like,
            counter,
            theta,
            failed,
        ),
        range(threads_for(len(b) * b.shape[1] ** 3)),
    )
    return theta, failed


def _by_eigenvectors(packed: Array, b: Array, alpha: float, ridge: float) -> Array:
    """What ``solve_filtered`` computes, for one system, by LAPACK: slower, but it always converges."""
    d = len(b)
    A = np.zeros((d, d))
    A[np.triu_indices(d)] = packed
    values, vectors = np.linalg.eigh(A, UPLO="U")
    values = np.maximum(values, 0.0) + alpha
    known = values > d * _EPSILON * values.max()
    values[~known] = 1.0
    return np.asarray(vectors @ (known * (vectors.T @ b) / (values + ridge * (ridge / values))))


@njit(cache=True)  # type: ignore[untyped-decorator]
def _filter(
    n: int,
    diagonal: Numbers,
    sizes: Numbers,
    alpha: Numbers,
    ridge: Numbers,
    normal: Numbers,
    vector: Numbers,
    gain: Numbers,
) -> None:
    """Multiply by f of the eigenvalues, relative to the largest f, which becomes the ``gain``."""
    zero, one = spread_wide(diagonal, 0.0), spread_wide(diagonal, 1.0)
    scale, shift, bound = load_wide(sizes, 0), load_wide(alpha, 0), load_wide(ridge, 0)
    top = zero
    for i in range(n):
        value = load_wide(diagonal, i) * scale
        value = select(value < zero, zero, value) + shift
        top = select(top < value, value, top)
        store(diagonal, i, value)
    # In float32 too: there the ridge is above what rounding leaves.
    least_known, smallest = spread_wide(diagonal, n * _EPSILON) * top, load_wide(normal, 0)
    most = zero
    for i in range(n):
        value = load_wide(diagonal, i)
        known = (least_known < value) & (smallest < value)
        # No square, which might be too large or too small a number.
        factor = select(known, one / (value + bound * (bound / value)), zero)
        most = select(most < factor, factor, most)
        store(diagonal, i, factor)
    inverse = select(zero < most, one / most, zero)
    for i in range(n):
        store(vector, i, load_wide(vector, i) * (load_wide(diagonal, i) * inverse))
    store(gain, 0, most)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _put_part(eight: Array, part: int, ready: Numbers) -> None:
    """Vectors of eight numbers of 64 bits become a part of those of the precision that is used."""
    lanes = lanes_in(ready)
    for entry in range(len(eight) // LANES):
        for lane in range(LANES):
            ready[entry * lanes + part * LANES + lane] = eight[entry * LANES + lane]


@njit(cache=True)  # type: ignore[untyped-decorator]
def _bound_norms(matrix: Numbers, norms: Numbers) -> None:
    """Norms of symmetric matrices, or up to sqrt(2) times as much, from their upper triangles."""
    total = spread(matrix, 0.0)
    for entry in range(len(matrix) // lanes_in(matrix)):
        x = load(matrix, entry)
        total = total + x * x
    store(norms, 0, root(total + total))


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _filtered(
    packed: Array,
    scale: Array,
    shared: Array,
    b: Array,
    alpha: Array,
    ridge: float,
    limits: tuple[float, float, float, float],
    most_sweeps: int,
    like: Numbers,
    counter: Integers,
    theta: Array,
    failed: NDArray[np.bool_],
) -> None:
    epsilon, tiny, most, least_size = limits
    systems, n = b.shape
    entries, lanes = packed.shape[1], lanes_in(like)
    nothing = np.zeros(max(systems, n))
    whole, whole_vector = vectors(packed, entries), vectors(packed, n)
    matrices, factors = vectors(like, 2 * entries), vectors(like, 2 * n)
    own_diagonal, own_beside, own_vector = vectors(like, n), vectors(like, n), vectors(like, n)
    product, v, w = vectors(like, n), vectors(like, n), vectors(like, n)
    diagonal, beside, vector = vectors(like, 2 * n), vectors(like, 2 * n), vectors(like, 2 * n)
    ranges = np.empty((most_sweeps, 2), dtype=np.int64)
    rotations = vectors(like, 4 * n * len(ranges))  # room that is not used takes no memory
    of_matrix, of_vector, unit = np.empty((3, 2 * lanes))
    sizes, shift = vectors(like, 2), vectors(like, 2)
    bound, normal = vectors(like, 2), vectors(like, 2)
    norms, gain, unfinished = vectors(like, 2), vectors(like, 2), vectors(like, 2)
    while True:
        start = take_next(counter) * 2 * lanes
        if start >= systems:
            break
        for half in range(2):
            first = half * lanes
            matrix = matrices[first * entries : (first + lanes) * entries]
            for part in range(lanes // LANES):
                lane = first + part * LANES
                fill(packed, scale, shared, start + lane, whole, of_matrix[lane:])
                _put_part(whole, part, matrix)
            _bound_norms(matrix, norms[first:])
        solvable = False
        for lane in range(2 * lanes):
            system = min(start + lane, systems - 1)
            # Everything relative to the largest, so that none is too large a number.
            unit[lane] = max(of_matrix[lane], alpha[system], ridge)
            sizes[lane] = of_matrix[lane] / unit[lane]
            shift[lane], bound[lane] = alpha[system] / unit[lane], ridge / unit[lane]
            normal[lane] = max(tiny * epsilon**2, _NORMAL / unit[lane])
            failed[system] = (
                norms[lane] * of_matrix[lane] > most * ridge
                or max(of_matrix[lane], alpha[system]) < least_size * ridge
            )
            solvable |= not failed[system]
        if not solvable:
            continue
        for half in range(2):
            first = half * lanes
            matrix = matrices[first * entries : (first + lanes) * entries]
            factor = factors[first * n : (first + lanes) * n]
            for part in range(lanes // LANES):
                lane = first + part * LANES
                fill(b, nothing, nothing, start + lane, whole_vector, of_vector[lane:])
                _put_part(whole_vector, part, own_vector)
            tridiagonalise(
                n, matrix, own_vector, own_diagonal, own_beside, factor, v, w, product, tiny
            )
            for k in range(n):
                store(diagonal, 2 * k + half, load(own_diagonal, k))
                store(beside, 2 * k + half, load(own_beside, k))
                store(vector, 2 * k + half, load(own_vector, k))
        sweeps = diagonalise(
            n, diagonal, beside, vector, rotations, ranges, unfinished, epsilon, tiny
        )
        _filter(n, diagonal, sizes, shift, bound, normal, vector, gain)
        rotate_back(sweeps, rotations, ranges, vector)
        for half in range(2):
            first = half * lanes
            matrix = matrices[first * entries : (first + lanes) * entries]
            factor = factors[first * n : (first + lanes) * n]
            for k in range(n):
                store(own_vector, k, load(vector, 2 * k + half))
            reflect_back(n, matrix, factor, own_vector)
            for lane in range(first, min(first + lanes, systems - start)):
                failed[start + lane] |= unfinished[lane] > 0
                for k in range(n):
                    value = own_vector[k * lanes + lane - first] * of_vector[lane]
                    theta[start + lane, k] = value * (gain[lane] / unit[lane])
