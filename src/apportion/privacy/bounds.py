"""What one user can change: the bounds on which every sensitivity rests, enforced and not assumed.

Sensitivity
    A statistic is a sum over users. User j gives to task i the value w_ij * z_ij. z_ij is made from the
    user's own features and labels and has norm at most Z; the weights satisfy sum over i of w_ij^2 <= 1.
    Stacked over all tasks, |user j's part|^2 = sum_i w_ij^2 |z_ij|^2 <= Z^2. Nothing that scales one
    user's part depends on another user, so adding or removing a user changes the stacked sums by exactly
    that user's part: Z is the L2 sensitivity, for any graph.

``clip_rows``, ``short_rows`` and ``clip_values`` bound z, ``UserWeights`` bounds w. Instead, a user's whole
part may be scaled down to Z (``scale_down``). Bounds are met with a relative margin of 1e-9, far above the
rounding of 64-bit numbers. Then ``rounding`` brings parts to whole units of a grid, so that sums are exact.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.checks import float_array, number, whole_array
from apportion.errors import ReleaseError
from apportion.privacy.rounding import LONGEST

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.integer[Any]]

# Relative distance that clipped numbers keep from their bound.
MARGIN = 1e-9
# By what portion a user's part may pass its bound where it is computed from 32-bit numbers.
ROUNDING = 2.0**-20
# The most units of the grid in a bound, and in the standard deviation of the noise.
_UNITS_IN_BOUND = 26
_UNITS_IN_NOISE = 50
_BLOCK = 1 << 12
_PAIRS = 1 << 20


@dataclass(frozen=True)
class UserBound:
    """The largest L2 norm of one user's part in a sum, over all tasks together, and why it holds."""

    norm: float
    because: str

    def __post_init__(self) -> None:
        # It may be a product of two bounds.
        norm = number("a per-user bound", self.norm, at_least=1e-200, at_most=1e200)
        object.__setattr__(self, "norm", norm)

    def grid(self, mu: float) -> float:
        """The grid for sums of such parts that are released at a cost of ``mu``: a power of two.

        The bound is 2^25 to 2^26 units: sums over 2^27 users, all at their bound in one task, are exact in
        64 bits. Only where noise is beyond all measure (a mu below 10^-7) is the grid coarser.

        >>> UserBound(3.0, "for example").grid(mu=1.0) * 2**24
        1.0
        """
        _, bits = math.frexp(self.norm)  # norm < 2^bits
        _, noise_bits = math.frexp(self.norm / mu)
        return math.ldexp(1.0, max(bits - _UNITS_IN_BOUND, noise_bits - _UNITS_IN_NOISE))


def clip_rows(rows: Floats, bound: float) -> NDArray[np.float64]:
    """Scale every row of ``rows`` [rows, d] down to an L2 norm of at most ``bound``.

    Returns ``rows`` itself if no row is longer.

    >>> clip_rows(np.array([[3.0, 4.0], [0.3, 0.4]]), bound=1.0).round(6)
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """
    limit = check_bound("bound", bound) * (1 - MARGIN)
    clipped: NDArray[np.float64] = np.asarray(rows, dtype=np.float64)
    long = np.flatnonzero(row_norms(clipped) > limit)
    if len(long):
        clipped = clipped.copy()
    for first in range(0, len(long), _BLOCK):  # so that no temporary is as large as rows
        some = long[first : first + _BLOCK]
        clipped[some] = _within(clipped[some], limit)
    return clipped


def short_rows(
    rows: Floats, bound: float, *, stretch: bool = False
) -> tuple[NDArray[np.int16], float]:
    """Rows [rows, d] as 16-bit whole numbers, and their unit, with an L2 norm of at most ``bound``.

    The unit is bound / (2^15 - 1). Rounding moves a row by at most sqrt(d) / 2 units, so rows are clipped
    (or stretched) to that much less than the bound. A row that is not finite gives zeros. What a row gives
    follows from the row alone, to the bit.

    >>> short, unit = short_rows(np.array([[3.0, 4.0], [0.3, 0.4]]), bound=1.0)
    >>> (short * unit).round(3)
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """
    unit = check_bound("bound", bound) / LONGEST
    limit = (bound - unit * math.sqrt(rows.shape[1]) / 2) * (1 - MARGIN)
    short = np.empty(rows.shape, dtype=np.int16)
    for first in range(0, len(rows), _BLOCK):  # so that no temporary is as large as rows
        block = np.asarray(rows[first : first + _BLOCK], dtype=np.float64)
        block = np.where(np.isfinite(block).all(axis=1, keepdims=True), block, 0.0)
        short[first : first + _BLOCK] = np.rint(_within(block, limit, stretch) / unit)
    return short, unit


def _within(rows: NDArray[np.float64], limit: float, stretch: bool = False) -> NDArray[np.float64]:
    """Rows no longer than the limit, or as long."""
    unit, norm, largest = _norms(rows)
    with np.errstate(over="ignore", divide="ignore"):
        change = (norm > limit / largest) | np.full(len(rows), stretch)
        factor = limit / np.maximum(norm, 1.0)  # at least the largest's own, but for zeros
    return np.where(change[:, None], unit * factor[:, None], rows)


