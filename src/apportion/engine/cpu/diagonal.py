"""Symmetric matrices made tridiagonal by reflections, and diagonal by rotations: one in each lane.

A vector is reflected and rotated with them, and back afterwards: so no eigenvectors are needed to multiply
it by a function of the matrix (``spectral``). Matrices are upper triangles, row by row, of vectors of numbers
(``lanes``), of either precision; lanes do not depend on each other.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from apportion.engine.cpu.lanes import (
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
)

# Of either precision.
Numbers = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]


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
def tridiagonalise(
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
def reflect_back(n: int, matrix: Numbers, factor: Numbers, vector: Numbers) -> None:
    """Undo to the vector what ``tridiagonalise`` did to it."""
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
def diagonalise(
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
def rotate_back(sweeps: int, rotations: Numbers, ranges: Integers, vector: Numbers) -> None:
    """Undo to the vector what ``diagonalise`` did to it."""
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
