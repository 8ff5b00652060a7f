"""Sums over the rows of each task: what is released.

Where there is noise, sums are exact: every row is brought to whole multiples of a grid, and these are
added up. The result depends neither on the order of rows nor on threads, and leaving out a user changes it
by the user's part and nothing else. Where there is none, float64 numbers are added, task by task, in the
order of the rows.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from apportion.engine.cpu.gram import (
    add_row,
    add_upper,
    aligned,
    ask_for_row,
    padded,
    put_row,
    take_next,
)
from apportion.engine.cpu.shorts import LANES, add_products, add_truncated, put_pair
from apportion.threads import side_by_side, threads_for

Array = NDArray[np.float64]
Shorts = NDArray[np.int16]
Integers = NDArray[np.integer[Any]]

LONGEST = 2**15 - 1  # the norm of a short vector

_TILE = 32  # rows, or pairs of short ones
_AHEAD = 16  # rows that are asked for before they are needed
_PIECE = 2**15  # rows of a task that are summed by one thread
_NEAR = 2**22  # bytes of features that stay in a cache shared with others
_ROOM = 2.0**31 - 2.0**16  # what 32-bit numbers hold, with some to spare
_BEYOND = 2.0**60  # a factor of this size belongs to features that are all zero


def statistics(
    features: Any,
    d: int,
    unit: float,
    feature_row: Integers,
    label: Array,
    share: Array,
    weight: Array,
    start: Integers,
    grids: tuple[float, float] | None,
) -> tuple[Array, Array]:
    """See ``Engine.statistics``; a task's rows are start[i] : start[i + 1].

    Features may have more columns than d, if these are zero.
    """
    tasks = len(start) - 1
    # Long tasks in pieces, so that they can be shared out; their number depends on nothing but the task.
    pieces = np.maximum(1, -(-np.diff(start) // _PIECE))
    task = np.repeat(np.arange(tasks), pieces)
    number = np.arange(len(task)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    first = start[task] + _PIECE * number
    stop = np.minimum(first + _PIECE, start[task + 1])
    # The longest first: none must be left for the end.
    order = np.argsort(first - stop, kind="stable")
    # The first piece of a task is summed where the task's sums belong, later ones below all tasks.
    target = np.where(number == 0, task, tasks - 1 + np.cumsum(number > 0))
    second, moments = np.empty((len(task), d * (d + 1) // 2)), np.zeros((len(task), d))
    counter = np.zeros(1, dtype=np.int64)
    threads = threads_for((int(start[-1] - start[0]) + tasks) * d**2)
    examples = (feature_row, label, share, weight)
    places = (first, stop, target, order, counter)
    if grids is None:
        width = padded(d, np.float64)
        room = aligned((threads, width * (width + 2 * _TILE + 1)), np.float64)
        side_by_side(
            lambda own: _statistics(features, *examples, *places, own, second, moments), room
        )
    else:
        short = whole_vectors(features)
        width = short.shape[1]
        words = aligned((threads, width * (width + _TILE)), np.int32)
        room = aligned((threads, width * (width + 1)), np.float64)
        scale = LONGEST * unit / np.sqrt(grids[0]), np.sqrt(d) / 2, unit / grids[1]
        side_by_side(
            lambda own_words, own: _short_statistics(
                short, *examples, *places, *scale, *grids, own_words, own, second, moments
            ),
            words,
            room,
        )
    for later in np.flatnonzero(number):  # in order
        second[task[later]] += second[target[later]]
        moments[task[later]] += moments[target[later]]
    return second[:tasks], moments[:tasks]


def whole_vectors(features: Shorts) -> Shorts:
    """Features with zeros up to whole vectors."""
    if features.shape[1] % LANES == 0:
        return features
    return np.pad(features, ((0, 0), (0, -features.shape[1] % LANES)))


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _short_statistics(
    features: Shorts,
    feature_row: Integers,
    label: Array,
    share: Array,
    weight: Array,
    first: Integers,
    stop: Integers,
    target: Integers,
    order: Integers,
    counter: Integers,
    longest: float,
    slack: float,
    to_grid: float,
    grid: float,
    grid_of_b: float,
    words: NDArray[np.int32],
    room: Array,
    second: Array,
    moments: Array,
) -> None:
    """Sums over the rows first[i] : stop[i], for each i in this order, to be found at target[i].

    A row x of weight w, of norm at most LONGEST, gives z z' with z = round(f x), f being such that
    |f x| <= r - slack with r = sqrt(w) * longest. Rounding moves a vector by at most slack = sqrt(d) / 2, so
    |z z'| <= r^2. This is a row whose weight is ((r - slack) / longest)^2, up to rounding; with this weight
    it is in b, too.
    """
    d, width = moments.shape[1], features.shape[1]
    per_square = to_grid / longest / longest
    square = width * width
    total = words[:square].reshape((width, width))
    tile = words[square:].reshape((_TILE, width))
    large = room[:square].reshape((width, width))
    b = room[square:].reshape((1, width))
    lengths = np.empty(2 * _TILE + 1)
    users = np.empty((1, 2 * _TILE), dtype=np.int32)
    factors = np.empty((1, 2 * _TILE), dtype=np.float32)
    while True:
        place = take_next(counter)
        if place >= len(order):
            break
        piece = order[place]
        end = stop[piece]
        total[:] = 0
        b[:] = 0.0
        held, moved = 0.0, False  # no number of total is larger than what is held
        row = first[piece]
        while row < end:
            rows = min(2 * _TILE, end - row)
            gathered = _lengths(weight, row, rows, longest, lengths)
            while gathered > _ROOM and rows > 2:  # two always fit: no weight is above one
                rows = max(2, rows // 4 * 2)
                gathered = _lengths(weight, row, rows, longest, lengths)
            for at in range(0, rows, 2):
                for ahead in range(row + at + _AHEAD, min(row + at + _AHEAD + 2, end)):
                    ask_for_row(features, feature_row[ahead])
                r, s = max(lengths[at] - slack, 0.0), max(lengths[at + 1] - slack, 0.0)
                # The last row of all may have no other: any will do, times zero.
                x, other = feature_row[row + at], min(row + at + 1, end - 1)
                y = feature_row[other]
                f, g = np.float32(r * (1.0 / LONGEST)), np.float32(s * (1.0 / LONGEST))
                put_pair(tile, at // 2, features, x, f, y, g)
                users[0, at], users[0, at + 1] = x, y
                factors[0, at] = _within(r * r * (label[row + at] * share[x]) * per_square)
                factors[0, at + 1] = _within(s * s * (label[other] * share[y]) * per_square)
            _add_labels(b, 0, features, users, factors, rows)
            if held + gathered > _ROOM:
                _move(total, large, moved)
                held, moved = 0.0, True
            add_products(tile, (rows + 1) // 2, total)
            held += gathered
            row += rows
        if moved:
            _move(total, large, moved)
        entry = 0
        for p in range(d):
            moments[target[piece], p] = b[0, p] * grid_of_b
            packed = second[target[piece], entry : entry + d - p]
            if moved:
                for q in range(p, d):
                    packed[q - p] = large[p, q] * grid
            else:
                for q in range(p, d):
                    packed[q - p] = total[p, q] * grid
            entry += d - p


@njit(cache=True)  # type: ignore[untyped-decorator]
def _lengths(weight: Array, first: int, rows: int, longest: float, lengths: Array) -> float:
    """sqrt(w) * longest of the rows, and a zero; returns no less than what their z z' add up to."""
    gathered = 0.0
    for at in range(rows):
        lengths[at] = np.sqrt(weight[first + at]) * longest
        gathered += lengths[at] * lengths[at]
    lengths[rows] = 0.0
    return gathered * (1.0 + 2.0**-20) + rows


