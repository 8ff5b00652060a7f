"""Whole numbers with a discrete Gaussian distribution, made of uniform random words, exactly.

Guarantee
    ``draw`` gives independent whole numbers i with probability proportional to exp(-i^2 / (2 v)), for any
    v >= 1, if the words are independent and uniform. Nothing is rounded: where an answer hangs on digits
    that floating-point numbers do not have (about once in 2 * 10^9 draws), more digits are computed.
    Only numbers beyond 32 standard deviations, whose probability is below 2^-730, may be missing.

How
    Rejection. The half-line is cut into 512 blocks of w whole numbers, w being a sixteenth of a
    standard deviation, rounded up. A block k is chosen with probability n_k / 2^64, the n_k being whole
    numbers in a table (Walker's alias method, in whole numbers), and a number i in it, uniformly. It is
    kept with probability exp(lambda_k - i^2 / (2 v)), lambda_k = log(C 2^64 / n_k): all i then have
    C exp(-i^2 / 2v) / w, up to the common factor. C is such that no such probability passes one: n_k is
    at least C 2^64 exp(-(k / 16)^2 / 2), and i >= k w >= k sqrt(v) / 16. A sign is drawn too; zero with a
    minus is drawn again, since zero would count twice. About 96 of 100 numbers are kept.

    A number is kept if a uniform u in [0, 1) is below that probability. The first 31 digits of u decide
    at once unless they are too near to the probability for its floating-point value to be trusted;
    then ``_settle`` takes more digits of u, and of the probability, until they differ.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_BLOCKS = 512
_PER_DEVIATION = 16
_COLUMN = 2**64 // _BLOCKS
# Relative error allowed in floating-point probabilities; theirs is below 2^-41.
_DOUBT = 2.0**-36
_AT_ONCE = 2**15  # words
# What ``_fill`` stops for.
_DONE, _WORDS, _DOUBTFUL = 0, 1, 2


class Blocks(NamedTuple):
    """The table of blocks: with a word, column = its last 9 bits, block = column if the rest < cut.

    Attributes
        chances: n_k, of 2^64, as whole numbers.
        ceiling: C.
        log: lambda_k, rounded.
    """

    chances: tuple[int, ...]
    ceiling: float
    log: NDArray[np.float64]
    cut: Words
    other: NDArray[np.uint16]


@cache
def blocks() -> Blocks:
    """The one table; it does not depend on the variance, nor on the machine."""
    with localcontext(Context(prec=50)):
        shape = [(Decimal(-k * k) / (2 * _PER_DEVIATION**2)).exp() for k in range(_BLOCKS)]
        ceiling = (1 - 2.0**-40) / float(sum(shape))
        # In floating point some would fall short of what they must be at least.
        chances = [1 + math.ceil(Decimal(ceiling) * 2**64 * height) for height in shape]
    chances[0] += 2**64 - sum(chances)
    log = np.array([math.log(ceiling) + 64 * math.log(2) - math.log(n) for n in chances])
    # Fill every column up to the same height, with one block that lacks and one that has too much.
    rest, cut, other = list(chances), [_COLUMN] * _BLOCKS, list(range(_BLOCKS))
    small = [k for k in range(_BLOCKS) if rest[k] < _COLUMN]
    large = [k for k in range(_BLOCKS) if rest[k] >= _COLUMN]
    while small and large:
        lacks, has = small.pop(), large.pop()
        cut[lacks], other[lacks] = rest[lacks], has
        rest[has] -= _COLUMN - rest[lacks]
        (small if rest[has] < _COLUMN else large).append(has)
    return Blocks(
        tuple(chances), ceiling, log, np.array(cut, np.uint64), np.array(other, np.uint16)
    )


@dataclass(frozen=True, eq=False)
class Scales:
    """Variances of the columns of an array that is to be filled, and what follows from them.

    Attributes
        variance: the different ones.
        of_column: which of them each column has, [columns].
        block, shift: numbers per block are block * 2^shift.
        low: a number of block k is kept if the first 31 digits of u are below this, [variances, blocks].
    """

    variance: NDArray[np.float64]
    of_column: NDArray[np.uint8]
    block: Words
    shift: NDArray[np.int64]
    low: NDArray[np.int64]

    @classmethod
    def of(cls, variances: NDArray[np.float64]) -> Self:
        """For columns with these variances, each at least one; few different ones, [columns]."""
        different, of_column = np.unique(variances, return_inverse=True)
        assert 1 <= different[0] <= different[-1] < 2.0**110
        widths = [_width(v) for v in different.tolist()]
        shift = [max(0, width.bit_length() - 26) for width in widths]
        block = [-(-width >> by) for width, by in zip(widths, shift, strict=True)]
        ends = [(b << by) * (1.0 + np.arange(_BLOCKS)) for b, by in zip(block, shift, strict=True)]
        least = np.exp(blocks().log - np.square(ends) / (2 * different[:, None]))
        return cls(
            different,
            of_column.astype(np.uint8),
            np.array(block, np.uint64),
            np.array(shift, np.int64),
            np.floor(least * (1 - _DOUBT) * 2.0**31).astype(np.int64),
        )


def _width(variance: float) -> int:
    """The least whole number w with 16 w >= sqrt(variance)."""
    # 256 w^2 >= variance; dividing by a power of two is exact.
    return 1 + math.isqrt(math.ceil(variance / _PER_DEVIATION**2) - 1)


def draw(out: NDArray[np.int64], scales: Scales, words: Callable[[int], Words]) -> None:
    """Fill ``out`` [rows, columns], given a source of so many random words."""
    flat, table = out.reshape(-1), blocks()
    at, supply, used = 0, words(min(_AT_ONCE, 4 * len(flat) + 16)), 0
    while True:
        at, used, state, number, block, digits = _fill(
            flat, at, supply, used, scales.of_column, scales.variance, scales.block, scales.shift,
            scales.low, table.log, table.cut, table.other, _DOUBT,
        )  # fmt: skip
        if state == _DONE:
            return
        if state == _WORDS:
            supply, used = np.concatenate([supply[used:], words(_AT_ONCE)]), 0
            continue
        variance = float(scales.variance[scales.of_column[at % len(scales.of_column)]])
        if _settle(abs(number), block, variance, digits, 31, words):
            flat[at] = number
            at += 1


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _fill(
    out: NDArray[np.int64],
    at: int,
    words: Words,
    used: int,
    of_column: NDArray[np.uint8],
    variance: NDArray[np.float64],
    blocks: Words,
    shifts: NDArray[np.int64],
    lows: NDArray[np.int64],
    log: NDArray[np.float64],
    cut: Words,
    other: NDArray[np.uint16],
    doubt: float,
) -> Any:
    """Go on until out is full, words are short, or a number is in doubt; then say which and where."""
    columns, half = len(of_column), np.uint64(0xFFFFFFFF)
    column = at % columns
    limits, factors = np.uint64(2**32) % blocks, -0.5 / variance
    while at < len(out):
        scale = of_column[column]
        block, shift, limit = blocks[scale], shifts[scale], limits[scale]
        while True:
            if used + 3 > len(words):
                return at, used, _WORDS, 0, 0, 0
            first, second = words[used], words[used + 1]
            used += 2
            k = np.int64(first & np.uint64(_BLOCKS - 1))
            alias = np.int64(other[k])  # read in any case: so there is nothing to guess
            k = alias if first >> np.uint64(9) >= cut[k] else k
            product = (second >> np.uint64(32)) * block
            place = np.int64(product >> np.uint64(32))
            if shift:
                place = (place << shift) | np.int64(words[used] & np.uint64((1 << shift) - 1))
                used += 1
            if product & half < limit:
                continue  # or some places would come more often than others
            number = k * (np.int64(block) << shift) + place
            digits = np.int64(second & np.uint64(0x7FFFFFFF))
            minus = np.int64((second >> np.uint64(31)) & np.uint64(1))
            if number == 0 and minus:
                continue
            number = (number ^ -minus) + minus  # its negative, if there is a minus
            if digits >= lows[scale, k]:
                chance = np.exp(log[k] + factors[scale] * float(number) * float(number)) * 2.0**31
                if digits >= chance * (1 + doubt):
                    continue
                if digits + 1 > chance * (1 - doubt):
                    return at, used, _DOUBTFUL, number, k, digits
            break
        out[at] = number
        at += 1
        column += 1
        if column == columns:
            column = 0
    return at, used, _DONE, 0, 0, 0


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def add_to_sums(
    sums: NDArray[np.float64], grid: float, noise: NDArray[np.int64], noisy: NDArray[np.float64]
) -> bool:
    """Noisy = sums + noise * grid, or False if a sum is not a multiple of the grid, or too large.

    They are added as whole numbers: what is rounded, if it has more than 53 bits, is the noisy sum.
    """
    fine = True
    for row in range(sums.shape[0]):
        for column in range(sums.shape[1]):
            units = sums[row, column] / grid  # exact: the grid is a power of two
            fine &= np.rint(units) == units and abs(units) <= 2.0**53
            noisy[row, column] = (np.int64(units) + noise[row, column]) * grid
    return fine


def _settle(
    number: int, block: int, variance: float, digits: int, known: int, words: Callable[[int], Words]
) -> bool:
    """Whether u, of which the first ``known`` digits are known, is below the chance of being kept."""
    table = blocks()
    while True:
        digits = digits << 64 | int(words(1)[0])
        known += 64
        with localcontext(Context(prec=known // 3 + 20)):
            odds = Decimal(table.ceiling) * 2**64 / table.chances[block]
            chance = odds * (-(Decimal(number) ** 2) / (2 * Decimal(variance))).exp() * 2**known
            if chance >= digits + 2:
                return True
            if chance <= digits - 1:
                return False
