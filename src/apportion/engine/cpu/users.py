"""The vectors of all users, given the items: one small system of equations for each.

They are solved in float32, which is enough: a user's vector is the user's own, is bounded in float64
before anything is released, and what was released does not depend on how it was computed. Whoever's
system float32 cannot solve well is solved in float64 instead, by code that is plain and slow.

With the eigenvectors Q of what all users share, shared = Q S Q', and items turned by Q, a user's system is
(X'X + D) v = X'y with D = S + ridge diagonal, X being its rows [n, d]. With fewer rows than factors it is
smaller the other way round: v = D^-1/2 Z'a with (Z Z' + I) a = y and Z = X D^-1/2. But before either,
conjugate gradients (``conjugate``) are tried, to an error of 1e-5 of the vector or so: less than what is
lost where vectors become 16-bit numbers for a release.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from apportion.engine.cpu.conjugate import AHEAD, ROWS, VECTORS, add_rows, solve_by_steps
from apportion.engine.cpu.gram import (
    PANEL,
    TILE,
    add_row,
    add_upper,
    aligned,
    ask_for_row,
    cholesky,
    padded,
    put_row,
    put_turned,
    substitute,
    take_next,
)
from apportion.threads import side_by_side, threads_for

Array = NDArray[np.float64]
Singles = NDArray[np.float32]
Integers = NDArray[np.integer[Any]]

_LANES = 16
_AT_ONCE = 32  # users that a thread takes at a time
_WIDE = 32  # factors, from which on conjugate gradients are faster
_GATHERED = 2**17  # numbers in a user's rows that are gathered all at once: they fit into a cache
# A pivot so much smaller than its place on the diagonal was asks for a second look, ...
_DOUBTFUL = 30.0
# ... which must change the solution by no more than this: its error is then about the square of it.
_CHANGE = 1e-2
# Numbers within these bounds float32 holds to all its digits.
_LARGE, _SMALL = 1e30, 1e-30


def solve_users(
    start: Integers, item: Integers, label: Array, items: Array, ridge: Array, shared: Array
) -> Array:
    """See ``Engine.solve_users``."""
    users, dimension = len(start) - 1, items.shape[1]
    start = np.ascontiguousarray(start, dtype=np.int64)
    item = np.ascontiguousarray(item, dtype=np.int32)
    label, ridge, items, shared = (
        np.ascontiguousarray(each, dtype=np.float64) for each in (label, ridge, items, shared)
    )
    vectors = np.zeros((users, dimension))
    failed = np.ones(users, dtype=np.bool_)
    if np.isfinite(shared).all():
        eigenvalues, turned = np.zeros(dimension), items
        width = padded(dimension, np.float32)
        threads = threads_for((len(item) + users) * dimension**2)
        back = aligned((0, width), np.float32)
        if shared.any():
            eigenvalues, turn = np.linalg.eigh(shared)
            with np.errstate(all="ignore"):
                turned = items @ turn
            back = aligned((width, width), np.float32)
            back[:dimension, :dimension] = turn.T
        small = aligned((len(items) + 1, width), np.float32)  # the last is zero
        with np.errstate(over="ignore", invalid="ignore"):
            small[:-1, :dimension] = turned
        gathered = 0
        if width >= _WIDE:
            gathered = min(int(np.diff(start).max(initial=0)), _GATHERED // width)
        rows = max(3 * width + TILE + 2, gathered + ROWS + VECTORS)
        room = aligned((threads, rows * width), np.float32)
        counter = np.zeros(1, dtype=np.int64)
        kept = np.maximum(eigenvalues, 0.0)
        known = (start, item, label, small, ridge, kept, back, gathered)
        side_by_side(lambda own: _solve_quickly(*known, own, counter, vectors, failed), room)
    left = np.flatnonzero(failed)
    if len(left):
        vectors[left] = 0.0
        side_by_side(
            lambda some: _solve_exactly(some, start, item, label, items, ridge, shared, vectors),
            np.array_split(left, threads_for(len(left) * dimension**3)),
        )
    return vectors


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _solve_quickly(
    start: Integers,
    item: Integers,
    label: Array,
    items: Singles,
    ridge: Array,
    eigenvalues: Array,
    back: Singles,
    gathered: int,
    room: Singles,
    counter: Integers,
    vectors: Array,
    failed: NDArray[np.bool_],
) -> None:
    """Solve in float32, with whole vectors of ``items`` [items + 1, width]; say where it failed.

    Users of up to ``gathered`` rows are tried by conjugate gradients. Threads share the ``counter``, each
    has ``room`` of its own. Solutions are multiplied by ``back`` [width, width], unless it is empty.
    """
    users, dimension = vectors.shape
    least = eigenvalues.min() if dimension else 0.0
    answer = np.zeros((1, items.shape[1]), dtype=np.float32)
    turned = np.zeros((1, items.shape[1]), dtype=np.float32)
    diagonal = np.ones((1, items.shape[1]), dtype=np.float32)
    as_row = item.reshape((1, len(item))), label.reshape((1, len(label)))
    while True:
        block = take_next(counter) * _AT_ONCE
        if block >= users:
            break
        for user in range(block, min(block + _AT_ONCE, users)):
            first, stop = start[user], start[user + 1]
            row = first
            while row < stop and label[row] == 0.0:
                row += 1
            if row == stop:  # nothing to explain
                failed[user] = False
                continue
            smallest = ridge[user] + least
            order = -(-(stop - first) // _LANES) * _LANES
            rows = (item, label, items, first, stop)
            good = False
            if smallest > 0.0 and stop - first <= gathered:
                for k in range(dimension):
                    diagonal[0, k] = ridge[user] + eigenvalues[k]
                good = solve_by_steps(*as_row, items, first, stop, diagonal, room, answer)
            if not good and smallest > 0.0 and order < items.shape[1]:
                good = _solve_dual(*rows, ridge[user], eigenvalues, order, room, answer)
            if not good and (smallest > 0.0 or stop - first >= dimension):
                good = _solve_primal(*rows, ridge[user], eigenvalues, room, answer)
            size = np.float32(0.0)
            for k in range(dimension):
                size += abs(answer[0, k])
            failed[user] = not (good and size > _SMALL and size < _LARGE)
            # User by user and not as one product of matrices, the last digit of which may depend on
            # where a user is, and so on who else is there.
            turned[:] = 0.0
            for at in range(0, len(back), ROWS):
                add_rows(turned, back, at, answer)
            found = turned if len(back) else answer
            for k in range(dimension):
                vectors[user, k] = found[0, k]


@njit(cache=True)  # type: ignore[untyped-decorator]
def _solve_primal(
    item: Integers,
    label: Array,
    items: Singles,
    first: int,
    stop: int,
    ridge: float,
    eigenvalues: Array,
    room: Singles,
    b: Singles,
) -> bool:
    """Solve (X'X + D) v = X'y in place of b [1, width]; False if float32 is not enough.

    In doubt v is corrected once: the system is solved again for what v leaves unexplained, in float64.
    """
    width, dimension = items.shape[1], len(eigenvalues)
    total = room[: width * width].reshape((width, width))
    tile = room[width * width : width * (width + TILE)].reshape((TILE, width))
    total[:] = 0.0
    b[:] = 0.0
    for k in range(width):
        total[k, k] = ridge + eigenvalues[k] if k < dimension else 1.0
    for begin in range(first, stop, TILE):
        end = min(begin + TILE, stop)
        for row in range(begin, end):
            _ask_ahead(items, item, row)
            put_row(tile, row - begin, items, item[row], 1.0)
            add_row(b, 0, items, item[row], label[row])
        add_upper(tile, tile, end - begin, total)
    loss = _solve(total, b)
    if not _DOUBTFUL < loss < np.inf:
        return bool(loss <= _DOUBTFUL)
    left = np.zeros(width)
    for row in range(first, stop):
        x = items[item[row]]
        error = label[row]
        for k in range(dimension):
            error -= np.float64(x[k]) * b[0, k]
        for k in range(dimension):
            left[k] += error * x[k]
    change = np.zeros((1, width), dtype=np.float32)
    for k in range(dimension):
        change[0, k] = left[k] - (ridge + eigenvalues[k]) * b[0, k]
    substitute(total, change)
    size, changed = 0.0, 0.0
    for k in range(dimension):
        b[0, k] += change[0, k]
        size += abs(b[0, k])
        changed += abs(change[0, k])
    return changed <= _CHANGE * size


@njit(cache=True)  # type: ignore[untyped-decorator]
def _solve_dual(
    item: Integers,
    label: Array,
    items: Singles,
    first: int,
    stop: int,
    ridge: float,
    eigenvalues: Array,
    order: int,
    room: Singles,
    v: Singles,
) -> bool:
    """Make v [1, width] of the solution a of (Z Z' + I) a = y; False if float32 is not enough.

    ``order`` is the number of rows, in whole vectors.
    """
    width, dimension = items.shape[1], len(eigenvalues)
    total = room[: order * order].reshape((order, order))
    turned = room[width * width : width * (width + order)].reshape((width, order))
    tile = room[2 * width * width : width * (2 * width + order)].reshape((order, width))
    rest = room[3 * width * width :]
    scale, a = rest[:width].reshape((1, width)), rest[width : width + order].reshape((1, order))
    for k in range(width):
        scale[0, k] = 1.0 / np.sqrt(ridge + eigenvalues[k]) if k < dimension else 0.0
    total[:] = 0.0
    for p in range(order):
        total[p, p] = 1.0
        a[0, p] = label[first + p] if first + p < stop else 0.0
    for p in range(stop - first):
        _ask_ahead(items, item, first + p)
        put_row(tile, p, items, item[first + p], 1.0)
    tile[stop - first :] = 0.0
    for p in range(0, order, _LANES):
        for k in range(0, width, _LANES):
            put_turned(turned, k, tile, p, scale)
    add_upper(turned, turned, width, total)
    if not _solve(total, a) <= _DOUBTFUL:
        return False
    v[:] = 0.0
    for p in range(stop - first):
        add_row(v, 0, items, item[first + p], a[0, p])
    for k in range(width):
        v[0, k] *= scale[0, k] * scale[0, k]
    return True


@njit(cache=True)  # type: ignore[untyped-decorator]
def _ask_ahead(items: Singles, item: Integers, row: int) -> None:
    if row + AHEAD < len(item):  # also of the next user
        ask_for_row(items, item[row + AHEAD])


@njit(cache=True)  # type: ignore[untyped-decorator]
def _solve(A: Singles, b: Singles) -> float:
    """Solve A x = b in place, A being an upper triangle; how much the worst pivot lost, or infinity."""
    diagonal = np.empty(len(A), dtype=np.float32)
    for k in range(len(A)):
        diagonal[k] = A[k, k]
        if not diagonal[k] > _SMALL:
            return np.inf
    if not cholesky(A, np.empty((PANEL, PANEL), dtype=np.float32)) > 0.0:
        return np.inf
    worst = np.float32(0.0)
    for k in range(len(A)):
        # A[k, k] is now one over the square root of a pivot.
        worst = max(worst, A[k, k] * A[k, k] * diagonal[k])
    substitute(A, b)
    return float(worst)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _solve_exactly(
    users: Integers,
    start: Integers,
    item: Integers,
    label: Array,
    items: Array,
    ridge: Array,
    shared: Array,
    vectors: Array,
) -> None:
    """Solve for these users, in float64."""
    dimension = items.shape[1]
    for user in users:
        A, v = shared.copy(), vectors[user]
        for p in range(dimension):
            A[p, p] += ridge[user]
        for row in range(start[user], start[user + 1]):
            x = items[item[row]]
            for p in range(dimension):
                v[p] += label[row] * x[p]
                for q in range(p, dimension):
                    A[p, q] += x[p] * x[q]
        if start[user] < start[user + 1]:
            _solve_in_place(A, v)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _solve_in_place(matrix: Array, vector: Array) -> None:
    """Solve for a positive semi-definite matrix (its upper triangle) by Cholesky, row by row.

    A direction whose pivot is lost in rounding gets zero.
    """
    dimension = len(vector)
    largest = 0.0
    for p in range(dimension):
        largest = max(largest, matrix[p, p])
    least = 1e-14 * dimension * largest
    for p in range(dimension):
        row = matrix[p]
        if row[p] <= least:
            row[p:] = 0.0
            vector[p] = 0.0
            continue
        pivot = 1.0 / np.sqrt(row[p])
        for q in range(p, dimension):
            row[q] *= pivot
        vector[p] *= pivot
        for q in range(p + 1, dimension):
            factor = row[q]
            below = matrix[q]
            for r in range(q, dimension):
                below[r] -= factor * row[r]
            vector[q] -= factor * vector[p]
    for p in range(dimension - 1, -1, -1):
        if matrix[p, p] == 0.0:
            vector[p] = 0.0
            continue
        rest = vector[p]
        for q in range(p + 1, dimension):
            rest -= matrix[p, q] * vector[q]
        vector[p] = rest / matrix[p, p]
