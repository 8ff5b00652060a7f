"""Scores of items for users: the same to the last bit however many users are asked for at once.

A matrix product in floating point rounds in an order that the library chooses: by the processor, by the
shape, and by the place of a row among the others. So both sides are brought to whole numbers first, small
enough that every sum of their products is below 2^53. Such sums are exact in float64 in any order.

With d factors, p = 53 - ceil(log2 d) bits are shared between an item's and a user's numbers, relative to the
largest of each row. A score is off by at most d |u| |v| 2^(1 - p / 2), the norms being those of the largest
entry: for 64 factors 2^-22 each, about what float32 loses.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]
Exponents = NDArray[np.int32]

_DIGITS = 53  # of a float64
_SINGLE = 24  # of a float32, in which items are kept
_ENTRIES = 2**19  # of the product that are computed at once: they stay in a cache
_LEAST = -990  # a row whose largest number is below 2^this is as good as zero


class ExactScores:
    """Scores by exact products of whole numbers.

    Args:
        items: [items, factors].
    """

    def __init__(self, items: NDArray[np.floating[Any]]) -> None:
        factors = max(1, items.shape[1])
        bits = _DIGITS - math.ceil(math.log2(factors))
        of_items = min(_SINGLE, bits // 2)
        self._bits = bits - of_items
        self._whole = np.empty(items.shape, dtype=np.float32)
        self._scale = np.empty(len(items))
        step = max(1, _ENTRIES // factors)
        for first in range(0, len(items), step):
            block = slice(first, first + step)
            self._whole[block], exponents = _whole_numbers(items[block], of_items)
            self._scale[block] = np.ldexp(1.0, exponents)

    def __call__(self, vectors: NDArray[np.floating[Any]]) -> Scores:
        """The scores of all items for users with these vectors, [users, items].

        What 32 bits cannot hold is infinite.
        """
        whole, exponents = _whole_numbers(vectors, self._bits)
        scale = np.ldexp(1.0, exponents)[:, None]
        scores = np.empty((len(vectors), len(self._whole)), dtype=np.float32)
        step = max(64, _ENTRIES // max(1, len(vectors)))
        with np.errstate(all="ignore"):
            for first in range(0, len(self._whole), step):
                block = slice(first, first + step)
                exact = whole @ self._whole[block].astype(np.float64).T
                exact *= self._scale[block]
                np.multiply(exact, scale, out=scores[:, block], casting="same_kind")
        return scores


def _whole_numbers(
    rows: NDArray[np.floating[Any]], bits: int
) -> tuple[NDArray[np.float64], Exponents]:
    """Whole numbers of at most 2^bits and one exponent per row, [rows, d] and [rows].

    Each row by itself: whole * 2^exponent is the row, up to half a unit in each entry.
    """
    _, exponents = np.frexp(np.abs(rows).max(axis=1, initial=0.0))
    exponents = np.maximum(exponents, _LEAST) - bits
    whole = rows * np.ldexp(1.0, -exponents)[:, None]
    return np.rint(whole, out=whole), exponents
