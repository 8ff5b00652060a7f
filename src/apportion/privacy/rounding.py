"""How a user's part becomes whole numbers of grid units, without its norm growing past its bound.

Every engine reproduces these rules, to the bit; ``tests/engine/contract`` holds them to it. A row's numbers
depend on that row alone. Feature vectors are rows x of 16-bit whole numbers, of norm at most ``LONGEST``, in
units of G / LONGEST, G being the feature bound. Products of 32-bit numbers are rounded once, by a factor
within 1 +- 2^-24; that, and the rounding of 64-bit numbers before, is what ``bounds.ROUNDING`` covers.

Guarantee
    For parts of one user with sum_i w_ij^2 <= 1, weights w_ij and features bounded as above:

    - ``truncated``: |trunc(v / grid)| grid <= |v|, entry by entry.
    - ``square_roots``: z_i z_i' stands for w_ij x x'. With r_i = max(sqrt(w_ij) R - sqrt(d) / 2, 0) and
      R = sqrt(G^2 / grid), z_i is f x rounded to whole numbers with |f x| <= r_i; rounding moves a vector
      of length d by at most sqrt(d) / 2, so |z_i| <= sqrt(w_ij) R and |z_i z_i'|_F <= w_ij G^2 / grid.
    - ``right_hand_sides``: trunc(f x), f being w_ij y_ij in units of the grid: |.| <= w_ij |y_ij| |x|.
    - ``gradients``: trunc(s x), s being the slope after clipping: no longer than the clipped gradient.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Units = NDArray[np.int64]
Shorts = NDArray[np.int16]

# The norm of a row of 16-bit numbers is at most this.
LONGEST = 2**15 - 1
# A factor of this size belongs to features that are all zero.
_BEYOND = 2.0**60
# No number of a bounded part has so many units: what has gives zero, as NaN does.
_MOST_UNITS, _MOST_SHORT_UNITS = 2.0**28, 2.0**31


def truncated(values: NDArray[np.floating[Any]], grid: float) -> Units:
    """Values in whole units of the grid, rounded toward zero.

    >>> truncated(np.array([0.3, -0.3, 0.5]), grid=0.25)
    array([ 1, -1,  2])
    """
    with np.errstate(over="ignore", invalid="ignore"):
        units = np.asarray(values, dtype=np.float64) / grid
        return np.where(np.abs(units) < _MOST_UNITS, np.trunc(units), 0.0).astype(np.int64)


def longest_root(unit: float, grid: float) -> float:
    """R, the norm in roots of grid units of a row at its bound whose weight is one."""
    return LONGEST * unit / math.sqrt(grid)


def roots_of_weights(weight: Array, unit: float, dimension: int, grid: float) -> Array:
    """r of every row: how long z may be, less what rounding may add, [rows]."""
    longest = longest_root(unit, grid)
    return np.maximum(np.sqrt(weight) * longest - math.sqrt(dimension) / 2, 0.0)


def square_roots(features: Shorts, roots: Array) -> Units:
    """z of every row, whole numbers whose z z' is the row's part in A, [rows, d]."""
    factor = (roots * (1.0 / LONGEST)).astype(np.float32)
    return np.rint(factor[:, None] * features.astype(np.float32)).astype(np.int64)


def right_hand_sides(features: Shorts, factor: Array) -> Units:
    """Factor times x of every row, toward zero, [rows, d]; ``factor`` [rows] is in units of the grid."""
    small = np.where(np.abs(factor) < _BEYOND, factor, 0.0).astype(np.float32)
    parts = np.trunc(small[:, None] * features.astype(np.float32))
    return np.where(np.abs(parts) < _MOST_SHORT_UNITS, parts, 0).astype(np.int64)


def gradients(features: Array, slope: Array, grid: float) -> Units:
    """Slope times x of every row, toward zero, [rows, d]."""
    with np.errstate(over="ignore", invalid="ignore"):
        parts = (slope / grid)[:, None] * features
        return np.where(np.abs(parts) < _MOST_UNITS, np.trunc(parts), 0.0).astype(np.int64)


def usable_slopes(slope: Array, norm: Array) -> Array:
    """Slopes, zero where they are not finite or where features are smaller than any data, [rows]."""
    return np.where(np.isfinite(slope) & (norm >= 1e-150), slope, 0.0)


def shortened(slope: Array, excess: Array | np.float64) -> Array:
    """Slopes over how often their gradient exceeds the bound, where it does, [rows]."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return np.where(excess > 1.0, slope / excess, slope)
