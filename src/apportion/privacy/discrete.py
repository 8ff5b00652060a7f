"""Whole numbers with a discrete Gaussian distribution, made of uniform random words, exactly.

Guarantee
    ``draw`` gives independent whole numbers i with probability proportional to exp(-i^2 / (2 v)), for any
    v >= 1, if the words are independent and uniform. Nothing is rounded. Only numbers beyond 32 standard
    deviations, whose probability is below 2^-730, may be missing: docs/explanation/proofs.md ("What the
    missing numbers cost") proves that over a training this is less than rounding epsilon up is worth, for
    mu <= 8 and steps with sampled users that move their sums by at most 1 / 0.3. The ledger enforces both.

How
    Rejection. The half-line is cut into 1024 blocks of w whole numbers, w being a 32nd of a standard
    deviation, rounded up. A block k is chosen with probability n_k / 2^40, the n_k being whole numbers in a
    table (Walker's alias method), and a number i in it, uniformly. It is kept with probability
    exp(lambda_k - i^2 / (2 v)), lambda_k = log(C 2^40 / n_k). So all i have C exp(-i^2 / 2v) / w, up to the
    common factor. C is such that no such probability passes one: n_k is at least
    C 2^40 exp(-(k / 32)^2 / 2), and i >= k w >= k sqrt(v) / 32. A sign is drawn too; zero with a minus is
    drawn again, since zero would count twice. About 98 of 100 numbers are kept.

    A number is kept if a uniform u in [0, 1) is below that probability. The first 31 digits of u decide,
    unless they are too near to the probability for its floating-point value to be trusted (about once in
    2 * 10^9 draws). Then ``_settle`` takes more digits of u, and of the probability, until they differ.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import cache
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from apportion.errors import ReleaseError
from apportion.native import kernels
from apportion.twins.noise import DONE, WORDS, exponential, fill_noise

Words = NDArray[np.uint64]

_BLOCKS = 1024
_PER_DEVIATION = 32
_CHANCES = 2**40
_COLUMN = _CHANCES // _BLOCKS
# Relative error allowed in floating-point probabilities; theirs is below 2^-41.
_DOUBT = 2.0**-36
_AT_ONCE = 2**15  # words, an even number
_NUMBERS = 2**17  # made at once: more leave the cache, fewer let threads wait for each other
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
    arrays = log, np.array(cut, np.uint64), np.array(other, np.uint16)
    for array in arrays:
        array.flags.writeable = False
    return Blocks(tuple(chances), ceiling, *arrays)


@dataclass(frozen=True, eq=False)
class Scales:
    """Variances of the columns of an array that is to be filled, and what follows from them: read-only.

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

    def __post_init__(self) -> None:
        for each in (self.variance, self.order, self.ends, self.block, self.shift, self.low):
            each.flags.writeable = False

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
        least = exponential(blocks().log - np.square(ends) / (2 * different[:, None]))
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


def draw(
    rows: int, scales: Scales, source: Source, settling: Source
) -> Iterator[NDArray[np.int64]]:
    """So many rows of numbers, given a source of random words, and another to settle doubts.

    Some rows at a time, [some, columns], in memory that the next ones will use again: fresh memory takes as
    long as the numbers. The first rows are the same, however many follow.
    """
    columns, table = len(scales.order), blocks()
    fill = fill_noise if kernels is None else kernels.fill_noise
    block = np.empty((min(rows, max(1, _NUMBERS // columns)), columns), dtype=np.int64)
    # Two words for each number, and some for those that are not kept.
    numbers = rows * columns
    supply = np.empty(min(_AT_ONCE, 2 * numbers + 2 * (numbers // 16) + 16), dtype=np.uint64)
    used = len(supply)
    for first in range(0, rows, max(1, len(block))):
        some, at = block[: rows - first], 0
        while True:
            at, used, state, size, number, digits, scale = fill(
                some.reshape(-1), at, supply, used, scales.order, scales.ends, scales.variance,
                scales.block, scales.shift, scales.low, table.log, table.cut, table.other, _DOUBT,
            )  # fmt: skip
            if state == DONE:
                break
            if state == WORDS:
                source(supply)
                used = 0
            elif _settle(size, number, float(scales.variance[scale]), digits, 31, settling):
                at += 1
        yield some


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
