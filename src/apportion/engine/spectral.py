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

from apportion.engine.gram import take_next
from apportion.engine.lanes import (
    LANES,
    fill,
    lanes_in,
    largest,
    least,
    load,
    load_wide,
    root,
    select,
    size,
    spread,
    spread_wide,
    store,
    vectors,
)
from apportion.engine.threads import side_by_side, threads_for

Array = NDArray[np.float64]
# Of either precision.
Numbers = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]

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
def _update_and_multiply(
    n: int, k: int, matrix: Numbers, row: int, at: int, v: Numbers, w: Numbers, product: Numbers
) -> None:
    """Subtract v w' + w v' from rows k and on, and multiply what is left by a vector.

    The vector lies in the matrix, before the diagonal of row k, from ``row`` on. ``at`` is where row k
    begins. Both in one pass, two rows at a time: each entry is read and written once.
    """
    i = k
    while i + 1 < n:
        below = at + n - i  # where the next row begins
        v0, w0, u0 = load(v, i), load(w, i), load(matrix, row + i - k)
        v1, w1, u1 = load(v, i + 1), load(w, i + 1), load(matrix, row + i + 1 - k)
        a = load(matrix, at) - v0 * w0 - w0 * v0
        c = load(matrix, at + 1) - v0 * w1 - w0 * v1
        e = load(matrix, below) - v1 * w1 - w1 * v1
        store(matrix, at, a)
        store(matrix, at + 1, c)
        store(matrix, below, e)
        sum0 = load(product, i) + a * u0 + c * u1
        sum1 = load(product, i + 1) + c * u0 + e * u1
        for j in range(i + 2, n):
            vj, wj, uj = load(v, j), load(w, j), load(matrix, row + j - k)
            a = load(matrix, at + j - i) - v0 * wj - w0 * vj
            c = load(matrix, below + j - i - 1) - v1 * wj - w1 * vj
            store(matrix, at + j - i, a)
            store(matrix, below + j - i - 1, c)
            sum0 = sum0 + a * uj
            sum1 = sum1 + c * uj
            store(product, j, load(product, j) + a * u0 + c * u1)
        store(product, i, sum0)
        store(product, i + 1, sum1)
        at = below + n - i - 1
        i += 2
    if i < n:
        vi, wi, ui = load(v, i), load(w, i), load(matrix, row + i - k)
        a = load(matrix, at) - vi * wi - wi * vi
        store(matrix, at, a)
        store(product, i, load(product, i) + a * ui)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _tridiagonalise(
    n: int,
    matrix: Numbers,
    vector: Numbers,
    diagonal: Numbers,
    beside: Numbers,
    factor: Numbers,
    v: Numbers,
    w: Numbers,
    product: Numbers,
    smallest: float,
) -> None:
    """Reflections I - factor_k u u' that make the matrix tridiagonal; the vector is reflected as well.

    u is left in row k of the matrix, beside its diagonal.
    """
    zero, one = spread(matrix, 0.0), spread(matrix, 1.0)
    half, tiny = spread(matrix, 0.5), spread(matrix, smallest)
    for j in range(n):
        store(v, j, zero)
        store(w, j, zero)
        store(beside, j, zero)
    at = 0
    for k in range(n):
        # The rows from k on still lack the last reflection: - v w' - w v'.
        vk, wk = load(v, k), load(w, k)
        rest = zero
        for j in range(k, n):
            x = load(matrix, at + j - k) - vk * load(w, j) - wk * load(v, j)
            store(matrix, at + j - k, x)
            if j > k + 1:
                rest = rest + x * x
        store(diagonal, k, load(matrix, at))
        if k + 1 == n:
            return
        first = load(matrix, at + 1)
        reflected = tiny < rest
        length = root(first * first + rest)
        signed = select(first < zero, zero - length, length)
        scale = select(reflected, one / (length * (length + size(first))), zero)
        store(beside, k, select(reflected, zero - signed, first))
        store(factor, k, scale)
        store(matrix, at + 1, first + signed)
        along = zero
        for j in range(k + 1, n):
            along = along + load(matrix, at + j - k) * load(vector, j)
            store(product, j, zero)
        along = along * scale
        for j in range(k + 1, n):
            store(vector, j, load(vector, j) - along * load(matrix, at + j - k))
        _update_and_multiply(n, k + 1, matrix, at + 1, at + n - k, v, w, product)
        along = zero
        for j in range(k + 1, n):
            along = along + load(matrix, at + j - k) * load(product, j)
        along = along * scale * scale * half
        for j in range(k + 1, n):
            u = load(matrix, at + j - k)
            store(v, j, u)
            store(w, j, load(product, j) * scale - along * u)
        at += n - k


@njit(cache=True)  # type: ignore[untyped-decorator]
def _reflect_back(n: int, matrix: Numbers, factor: Numbers, vector: Numbers) -> None:
    at = n * (n + 1) // 2 - 1
    for k in range(n - 2, -1, -1):
        at -= n - k
        along = spread(matrix, 0.0)
        for j in range(k + 1, n):
            along = along + load(matrix, at + j - k) * load(vector, j)
        along = along * load(factor, k)
        for j in range(k + 1, n):
            store(vector, j, load(vector, j) - along * load(matrix, at + j - k))


