"""Histories, however they are given: a list, a dict, a Series or a table; of one user or of many."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.checks import number
from apportion.data import Interactions
from apportion.data.files import is_table, table_of
from apportion.data.ids import Integers, read_ids
from apportion.errors import DataError, ParameterError

Array = NDArray[np.float64]
Ids = NDArray[Any]

# Ids of items, a list or an array; or ratings by item: a mapping, a pandas Series, or a table of both.
History = Any


@dataclass(frozen=True, eq=False)
class Rows:
    """Histories of users [users] as places in the model.

    start is [users + 1], item and rating (less the item's intercept) [rows], mean and user [users].
    """

    start: Integers
    item: Integers
    rating: NDArray[Any] | None
    mean: Array
    user: Integers

    def of_users(self, users: Any) -> "Rows":
        """Those of these users, in this order."""
        wanted: Integers = np.asarray(users)
        inside = wanted.dtype.kind in "iu" and ((wanted >= 0) & (wanted < len(self.user))).all()
        if not inside:
            raise ParameterError("users must be numbers of users of the histories")
        size = np.diff(self.start)[wanted]
        start = np.concatenate([[0], np.cumsum(size)])
        row = np.repeat(self.start[wanted] - start[:-1], size) + np.arange(start[-1])
        rating = None if self.rating is None else self.rating[row]
        return Rows(start, self.item[row], rating, self.mean[wanted], self.user[wanted])


def read_history(
    history: History, explicit: bool, within: tuple[float, float] | None
) -> tuple[Ids, Array | None]:
    """The items of one user's history, and their ratings if the model wants some, [rows] each."""
    items, ratings = _parts(history, explicit)
    ids = read_ids("history", items)
    if ratings is None:
        return ids, None
    return ids, _ratings(ratings, within or (-1e30, 1e30))


def _parts(history: History, explicit: bool) -> tuple[Any, Sequence[Any] | None]:
    if isinstance(history, Mapping):
        return list(history), list(history.values()) if explicit else None
    if is_table(history):
        wanted = ["item", "rating"] if explicit else ["item"]
        try:
            history = table_of(history, wanted)
        except DataError:
            needs = " and ".join(wanted)
            raise DataError(f"a history given as a table needs columns {needs}") from None
        items, *ratings = (list(np.asarray(history[name])) for name in wanted)
        if len(set(items)) < len(items):
            raise DataError("the history names the same item twice")
        return items, ratings[0] if explicit else None
    if explicit and hasattr(history, "items") and hasattr(history, "index"):  # a pandas Series
        if not history.index.is_unique:
            raise DataError("the history names the same item twice")
        return list(history.index), list(history)
    if explicit:
        raise DataError(
            "this model was trained on ratings: give the history as {item: rating, ...}, "
            "as a pandas Series of ratings by item, or as a table with columns item and rating"
        )
    return history, None


def _ratings(values: Sequence[Any], within: tuple[float, float]) -> Array:
    """The ratings of a history, [rows]; an error names the row, not the rating."""
    low, high = within
    ratings = np.zeros(len(values))
    for row, value in enumerate(values):
        try:
            ratings[row] = number("rating", value, at_least=low, at_most=high)
        except ParameterError:
            raise DataError(
                f"history: the rating in row {row} (from 0 on) is not a number from {low:g} to {high:g}"
            ) from None
    return ratings


def is_spark_frame(table: Any) -> bool:
    """Whether this is a frame of Spark."""
    return type(table).__module__.startswith("pyspark.sql") and hasattr(table, "mapInArrow")


def read_histories(
    histories: Any, explicit: bool, within: tuple[float, float] | None
) -> Interactions:
    """Many users' histories: as they are, or from a table with columns user, item and (ratings) rating."""
    if isinstance(histories, Interactions):
        return histories
    if is_table(histories):
        rating = "rating" if explicit else None
        return Interactions.from_frame(histories, rating=rating, rating_range=within)
    raise DataError(
        "expected Interactions, or a table with columns user and item (and rating), "
        f"got a {type(histories).__name__}"
    )
