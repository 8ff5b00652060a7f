"""Interactions grouped by user or by item; rows that repeat a pair of both are one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.data.ids import Integers
from apportion.data.sorting import ascends, group, group_twice, index_type, starts, turn


@dataclass(frozen=True, eq=False)
class Orientation:
    """The interactions grouped by user or by item.

    Attributes
        start: where each group begins, with the end appended, [groups + 1].
        other: the item (of a user's) or the user (of an item's) of each interaction, [rows].
        rating: of each interaction, [rows], or None for plain events.
    """

    start: Integers
    other: Integers
    rating: NDArray[np.float32] | None


def sort_rows(
    user: Integers, users: int, item: Integers, items: int, rating: NDArray[np.float32] | None
) -> tuple[Orientation, Orientation | None]:
    """By user, then item, with rows merged that repeat a pair; and by item, if that came about.

    By two stable sorts, of which files often have one or both behind them already.
    """
    item, by_item = np.asarray(item, dtype=index_type(items)), None
    if ascends(item):
        by_user = Orientation(*group(user, users, item, rating))
    elif not ascends(user):
        by_user = Orientation(*group_twice(item, items, user, users, rating))
    else:
        start = starts(user, users)
        if ascends(item, start):
            # The caller's own, perhaps, which may change.
            return Orientation(start, item, None if rating is None else rating.copy()), None
        by_item = Orientation(*group(item, items, user, rating))
        by_user = turned(by_item, users)
    repeats = by_user.other[1:] == by_user.other[:-1]
    edges = by_user.start[1:-1]
    repeats[edges[(edges > 0) & (edges < len(item))] - 1] = False
    if not repeats.any():
        return by_user, by_item
    first = np.flatnonzero(np.concatenate([[True], ~repeats]))
    rating = by_user.rating
    if rating is not None:
        rating = _in_order(rating, first, repeats)
        count = np.diff(np.append(first, len(rating)))
        rating = (np.add.reduceat(rating.astype(np.float64), first) / count).astype(np.float32)
    return Orientation(np.searchsorted(first, by_user.start), by_user.other[first], rating), None


def _in_order(
    rating: NDArray[np.float32], first: Integers, repeats: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """The ratings of each pair in ascending order: what they add up to does not depend on their rows'."""
    several = np.flatnonzero(np.append(False, repeats) | np.append(repeats, False))
    pair = np.searchsorted(first, several, side="right")
    rating = rating.copy()
    rating[several] = rating[several[np.lexsort((rating[several], pair))]]
    return rating


def turned(side: Orientation, others: int) -> Orientation:
    """The interactions grouped the other way, in ascending order of the groups they were in."""
    return Orientation(*turn(side.start, side.other, others, side.rating))
