"""Whole numbers with a discrete Gaussian distribution, from random words: the twin of native/noise.cpp.

The method and its proof are in privacy/discrete.py, whose table and scales these functions take.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

# What filling stops for.
DONE, WORDS, DOUBTFUL = 0, 1, 2
# Blocks of the table, and chances in a column.
_BLOCKS = 1024
_COLUMN = 2**40 // _BLOCKS


def exponential(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """exp(x) for x <= 1, within 2^-50 of it, above 2^-1009 always; the same on all machines.

    >>> float(exponential(np.array([-1.0]))[0] / math.exp(-1.0) - 1) < 2.0**-50
    True
    """
    x = np.clip(x, -700.0, 1.0)
    # x = k log(2) + r, |r| < .35; the first part of log(2) has so few bits that k times it is exact.
    k = np.rint(x * 1.4426950408889634)
    r = (x - k * 0.6931471803691238) - k * 1.9082149292705877e-10
    power = np.full_like(r, 1.0 / math.factorial(13))
    for n in range(12, -1, -1):
        power = power * r + 1.0 / math.factorial(n)
    return np.asarray(np.ldexp(power, k.astype(np.int64)))


def fill_noise(
    out: NDArray[np.int64],
    at: int,
    words: Words,
    used: int,
    order: NDArray[np.int64],
    ends: NDArray[np.int64],
    variance: NDArray[np.float64],
    block: Words,
    shift: Words,
    low: NDArray[np.int64],
    log: NDArray[np.float64],
    cut: Words,
    other: NDArray[np.uint16],
    doubt: float,
) -> tuple[int, int, int, int, int, int, int]:
    """Go on until out is full, words are short, or a number is in doubt; then say which and where.

    ``at`` counts numbers row by row, within a row in the given order of columns. A number in doubt is in
    its place already.
    """
    columns = len(order)
    while at < len(out):
        row, place = out[at // columns * columns :][:columns], at % columns
        scale = int(np.searchsorted(ends, place, side="right"))
        count = min(int(ends[scale]) - place, (len(words) - used) // 2)  # more may be needed
        if count == 0:
            return at, used, WORDS, 0, 0, 0, 0
        first, second = words[used : used + 2 * count].reshape(-1, 2).T
        size, k, minus, digits, fair = _candidates(
            first, second, int(block[scale]), int(shift[scale]), cut, other
        )
        x = size.astype(np.float64)
        chance = exponential(log[k] + -0.5 / variance[scale] * x * x) * 2.0**31
        sure = digits < low[scale, k]
        fair &= sure | (digits < chance * (1 + doubt))
        kept = fair & (sure | (digits + 1 <= chance * (1 - doubt)))
        doubtful = np.flatnonzero(fair & ~kept)
        stop = int(doubtful[0]) if len(doubtful) else count
        numbers = np.where(minus == 1, -size, size)
        good = numbers[:stop][kept[:stop]]
        row[order[place : place + len(good)]] = good
        at, place = at + len(good), place + len(good)
        used += 2 * stop
        if len(doubtful):
            row[order[place]] = numbers[stop]
            last = int(size[stop]), int(k[stop]), int(digits[stop])
            return at, used + 2, DOUBTFUL, *last, scale
    return at, used, DONE, 0, 0, 0, 0


def _candidates(
    first: Words, second: Words, block: int, shift: int, cut: Words, other: NDArray[np.uint16]
) -> tuple[Any, ...]:
    """What two words say: a size, its block, whether it has a minus, digits of u, and whether it is fair.

    Of the first word, 10 bits are the column of the table, 30 choose between its two blocks, and 24 are (as
    many as needed) the last bits of a place in wide blocks. Of the second, 32 are the first bits of the
    place, one is the sign, 31 are digits of u.
    """
    column = first & np.uint64(_BLOCKS - 1)
    beyond = (first >> np.uint64(10)) & np.uint64(_COLUMN - 1) >= cut[column]
    k = np.where(beyond, other[column], column).astype(np.int64)
    product = (second >> np.uint64(32)) * np.uint64(block)
    # The last bits of a place in wide blocks; numbers of 64 bits cannot be shifted by all of them.
    behind = (first >> np.uint64(40)) >> np.uint64(24 - shift)
    inside = (product >> np.uint64(32) << np.uint64(shift)) | behind
    size = k * (block << shift) + inside.astype(np.int64)
    minus = (second >> np.uint64(31) & np.uint64(1)).astype(np.int64)
    digits = (second & np.uint64(0x7FFFFFFF)).astype(np.int64)
    # Otherwise some places would come more often than others, and zero twice.
    fair = (product & np.uint64(0xFFFFFFFF) >= np.uint64(2**32 % block)) & (
        (size != 0) | (minus == 0)
    )
    return size, k, minus, digits, fair
