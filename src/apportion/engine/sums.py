"""Sums over the rows of each task: what is released.

Everything here adds float64 numbers, task by task, in the order of the rows: the same whatever the number of
threads and the other tasks of a block. Float32 would not do: leaving out a user could change the rounding
of a sum by more than the user's part in it, which is what the noise is made for.
"""

from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange
from numpy.typing import NDArray

from apportion.engine.gram import (
    add_row,
    add_upper,
    aligned,
    ask_for_row,
    padded,
    put_row,
    take_next,
)

Array = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]

_TILE = 32  # rows
_AHEAD = 16  # rows that are asked for before they are needed
_PIECE = 2**15  # rows of a task that are summed by one thread
_NEAR = 2**22  # bytes of features that stay in a cache shared with others


def statistics(
    features: Array, feature_row: Integers, label: Array, weight: Array, start: Integers
) -> tuple[Array, Array]:
    """See ``Engine.statistics``; a task's rows are start[i] : start[i + 1]."""
    tasks, d = len(start) - 1, features.shape[1]
    # Long tasks in pieces, so that they can be shared out; their number depends on nothing but the task.
    pieces = np.maximum(1, -(-np.diff(start) // _PIECE))
    task = np.repeat(np.arange(tasks), pieces)
    number = np.arange(len(task)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    first = start[task] + _PIECE * number
    stop = np.minimum(first + _PIECE, start[task + 1])
    order = np.argsort(
        first - stop, kind="stable"
    )  # the longest first: none must be left for the end
    # The first piece of a task is summed where the task's sums belong, later ones below all tasks.
    target = np.where(number == 0, task, tasks - 1 + np.cumsum(number > 0))
    second, moments = np.empty((len(task), d * (d + 1) // 2)), np.zeros((len(task), d))
    width, threads = padded(d, np.float64), get_num_threads()
    room = aligned((threads, width * (width + 2 * _TILE + 1)), np.float64)
    counter = np.zeros(1, dtype=np.int64)
    _statistics(
        features,
        feature_row,
        label,
        weight,
        first,
        stop,
        target,
        order,
        room,
        counter,
        second,
        moments,
    )
    for later in np.flatnonzero(number):  # in order
        second[task[later]] += second[target[later]]
        moments[task[later]] += moments[target[later]]
    return second[:tasks], moments[:tasks]


@njit(parallel=True, cache=True)  # type: ignore[untyped-decorator]
def _statistics(
    features: Array,
    feature_row: Integers,
    label: Array,
    weight: Array,
    first: Integers,
    stop: Integers,
    target: Integers,
    order: Integers,
    room: Array,
    counter: Integers,
    second: Array,
    moments: Array,
) -> None:
    """Sums over the rows first[i] : stop[i], for each i in this order, to be found at target[i]."""
    d = features.shape[1]
    width = -(-d // 8) * 8
    for thread in prange(len(room)):
        own = room[thread]
        square, tiled = width * width, width * _TILE
        total = own[:square].reshape((width, width))
        tile = own[square : square + tiled].reshape((_TILE, width))
        weighted = own[square + tiled : square + 2 * tiled].reshape((_TILE, width))
        b = own[square + 2 * tiled :].reshape((1, width))
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
                    add_row(b, 0, tile, at, weight[row] * label[row])
                add_upper(weighted, tile, end - begin, total)
            entry = 0
            for p in range(d):
                moments[target[piece], p] = b[0, p]
                for q in range(p, d):
                    second[target[piece], entry] = total[p, q]
                    entry += 1


def moments(
    features: Array, feature_row: Integers, label: Array, weight: Array, start: Integers
) -> Array:
    """See ``Engine.moments``. Threads take neighbouring tasks, of equally many rows in all.

    A thread goes through its tasks many times, each time as far as the features of some users reach that fit
    into its cache together: the rows of a task are sorted by user, usually (if not, this is only slower).
    """
    tasks, d = len(start) - 1, features.shape[1]
    if d % 8:
        features = np.pad(features, ((0, 0), (0, -d % 8)))
    first = aligned((tasks, features.shape[1]), np.float64)
    at_once = max(1, _NEAR // (8 * features.shape[1]))
    _moments(features, feature_row, label, weight, start, at_once, get_num_threads(), first)
    return first[:, :d]


@njit(parallel=True, cache=True)  # type: ignore[untyped-decorator]
def _moments(
    features: Array,
    feature_row: Integers,
    label: Array,
    weight: Array,
    start: Integers,
    at_once: int,
    threads: int,
    first: Array,
) -> None:
    for thread in prange(threads):
        low = np.searchsorted(start[:-1], start[-1] * thread // threads)
        high = np.searchsorted(start[:-1], start[-1] * (thread + 1) // threads)
        if thread == threads - 1:
            high = len(start) - 1
        reached = start[low:high].copy()
        for limit in range(at_once, len(features) + at_once, at_once):
            last = limit >= len(features)
            for task in range(low, high):
                row, stop = reached[task - low], start[task + 1]
                while row < stop and (last or feature_row[row] < limit):
                    if row + _AHEAD < stop and feature_row[row + _AHEAD] < limit:
                        ask_for_row(features, feature_row[row + _AHEAD])
                    add_row(first, task, features, feature_row[row], weight[row] * label[row])
                    row += 1
                reached[task - low] = row