def scale_down(norms: Floats, bound: float) -> NDArray[np.float64]:
    """Factors, at most one, that bring parts of these norms [users] down to at most ``bound``.

    >>> scale_down(np.array([4.0, 1.0]), bound=2.0).round(6)
    array([0.5, 1. ])
    """
    limit = check_bound("bound", bound) * (1 - MARGIN)
    norms = np.asarray(norms, dtype=np.float64)  # a shorter limit would be another one
    factors = np.ones(len(norms))
    # Where a norm is undefined (none times infinity) the part itself is zero.
    np.divide(limit, norms, out=factors, where=norms > limit)
    # So small a factor has few digits, and may be rounded up by more than the margin.
    factors[factors < np.finfo(np.float64).tiny] = 0.0
    return factors


def row_norms(rows: Floats) -> NDArray[np.float64]:
    """The L2 norm of every row, also where squares would leave the range of numbers, [rows]."""
    norms = np.empty(len(rows))
    for first in range(0, len(rows), _BLOCK):
        block = np.asarray(rows[first : first + _BLOCK], dtype=np.float64)
        _, norm, largest = _norms(block)
        with np.errstate(over="ignore"):
            norms[first : first + _BLOCK] = norm * largest
    return norms


def _norms(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Rows over their largest entry, the norms of those, and that entry: no square overflows."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    largest = np.where(largest > 0.0, largest, 1.0)
    with np.errstate(invalid="ignore"):  # infinite ones have no direction
        unit = rows / largest[:, None]
    return unit, np.sqrt(row_sums(unit * unit)), largest


def row_sums(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of every row, [rows]: column k in lane k mod 8, then the lanes by halves.

    So a row rounds alike whatever the other rows and the processor; libraries choose their order by shape.

    >>> row_sums(np.array([[1.0, 2.0, 3.0], [0.0, 0.5, 0.25]]))
    array([6.  , 0.75])
    """
    lanes = np.zeros((len(rows), 8))
    for first in range(0, rows.shape[1], 8):
        some = rows[:, first : first + 8]
        lanes[:, : some.shape[1]] += some
    for half in (4, 2, 1):
        lanes = lanes[:, :half] + lanes[:, half:]
    return np.ascontiguousarray(lanes[:, 0])


def clip_values(values: Floats, bound: float) -> NDArray[np.float64]:
    """Clip every value to [-bound, bound]. Returns ``values`` themselves if none is beyond.

    >>> clip_values(np.array([-7.0, 0.5]), bound=2.0)
    array([-2. ,  0.5])
    """
    bound = check_bound("bound", bound)
    given: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
    within = given.min(initial=0.0) >= -bound and given.max(initial=0.0) <= bound  # false for NaN
    return given if within else np.clip(given, -bound, bound)


@dataclass(frozen=True, eq=False)
class UserWeights:
    """Task weights w_ij of every (user, task) pair, with sum over i of w_ij^2 <= 1 for every user.

    Pairs are sorted by user, then task, and none occurs twice. All this is checked whenever such weights
    are made, in whatever way, on copies of what was given; these are read-only, [pairs].
    """

    user: Integers
    task: Integers
    values: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in ("user", "task"):
            object.__setattr__(self, name, whole_array(name, getattr(self, name)))
        object.__setattr__(self, "values", float_array("weights", self.values))
        check_pairs(self.user, self.task, self.values)
        for pairs, own in blocks_of_users(self.user):
            if not (np.bincount(own, self.values[pairs] ** 2) <= 1).all():
                raise ReleaseError(
                    "the weights of a user pass its budget; use scaling.normalized or clipped"
                )

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies are checked, too, and as little to be written to.
        return type(self), (self.user, self.task, self.values)

    def per_row(self, pair_of_row: Integers) -> NDArray[np.float64]:
        """The weight of each data row, given the pair that it belongs to, [rows].

        Rows of one user in one task share the pair's weight equally, so the task receives
        w_ij * (mean of z over those rows), of norm <= w_ij Z however often a row is repeated.
        """
        copies = np.bincount(pair_of_row, minlength=len(self.values))
        return self.values[pair_of_row] / copies[pair_of_row]

    def part_norms(self, values: Floats, users: int = 0) -> NDArray[np.float64]:
        """The norm of each user's w_ij z_ij over all tasks, z [pairs] being numbers, [users].

        Infinite where a square is too large to be written; ``users`` is the least length.
        """
        with np.errstate(over="ignore"):
            squares = (self.values * np.asarray(values, dtype=np.float64)) ** 2
        return np.sqrt(np.bincount(self.user, weights=squares, minlength=users))


def blocks_of_users(user: Integers) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """Slices of pairs, sorted by user, that keep each user's together, with users numbered from 0 on.

    So little memory is needed besides.
    """
    first = 0
    while first < len(user):
        last = user[min(first + _PAIRS, len(user)) - 1]
        stop = int(np.searchsorted(user, last, side="right"))
        own = np.asarray(user[first:stop], dtype=np.int64)  # short integers may wrap
        yield slice(first, stop), own - own[0]
        first = stop


def check_pairs(user: Integers, task: Integers, weights: NDArray[np.float64]) -> None:
    """Refuse weights that are not one for each of sorted, distinct pairs."""
    if not user.shape == task.shape == weights.shape:
        raise ReleaseError("user, task and weights must have one entry per pair")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ReleaseError("weights must be finite and not negative")
    if len(user) and user[0] < 0:
        raise ReleaseError("users are numbered from 0 on")
    same = user[1:] == user[:-1]
    if (user[1:] < user[:-1]).any() or (task[1:] <= task[:-1])[same].any():
        raise ReleaseError("(user, task) pairs must be sorted and distinct: merge repeats first")


def check_bound(name: str, bound: float) -> float:
    """A bound as a plain float: finite and positive, since it decides how much noise is added."""
    return number(name, bound, at_least=1e-100, at_most=1e100)
