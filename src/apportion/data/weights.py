"""Events that count by how often they were, or by a weight: one bounded confidence for each pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from apportion.checks import number
from apportion.data.ids import Integers
from apportion.data.numeric import read_numbers
from apportion.errors import DataError, ParameterError

if TYPE_CHECKING:
    from apportion.data.orientation import Orientation

# Of all repeats of a pair together, unless another bound is given.
WEIGHT_BOUND = 10.0
# No confidence is smaller: numbers stay far from the smallest that 32 bits hold.
_LEAST = 1e-6


def read_weights(weight: Any, rows: int, *, rated: bool) -> NDArray[np.float64] | None:
    """One weight for each row, above zero; ``True`` is one for every row, None none at all."""
    if weight is None or weight is False:
        return None
    if rated:
        raise ParameterError("weight is for events: leave out the ratings (rating=None)")
    if weight is True:
        return np.ones(rows)
    values = np.asarray(read_numbers("weight", weight, np.float64))
    if values.shape != (rows,):
        raise DataError(f"weight must have one number for each of {rows} rows, got {values.shape}")
    if not (right := np.isfinite(values) & (values > 0)).all():
        raise DataError(
            f"weight: row {int(np.argmin(right))} is missing, not finite or not above 0"
        )
    return values


def check_weight_bound(bound: float) -> float:
    """The largest weight of a pair."""
    return number("weight_bound", bound, at_least=1e-9, at_most=1e12)


def events_of(bound: float) -> str:
    """What ``events`` says of them."""
    return f"given, with weights of at most {bound:g} a pair"


def confidences(
    by_user: Orientation,
    user: Integers,
    item: Integers,
    items: int,
    weight: NDArray[np.float64],
    bound: float,
) -> NDArray[np.float32]:
    """Of each pair of user and item the sum of its rows' weights, as a share of the bound, at most one.

    In the order of ``by_user``, [pairs]. A pair's own rows decide it, in whatever order they come.
    """
    users = np.repeat(np.arange(len(by_user.start) - 1), np.diff(by_user.start))
    pairs = users * max(1, items) + by_user.other
    place = np.searchsorted(pairs, user.astype(np.int64) * items + item)
    several = np.flatnonzero(np.bincount(place, minlength=len(pairs))[place] > 1)
    order = several[np.lexsort((weight[several], place[several]))]
    sums = np.empty(len(pairs))
    sums[place] = np.minimum(weight, bound)
    # Those of repeated pairs are added up row by row, in ascending order.
    sums[place[order]] = 0.0
    np.add.at(sums, place[order], np.minimum(weight[order], bound))
    return np.clip(sums / bound, _LEAST, 1.0).astype(np.float32)