@njit(cache=True)  # type: ignore[untyped-decorator]
def _diagonalise(
    n: int,
    diagonal: Numbers,
    beside: Numbers,
    vector: Numbers,
    rotations: Numbers,
    ranges: Integers,
    failed: Numbers,
    rounding: float,
    smallest: float,
) -> int:
    """Rotate until nothing is left beside the diagonal; the number of sweeps, which are noted.

    In every lane the first block that is not diagonal yet, rows ``low`` to ``high``, is swept from its
    end to its beginning with Wilkinson's shift; where a lane has nothing to do it turns by nothing.
    ``failed`` is set to one where as many sweeps as there is room for did not suffice.
    """
    zero, one, two = (
        spread_wide(diagonal, 0.0),
        spread_wide(diagonal, 1.0),
        spread_wide(diagonal, 2.0),
    )
    epsilon, tiny = spread_wide(diagonal, rounding), spread_wide(diagonal, smallest)
    beyond = spread_wide(diagonal, float(n))
    sweeps, used, begin = 0, 0, 0
    store(failed, 0, zero)
    while True:
        low, high = beyond, zero
        d_low = d_next = e_low = d_high = zero
        was_small = zero  # 0: nothing beside the row after this one
        above = load_wide(diagonal, n - 1)
        for i in range(n - 2, begin - 1, -1):
            here, e = load_wide(diagonal, i), load_wide(beside, i)
            # Small beside its neighbours, or beside the matrix, whose largest entry was one.
            big = epsilon * (size(here) + size(above)) < size(e)
            big = big & (epsilon < size(e) + size(e))
            store(beside, i, select(big, e, zero))  # so that it stays small, whatever follows
            ends = big & (was_small == zero)
            high = select(ends, spread_wide(diagonal, float(i + 1)), high)
            d_high = select(ends, above, d_high)
            low = select(big, spread_wide(diagonal, float(i)), low)
            d_low, d_next = select(big, here, d_low), select(big, above, d_next)
            e_low = select(big, e, e_low)
            was_small = select(big, one, zero)
            above = here
        begin, end = int(least(low)), int(largest(high))
        if begin >= n:
            return sweeps
        if sweeps == len(ranges):
            store(failed, 0, select(low < beyond, one, zero))
            return sweeps
        ranges[sweeps, 0], ranges[sweeps, 1] = begin, end
        sweeps += 1
        idle = low == beyond
        bend = (d_next - d_low) / select(idle, one, two * e_low)
        turn = root(bend * bend + one)
        g = d_high - d_low + e_low / (bend + select(bend < zero, zero - turn, turn))
        s, c, p = one, one, zero
        d_above, z_above = load_wide(diagonal, end), load_wide(vector, end)
        for i in range(end - 1, begin - 1, -1):
            place = spread_wide(diagonal, float(i))
            after = spread_wide(diagonal, float(i + 1))
            active = (low <= place) & (place < high)
            last = low == place
            d, e = load_wide(diagonal, i), load_wide(beside, i)
            f, h = s * e, c * e
            x = d_above - p
            # As much as possible is ready before the root and the quotient, which take longest.
            product, twice = (d - x) * f + two * g * h, h + h
            square = f * f + g * g
            turns = active & (tiny < square)
            r = root(square)
            inverse = r * (one / square)  # the quotient need not wait for the root
            s_new = select(turns, f * inverse, zero)
            c_new = select(turns, g * inverse, one)
            t = select(turns, product * inverse, twice)
            p_new = s_new * t
            g_new = c_new * t - h
            store(diagonal, i + 1, select(active, x + p_new, d_above))
            kept = select(after < high, r, zero)
            store(beside, i + 1, select(active, kept, load_wide(beside, i + 1)))
            d_above = select(last, d - p_new, d)
            store(beside, i, select(last, g_new, e))
            store(rotations, 2 * used, c_new)
            store(rotations, 2 * used + 1, s_new)
            used += 1
            z = load_wide(vector, i)
            store(vector, i + 1, s_new * z + c_new * z_above)
            z_above = c_new * z - s_new * z_above
            s, c = select(active, s_new, s), select(active, c_new, c)
            p, g = select(active, p_new, p), select(active, g_new, g)
        store(diagonal, begin, d_above)
        store(vector, begin, z_above)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _rotate_back(sweeps: int, rotations: Numbers, ranges: Integers, vector: Numbers) -> None:
    used = 0
    for sweep in range(sweeps):
        used += ranges[sweep, 1] - ranges[sweep, 0]
    for sweep in range(sweeps - 1, -1, -1):
        begin, end = ranges[sweep, 0], ranges[sweep, 1]
        z = load_wide(vector, begin)
        for i in range(begin, end):
            used -= 1
            c, s = load_wide(rotations, 2 * used), load_wide(rotations, 2 * used + 1)
            above = load_wide(vector, i + 1)
            store(vector, i, c * z + s * above)
            z = c * above - s * z
        store(vector, end, z)


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
            _tridiagonalise(
                n, matrix, own_vector, own_diagonal, own_beside, factor, v, w, product, tiny
            )
            for k in range(n):
                store(diagonal, 2 * k + half, load(own_diagonal, k))
                store(beside, 2 * k + half, load(own_beside, k))
                store(vector, 2 * k + half, load(own_vector, k))
        sweeps = _diagonalise(
            n, diagonal, beside, vector, rotations, ranges, unfinished, epsilon, tiny
        )
        _filter(n, diagonal, sizes, shift, bound, normal, vector, gain)
        _rotate_back(sweeps, rotations, ranges, vector)
        for half in range(2):
            first = half * lanes
            matrix = matrices[first * entries : (first + lanes) * entries]
            factor = factors[first * n : (first + lanes) * n]
            for k in range(n):
                store(own_vector, k, load(vector, 2 * k + half))
            _reflect_back(n, matrix, factor, own_vector)
            for lane in range(first, min(first + lanes, systems - start)):
                failed[start + lane] |= unfinished[lane] > 0
                for k in range(n):
                    value = own_vector[k * lanes + lane - first] * of_vector[lane]
                    theta[start + lane, k] = value * (gain[lane] / unit[lane])