@njit(cache=True)  # type: ignore[untyped-decorator]
def _within(factor: float) -> float:
    return factor if abs(factor) < _BEYOND else 0.0


@njit(cache=True)  # type: ignore[untyped-decorator]
def _add_labels(
    b: Array,
    at: int,
    features: Shorts,
    users: NDArray[np.int32],
    factors: NDArray[np.float32],
    count: int,
) -> None:
    """Add factor * x of so many users to b[at], rounded towards zero: no norm becomes larger.

    As many at once as 32 bits hold the sum of for certain.
    """
    first, held = 0, 0.0
    for row in range(count):
        size = abs(factors[0, row]) * LONGEST
        if held + size > _ROOM and row > first:
            add_truncated(b, at, features, users, factors, first, row)
            first, held = row, 0.0
        held += size
    add_truncated(b, at, features, users, factors, first, count)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _move(total: NDArray[np.int32], large: Array, add: bool) -> None:
    """Add the upper triangle of total to large, or put it there, and clear it."""
    for p in range(len(total)):
        first = p // LANES * LANES
        if add:
            for q in range(first, len(total)):
                large[p, q] += total[p, q]
        else:
            for q in range(first, len(total)):
                large[p, q] = total[p, q]
        total[p, first:] = 0


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _statistics(
    features: Array,
    feature_row: Integers,
    label: Array,
    share: Array,
    weight: Array,
    first: Integers,
    stop: Integers,
    target: Integers,
    order: Integers,
    counter: Integers,
    room: Array,
    second: Array,
    moments: Array,
) -> None:
    """Sums over the rows first[i] : stop[i], for each i in this order, to be found at target[i]."""
    d = features.shape[1]
    width = -(-d // 8) * 8
    square, tiled = width * width, width * _TILE
    total = room[:square].reshape((width, width))
    tile = room[square : square + tiled].reshape((_TILE, width))
    weighted = room[square + tiled : square + 2 * tiled].reshape((_TILE, width))
    b = room[square + 2 * tiled :].reshape((1, width))
    while True:
        place = take_next(counter)
        if place >= len(order):
            break
        piece = order[place]
        total[:] = 0.0
        b[:] = 0.0
        for begin in range(first[piece], stop[piece], _TILE):
            end = min(begin + _TILE, stop[piece])
            for row in range(begin, end):
                if row + _AHEAD < stop[piece]:
                    ask_for_row(features, feature_row[row + _AHEAD])
                at = row - begin
                if d == width:
                    put_row(tile, at, features, feature_row[row], 1.0)
                else:
                    for k in range(d):
                        tile[at, k] = features[feature_row[row], k]
                put_row(weighted, at, tile, at, weight[row])
                y = label[row] * share[feature_row[row]]
                add_row(b, 0, tile, at, weight[row] * y)
            add_upper(weighted, tile, end - begin, total)
        entry = 0
        for p in range(d):
            moments[target[piece], p] = b[0, p]
            for q in range(p, d):
                second[target[piece], entry] = total[p, q]
                entry += 1


def moments(
    features: Shorts,
    d: int,
    unit: float,
    feature_row: Integers,
    label: Array,
    share: Array,
    weight: Array,
    start: Integers,
    grid: float,
) -> Array:
    """See ``Engine.moments``. Threads take equally many rows.

    A thread goes through its tasks many times, each time as far as the features of some users reach that fit
    into its cache together: the rows of a task are sorted by user, usually (if not, this is only slower).
    """
    short = whole_vectors(features)
    width, rows = short.shape[1], int(start[-1])
    threads = threads_for(rows * width)  # each has some rows, if there are any
    sums = aligned((len(start) - 1, width), np.float64)
    # What a thread adds to a task whose first rows are another thread's.
    edges = aligned((threads, width), np.float64)
    at_once = max(1, _NEAR // (2 * width))
    if rows:
        examples = (feature_row, label, share, weight, start)
        side_by_side(
            lambda thread: _moments(
                thread, threads, short, *examples, unit / grid, at_once, sums, edges[thread:]
            ),
            range(threads),
        )
    for thread in range(1, threads):
        sums[_task_of_row(start, rows * thread // threads)] += edges[thread]
    sums *= grid
    return sums[:, :d]


@njit(cache=True)  # type: ignore[untyped-decorator]
def _task_of_row(start: Integers, row: int) -> int:
    return np.searchsorted(start[1:-1], row, side="right")  # type: ignore[return-value]


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _moments(
    thread: int,
    threads: int,
    features: Shorts,
    feature_row: Integers,
    label: Array,
    share: Array,
    weight: Array,
    start: Integers,
    to_grid: float,
    at_once: int,
    sums: Array,
    edge: Array,
) -> None:
    """What a thread adds to the sums of its tasks, and, of the first if others share that, to the edge."""
    begin, end = start[-1] * thread // threads, start[-1] * (thread + 1) // threads
    low, high = _task_of_row(start, begin), _task_of_row(start, end - 1) + 1
    reached = np.maximum(start[low:high], begin)
    users = np.empty((1, 2 * _TILE), dtype=np.int32)
    factors = np.empty((1, 2 * _TILE), dtype=np.float32)
    for limit in range(at_once, len(features) + at_once, at_once):
        last = limit >= len(features)
        for task in range(low, high):
            row, stop = reached[task - low], min(start[task + 1], end)
            out, at = (edge, 0) if start[task] < begin else (sums, task)
            count = 0
            while row < stop and (last or feature_row[row] < limit):
                user = feature_row[row]
                users[0, count] = user
                factors[0, count] = _within(weight[row] * (label[row] * share[user]) * to_grid)
                ask_for_row(features, user)
                count += 1
                row += 1
                if count == 2 * _TILE:
                    _add_labels(out, at, features, users, factors, count)
                    count = 0
            if count:
                _add_labels(out, at, features, users, factors, count)
            reached[task - low] = row
