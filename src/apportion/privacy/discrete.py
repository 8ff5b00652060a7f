"""Whole numbers with a discrete Gaussian distribution, made of uniform random words, exactly.

Guarantee
    ``draw`` gives independent whole numbers i with probability proportional to exp(-i^2 / (2 v)), for any
    v >= 1, if the words are independent and uniform. Nothing is rounded: where an answer hangs on digits
    that floating-point numbers do not have (about once in 2 * 10^9 draws), more digits are computed.
    Only numbers beyond 32 standard deviations, whose probability is below 2^-730, may be missing.

What the missing numbers cost
    Let M be a training with such noise, and M~ the same with the numbers beyond 32 standard deviations
    missing. D' has one user more, or less, than D. Let B be those outcomes in which some released number
    is beyond 32 standard deviations of D's sum; b is the probability that M(D') is in B, and t that any
    number of M's noise is beyond 32, t < n 2^-730 for n numbers. Then M~ is M given that none is, so

        P[M~(D') in S] (1 - t) <= P[M(D') in S without B] + b
                               <= e^epsilon P[M(D) in S without B] + delta + b
                               <= e^epsilon P[M~(D) in S] + delta + b.

    A user moves number i by s_i standard deviations. Over all releases to all users, the squares of these
    add up to mu^2 at most, and mu <= 8 (``LARGEST_MU``; targets and the ledger enforce it). P[|z + s_i| > 32]
    is below 2^-690 where s_i <= 1; at most 64 are larger, and for these it is at most 2^-420, since
    Phi(-24) = 1.4e-127. A step with sampled users moves its sums by at most 1 / 0.3 in all (the ledger
    enforces that too): 12 numbers by more than 1, each beyond with a probability below 2^-598. So for k
    steps b < n 2^-690 + 2^-414 + k 2^-594, and for whatever a computer can draw (n, k < 2^64) b and t are
    below 2^-413. Epsilon is rounded up by 10^-12 of itself, which for epsilon >= 1e-6 and mu <= 8 is worth
    more than 2^-67 of delta, and delta >= 1e-100 > 2^-333: what is missing is paid for.

How
    Rejection. The half-line is cut into 1024 blocks of w whole numbers, w being a 32nd of a
    standard deviation, rounded up. A block k is chosen with probability n_k / 2^40, the n_k being whole
    numbers in a table (Walker's alias method, in whole numbers), and a number i in it, uniformly. It is
    kept with probability exp(lambda_k - i^2 / (2 v)), lambda_k = log(C 2^40 / n_k): all i then have
    C exp(-i^2 / 2v) / w, up to the common factor. C is such that no such probability passes one: n_k is
    at least C 2^40 exp(-(k / 32)^2 / 2), and i >= k w >= k sqrt(v) / 32. A sign is drawn too; zero with a
    minus is drawn again, since zero would count twice. About 98 of 100 numbers are kept.

    A number is kept if a uniform u in [0, 1) is below that probability. The first 31 digits of u decide
    at once unless they are too near to the probability for its floating-point value to be trusted;
    then ``_settle`` takes more digits of u, and of the probability, until they differ.

    Two words make a number: of the first, 10 bits are the column of the table, 30 choose between its two
    blocks, and 24 are (as many as needed) the last bits of a place in wide blocks; of the second, 32 are the
    first bits of the place, one is the sign, 31 are digits of u.
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

from apportion.privacy.errors import ReleaseError

Words = NDArray[np.uint64]

_BLOCKS = 1024
_PER_DEVIATION = 32
_CHANCES = 2**40
_COLUMN = _CHANCES // _BLOCKS
# Relative error allowed in floating-point probabilities; theirs is below 2^-41.
_DOUBT = 2.0**-36
_AT_ONCE = 2**15  # words, an even number
# What ``_fill`` stops for.
_DONE, _WORDS, _DOUBTFUL = 0, 1, 2
# Fills an array with random words, others each time.
Source = Callable[[Words], None]


class Blocks(NamedTuple):
    """The table of blocks: with 40 bits, column = the last 10, block = column if the others < cut.

    Attributes
        chances: n_k, of 2^40, as whole numbers.
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
        ceiling = (1 - 2.0**-29) / float(sum(shape))
        # In floating point some would fall short of what they must be at least.
        chances = [1 + math.ceil(Decimal(ceiling) * _CHANCES * height) for height in shape]
    chances[0] += _CHANCES - sum(chances)
    log = np.array([math.log(ceiling) + math.log(_CHANCES) - math.log(n) for n in chances])
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
        order, ends: the columns, those of the first variance up to the first end, and so on, [columns].
        block, shift: numbers per block are block * 2^shift.
        low: a number of block k is kept if the first 31 digits of u are below this, [variances, blocks].
    """

    variance: NDArray[np.float64]
    order: NDArray[np.int64]
    ends: NDArray[np.int64]
    block: Words
    shift: Words
    low: NDArray[np.int64]

    @classmethod
    def of(cls, variances: NDArray[np.float64]) -> Self:
        """For columns with these variances, each at least one; few different ones, [columns]."""
        different, of_column, columns = np.unique(
            variances, return_inverse=True, return_counts=True
        )
        if not 1 <= different[0] <= different[-1] < 2.0**104:
            raise ReleaseError("noise must have a variance from 1 to 2^104 units of the grid")
        widths = [_width(v) for v in different.tolist()]
        shift = [max(0, width.bit_length() - 26) for width in widths]
        block = [-(-width >> by) for width, by in zip(widths, shift, strict=True)]
        ends = [(b << by) * (1.0 + np.arange(_BLOCKS)) for b, by in zip(block, shift, strict=True)]
        least = np.exp(blocks().log - np.square(ends) / (2 * different[:, None]))
        return cls(
            different,
            np.argsort(of_column, kind="stable").astype(np.int64),
            np.cumsum(columns).astype(np.int64),
            np.array(block, np.uint64),
            np.array(shift, np.uint64),
            np.floor(least * (1 - _DOUBT) * 2.0**31).astype(np.int64),
        )


def _width(variance: float) -> int:
    """The least whole number w with 32 w >= sqrt(variance)."""
    # 1024 w^2 >= variance; dividing by a power of two is exact.
    return 1 + math.isqrt(math.ceil(variance / _PER_DEVIATION**2) - 1)


def draw(out: NDArray[np.int64], scales: Scales, source: Source, settling: Source) -> None:
    """Fill ``out`` [rows, columns], given a source of random words, and another to settle doubts.

    So the first rows are the same, however many follow.
    """
    flat, table = out.reshape(-1), blocks()
    # Two words for each number, and some for those that are not kept.
    supply = np.empty(min(_AT_ONCE, 2 * len(flat) + 2 * (len(flat) // 16) + 16), dtype=np.uint64)
    at = 0
    used = len(supply)
    while True:
        at, used, state, size, block, digits, scale = _fill(
            flat, at, supply, used, scales.order, scales.ends, scales.variance, scales.block,
            scales.shift, scales.low, table.log, table.cut, table.other, _DOUBT,
        )  # fmt: skip
        if state == _DONE:
            return
        if state == _WORDS:
            source(supply)
            used = 0
            continue
        if _settle(size, block, float(scales.variance[scale]), digits, 31, settling):
            at += 1


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _fill(
    out: NDArray[np.int64],
    at: int,
    words: Words,
    used: int,
    order: NDArray[np.int64],
    ends: NDArray[np.int64],
    variances: NDArray[np.float64],
    blocks: Words,
    shifts: Words,
    lows: NDArray[np.int64],
    log: NDArray[np.float64],
    cut: Words,
    other: NDArray[np.uint16],
    doubt: float,
) -> Any:
    """Go on until out is full, words are short, or a number is in doubt; then say which and where.

    ``at`` counts numbers row by row, within a row in the given order of columns. A number in doubt is in
    its place already.
    """
    columns = len(order)
    while at < len(out):
        first_of_row = at // columns * columns
        row, place = out[first_of_row : first_of_row + columns], at - first_of_row
        scale = np.searchsorted(ends, place, side="right")
        block, shift, low = blocks[scale], shifts[scale], lows[scale]
        limit, width, unused = np.uint64(2**32) % block, block << shift, np.uint64(24) - shift
        factor = -0.5 / variances[scale]
        while place < ends[scale]:
            if used >= len(words):
                return first_of_row + place, used, _WORDS, 0, 0, 0, 0
            first, second = words[used], words[used + 1]
            used += 2
            k = first & np.uint64(_BLOCKS - 1)
            beyond = (first >> np.uint64(10)) & np.uint64(_COLUMN - 1) >= cut[k]
            k = np.uint64(other[k]) if beyond else k
            product = (second >> np.uint64(32)) * block
            inside = (product >> np.uint64(32) << shift) | (first >> np.uint64(40) >> unused)
            size = np.int64(k * width + inside)
            minus = np.int64((second >> np.uint64(31)) & np.uint64(1))
            digits = np.int64(second & np.uint64(0x7FFFFFFF))
            row[order[place]] = (size ^ -minus) + minus  # its negative, if there is a minus
            if product & np.uint64(0xFFFFFFFF) < limit:
                continue  # or some places would come more often than others
            if size == 0 and minus:
                continue
            if digits >= low[k]:
                chance = np.exp(log[k] + factor * float(size) * float(size)) * 2.0**31
                if digits >= chance * (1 + doubt):
                    continue
                if digits + 1 > chance * (1 - doubt):
                    return first_of_row + place, used, _DOUBTFUL, size, np.int64(k), digits, scale
            place += 1
        at = first_of_row + place
    return at, used, _DONE, 0, 0, 0, 0


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def add_to_sums(
    sums: NDArray[np.float64], grid: float, noise: NDArray[np.int64], noisy: NDArray[np.float64]
) -> bool:
    """Noisy = sums + noise * grid, or False if a sum is not a multiple of the grid.

    They are added as whole numbers: what is rounded, if it has more than 53 bits, is the noisy sum.
    A sum beyond 2^53 units counts as 2^53, which moves no two sums apart: an error would tell that so
    many users are there. ``noisy`` may be ``sums``.
    """
    fine = True
    for row in range(sums.shape[0]):
        for column in range(sums.shape[1]):
            units = sums[row, column] / grid  # exact: the grid is a power of two
            fine &= np.rint(units) == units
            units = min(max(units, -(2.0**53)), 2.0**53)
            noisy[row, column] = (np.int64(units) + noise[row, column]) * grid
    return fine


def _settle(
    number: int, block: int, variance: float, digits: int, known: int, source: Source
) -> bool:
    """Whether u, of which the first ``known`` digits are known, is below the chance of being kept."""
    table, more = blocks(), np.empty(1, dtype=np.uint64)
    while True:
        source(more)
        digits = digits << 64 | int(more[0])
        known += 64
        with localcontext(Context(prec=known // 3 + 20)):
            odds = Decimal(table.ceiling) * _CHANCES / table.chances[block]
            chance = odds * (-(Decimal(number) ** 2) / (2 * Decimal(variance))).exp() * 2**known
            if chance >= digits + 2:
                return True
            if chance <= digits - 1:
                return False
