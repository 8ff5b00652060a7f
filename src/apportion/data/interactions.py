"""Who interacted with what: ratings or plain events of users and items."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.checks import number
from apportion.data.cards import catalog_fact, data_card
from apportion.data.catalog import Catalog, listed, read_catalog
from apportion.data.graph import Graph
from apportion.data.ids import Integers, id_keys, number_ids, read_column
from apportion.data.orientation import Orientation, sort_rows, turned
from apportion.data.ratings import check_range, read_ratings
from apportion.data.rows import Rows
from apportion.data.sorting import (
    number_rows,
)
from apportion.data.sources import ALL_RATINGS, Sources
from apportion.data.splits import Splits
from apportion.data.summary import Summary, summarize
from apportion.data.times import Times, read_times, times_of_pairs
from apportion.data.weights import (
    WEIGHT_BOUND,
    check_weight_bound,
    confidences,
    events_of,
    read_weights,
)
from apportion.errors import DataError
from apportion.frames import pl
from apportion.threads import side_by_side


class Interactions(Sources, Splits):
    """Ratings, or events without a rating, of users and items; each (user, item) once.

    Rows that repeat a (user, item) are merged: ratings are averaged, events count once, or by their weights.

    Args:
        user, item: ids of any type, [rows].
        rating: one number per row, or None for implicit feedback.
        items: the public catalog: the number of items (ids are then 0, 1, ...), a list of ids, the path of
            a file of one id a line, or ``"public"`` to declare the ids found in the data public. Without
            one a private model has to find its items privately: ``MatrixFactorization(catalog="private")``.
        rating_range: the smallest and largest possible rating, public.
        outside: what to do with ratings outside the range: ``"error"`` or ``"clip"``.
        timestamp: when each row was: numbers, dates or times; for ``split_time`` and ``leave_out`` only.
        weight: of events, how much each row counts, a number above 0 for each; ``True`` counts repeated
            rows. A user's budget goes to its items by these (``docs/how-to/data.md``); it does not grow.
        weight_bound: the largest weight that a user's rows of one item add up to; public.

    >>> data = Interactions(["ann", "ann", "bob"], ["x", "y", "x"], [5, 3, 4], items=["x", "y", "z"],
    ...                     rating_range=(1, 5))
    >>> data
    Interactions(items=3, explicit, ratings from 1 to 5)
    """

    # When each interaction was, last, in the order of ``by_user``, [rows].
    time: Times | None = None
    # Of weighted events, the weight of each as a share of the largest, in the order of ``by_user``, [rows].
    confidence: NDArray[np.float32] | None = None
    weight_bound: float = WEIGHT_BOUND

    def __init__(
        self,
        user: Any,
        item: Any,
        rating: ArrayLike | None = None,
        *,
        items: Catalog = None,
        rating_range: tuple[float, float] | None = None,
        outside: Literal["error", "clip"] = "error",
        timestamp: Any = None,
        weight: ArrayLike | bool | None = None,
        weight_bound: float = WEIGHT_BOUND,
    ) -> None:
        user_ids, item_ids = read_column("user", user), read_column("item", item)
        if len(user_ids) != len(item_ids):
            raise DataError(f"user has {len(user_ids)} rows and item has {len(item_ids)}")
        self.rating_range = check_range(rating_range)
        ratings = None
        if rating is not None:
            ratings = read_ratings(rating, len(user_ids), self.rating_range, outside)
        weights = read_weights(weight, len(user_ids), rated=rating is not None)
        self.weight_bound = check_weight_bound(weight_bound)
        self.events = "given" if rating is None else None
        items = listed("item", items, item_ids)
        self.catalog_is_public = items is not None
        self.catalog_from_data = isinstance(items, str)
        # What polars does with strings it does in one thread.
        (self.item_ids, item_codes), (self.user_ids, user_codes) = side_by_side(
            lambda number: number(),
            [lambda: read_catalog("item", items, item_ids), lambda: number_ids(user_ids)],
        )
        self.by_user, by_item = sort_rows(
            user_codes, len(self.user_ids), item_codes, len(self.item_ids), ratings
        )
        if by_item is not None:
            self.by_item = by_item
        if timestamp is not None:
            times = read_times("timestamp", timestamp, len(user_ids))
            self.time = times_of_pairs(self.by_user, user_codes, item_codes, self.items, times)
        if weights is not None:
            self.events = events_of(self.weight_bound)
            self.confidence = confidences(
                self.by_user, user_codes, item_codes, self.items, weights, self.weight_bound
            )

    @property
    def items(self) -> int:
        """The number of items in the catalog."""
        return len(self.item_ids)

    @property
    def users(self) -> int:
        """The number of users. Not public."""
        return len(self.user_ids)

    @property
    def explicit(self) -> bool:
        """Whether there are ratings."""
        return self.by_user.rating is not None

    @cached_property
    def user_key(self) -> NDArray[np.uint64]:
        """A number for each user that depends on nothing but its id, [users]."""
        return id_keys(self.user_ids)

    @property
    def user_of_row(self) -> Integers:
        """The user of each interaction, in the order of ``by_user``, [rows]."""
        rows = number_rows(self.by_user.start)
        rows.flags.writeable = False
        return rows

    @cached_property
    def by_item(self) -> Orientation:
        """The interactions of each item, users in ascending order."""
        return turned(self.by_user, self.items)

    def rows(self) -> Rows:
        """As an engine loads them."""
        return Rows(
            start=self.by_user.start,
            task=self.by_user.other,
            task_ids=self.item_ids,
            user_key=self.user_key,
            label=self.by_user.rating,
            task_key=self._item_key,
            confidence=self.confidence,
        )

    def contents(self) -> list[Any]:
        """All that a training sees of the data: what a checkpoint compares."""
        public = [self.rating_range, self.events, self.catalog_is_public, self.catalog_from_data]
        weights = [] if self.confidence is None else [self.confidence]
        return [self.by_user, self.user_key, self.item_ids, *public, *weights]

    @property
    def graph(self) -> Graph:
        """Who interacted with what, items being the tasks."""
        item = self.by_user.other.view()
        item.flags.writeable = False  # so that it is shared, and not copied
        return Graph(self.user_of_row, item, self.user_key, self.items, self._item_key)

    @cached_property
    def _item_key(self) -> NDArray[np.uint64] | None:
        """Numbers of the items that do not depend on other items, unless the catalog is public."""
        return None if self.catalog_is_public else id_keys(self.item_ids)

    def summary(self) -> Summary:
        """Users, items, rows, density and skew: exact, so for whoever has the data only."""
        return summarize(self)

    def to_frame(self) -> pl.DataFrame:
        """The rows as a table of user, item and, if there are any, rating, timestamp and weight; merged."""
        columns = {
            "user": pl.Series(self.user_ids)[self.user_of_row],
            "item": pl.Series(self.item_ids)[self.by_user.other],
        }
        if self.by_user.rating is not None:
            columns["rating"] = pl.Series(self.by_user.rating)
        if self.time is not None:
            columns["timestamp"] = pl.Series(self.time)
        if self.confidence is not None:
            columns["weight"] = pl.Series(self.confidence * np.float32(self.weight_bound))
        return pl.DataFrame(columns)

    def take(self, rows: NDArray[Any]) -> Interactions:
        """The interactions at these rows of ``by_user`` (or where this mask is true); same users, items.

        They stay in the order of ``by_user``, each once, in whatever order the rows are named.
        """
        kept = np.zeros(len(self.by_user.other), dtype=bool)
        kept[rows] = True
        part = object.__new__(Interactions)
        cached = ("by_item", "_item_key")
        part.__dict__ = {name: value for name, value in vars(self).items() if name not in cached}
        user, item = self.user_of_row[kept], self.by_user.other[kept]
        rating = None if self.by_user.rating is None else self.by_user.rating[kept]
        start = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=self.users))])
        part.by_user = Orientation(start, item, rating)
        part.time = None if self.time is None else self.time[kept]
        part.confidence = None if self.confidence is None else self.confidence[kept]
        return part

    def of_items(self, places: Integers) -> Interactions:
        """The interactions with these items of the catalog, which become the catalog; same users."""
        renumbered = np.full(self.items, -1, dtype=self.by_user.other.dtype)
        renumbered[places] = np.arange(len(places))
        part = self.take(renumbered[self.by_user.other] >= 0)
        rows = part.by_user
        other = renumbered[rows.other]
        order = np.lexsort((other, part.user_of_row))
        rating = None if rows.rating is None else rows.rating[order]
        part.by_user = Orientation(rows.start, other[order], rating)
        part.time = None if part.time is None else part.time[order]
        part.confidence = None if part.confidence is None else part.confidence[order]
        part.item_ids = self.item_ids[places]
        return part

    def positives(self, at_least: float) -> Interactions:
        """Events without ratings: the interactions rated at least this high."""
        if self.by_user.rating is None:
            raise DataError("these interactions have no ratings")
        part = self.take(self.by_user.rating >= number("at_least", at_least))
        every = at_least == -np.inf
        part.events = ALL_RATINGS if every else f"ratings of at least {at_least:g}"
        part.by_user = Orientation(part.by_user.start, part.by_user.other, None)
        return part

    def __repr__(self) -> str:
        # Public facts only: the numbers of users and rows are not.
        facts = [f"items={self.items}"] if self.catalog_is_public else []
        facts.append("explicit" if self.explicit else "implicit")
        if self.explicit and self.rating_range:
            facts.append("ratings from {:g} to {:g}".format(*self.rating_range))
        return f"Interactions({', '.join(facts)})"

    def _repr_html_(self) -> str:
        return data_card(
            "Interactions",
            {
                "items": catalog_fact(self),
                "feedback": "ratings" if self.explicit else "events",
                **(
                    {"rating range": "{:g} to {:g}".format(*self.rating_range)}
                    if self.rating_range
                    else {}
                ),
                **({"events": self.events} if self.events else {}),
                "times": "none" if self.time is None else "given, for splits alone",
            },
            "summary() tells them",
        )
