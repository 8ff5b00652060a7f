"""Who interacted with what: ratings or plain events of users and items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.checks import number, whole, word
from apportion.data.cards import catalog_fact, data_card
from apportion.data.catalog import Catalog, id_type, read_catalog
from apportion.data.files import from_stream, has_column, read_columns, table_of
from apportion.data.graph import Graph, mix
from apportion.data.ids import Integers, column_array, id_keys, number_ids, read_column
from apportion.data.numeric import read_numbers
from apportion.data.orientation import Orientation, sort_rows, turned
from apportion.data.rows import Rows
from apportion.data.sorting import (
    number_rows,
)
from apportion.data.summary import Summary, summarize
from apportion.data.times import Times, last_of_users, read_time, read_times, times_of_pairs
from apportion.errors import DataError, ParameterError
from apportion.frames import pl
from apportion.threads import extremes, row_blocks, side_by_side

# What ``events`` says of events that were made of every rating there was.
ALL_RATINGS = "all ratings"


class Interactions:
    """Ratings, or events without a rating, of users and items; each (user, item) once.

    Rows that repeat a (user, item) are merged: ratings are averaged, events count once.

    Args:
        user, item: ids of any type, [rows].
        rating: one number per row, or None for implicit feedback.
        items: the public catalog: the number of items (ids are then 0, 1, ...), a list of ids, or
            ``"public"`` to declare the ids found in the data public. Without one a private model has to
            find its items privately: ``MatrixFactorization(catalog="private")``.
        rating_range: the smallest and largest possible rating, public.
        outside: what to do with ratings outside the range: ``"error"`` or ``"clip"``.
        timestamp: when each row was: numbers, dates or times; for ``split_time`` and ``leave_out`` only.

    >>> data = Interactions(["ann", "ann", "bob"], ["x", "y", "x"], [5, 3, 4], items=["x", "y", "z"],
    ...                     rating_range=(1, 5))
    >>> data
    Interactions(items=3, explicit, ratings from 1 to 5)
    """

    # When each interaction was, last, in the order of ``by_user``, [rows].
    time: Times | None = None

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
    ) -> None:
        user_ids, item_ids = read_column("user", user), read_column("item", item)
        if len(user_ids) != len(item_ids):
            raise DataError(f"user has {len(user_ids)} rows and item has {len(item_ids)}")
        self.rating_range = check_range(rating_range)
        ratings = None
        if rating is not None:
            ratings = _read_ratings(rating, len(user_ids), self.rating_range, outside)
        self.events = "given" if rating is None else None
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

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        user: str = "user",
        item: str = "item",
        rating: str | None = "rating",
        items: Catalog = None,
        rating_range: tuple[float, float] | None = None,
        outside: Literal["error", "clip"] = "error",
        timestamp: str | None = None,
    ) -> Self:
        """Read named columns of a pandas, polars (lazy, too) or pyarrow table; ``rating=None`` for events.

        >>> import polars as pl
        >>> frame = pl.DataFrame({"user": [1, 1, 2], "item": [7, 8, 7], "rating": [4.0, 3.5, 5.0]})
        >>> Interactions.from_frame(frame, items=[7, 8], rating_range=(0.5, 5.0))
        Interactions(items=2, explicit, ratings from 0.5 to 5)
        """
        names = [name for name in (user, item, rating, timestamp) if name is not None]
        given = from_stream(frame)
        frame = table_of(given, names)
        found = cls(
            frame[user],
            frame[item],
            None if rating is None else frame[rating],
            items=items,
            rating_range=rating_range,
            outside=outside,
            timestamp=None if timestamp is None else frame[timestamp],
        )
        return found if rating or not has_column(given, "rating") else found._of_all_ratings()

    @classmethod
    def from_path(
        cls,
        path: str | Path | Sequence[str | Path],
        *,
        separator: str | None = None,
        quote: str | None = '"',
        encoding: str = "utf-8",
        **columns: Any,
    ) -> Self:
        """Read CSV or Parquet files, or a folder of them; ``columns`` as in ``from_frame``.

        CSV files may be compressed (gzip, Zstandard). What separates their columns is found, among comma,
        semicolon, tab and bar, or given; ``quote=None`` takes quotes for letters. ``encoding`` names the
        letters of files that are not UTF-8: "latin-1", "cp1252", "utf-16".

        Ids of users in a CSV file, and of items with ``items="public"``, are whole numbers if they are
        written as such in every row, else strings. Those of items have the type of the catalog, and are
        strings if there is none: what one row looks like must not change the others.
        """
        user, item = (columns.get(name, name) for name in ("user", "item"))
        rating, time = columns.get("rating", "rating"), columns.get("timestamp")
        frame = read_columns(
            path,
            [user, item],
            [] if rating is None else [rating],
            {item: id_type(columns.get("items"))},
            others=[] if time is None else [time],
            separator=separator,
            quote=quote,
            encoding=encoding,
        )
        found = cls.from_frame(frame, **columns)
        return (
            found if rating or not has_column(path, "rating", encoding) else found._of_all_ratings()
        )

    @classmethod
    def from_sparse(
        cls,
        matrix: Any,
        *,
        feedback: Literal["explicit", "implicit"] | None = None,
        public_items: bool = True,
        rating_range: tuple[float, float] | None = None,
        outside: Literal["error", "clip"] = "error",
    ) -> Self:
        """Read a scipy.sparse matrix of users x items; its width is the public number of items.

        ``feedback="explicit"``, the default where there is a ``rating_range``, takes the stored entries as
        ratings; ``"implicit"``, the default without one, every one that is not zero as an event. A user's
        id is its row number: a user who leaves must leave an empty row behind, or the others' ids, and
        with them their sides of a ``split``, change.
        """
        if not (hasattr(matrix, "tocoo") and getattr(matrix, "ndim", 2) == 2):
            raise DataError(
                f"from_sparse takes a scipy.sparse matrix, got a {type(matrix).__name__}"
            )
        if feedback is None:
            feedback = "implicit" if rating_range is None else "explicit"
        word("feedback", feedback, ("explicit", "implicit"))
        if feedback == "implicit" and rating_range is not None:
            raise ParameterError(
                'events have no rating_range: leave it out, or feedback="explicit" to take entries as ratings'
            )
        entries = matrix.tocoo()
        kept = entries.data != 0 if feedback == "implicit" else np.ones(entries.nnz, dtype=bool)
        return cls(
            entries.row[kept],
            entries.col[kept],
            entries.data if feedback == "explicit" else None,
            items=int(matrix.shape[1]) if public_items else None,
            rating_range=rating_range,
            outside=outside,
        )

    @staticmethod
    def from_spark(
        frame: Any,
        *,
        user: str = "user",
        item: str = "item",
        rating: str | None = "rating",
        items: Catalog = None,
        rating_range: tuple[float, float] | None = None,
        outside: Literal["error", "clip"] = "error",
        positives: float | None = None,
        store: str | None = None,
        shards: int | None = None,
    ) -> Interactions:
        """Read named columns of a Spark frame, or of Parquet files at any path that Spark reads.

        Rows never come to this machine: they are grouped by user on the executors, checked and merged there
        as in ``from_frame``, and stored. Train with ``engine=ap.SparkEngine(session)``.

        Args:
            frame: a ``pyspark.sql.DataFrame``, or a path.
            user, item, rating: names of columns; ``rating=None`` for events.
            items, rating_range, outside: as in ``Interactions``.
            positives: take ratings of at least this as events, and no others.
            store: a new folder that all executors reach, for the rows that trainings see. By default, on one
                machine, a temporary one. ``Interactions.from_store`` reads it again.
            shards: in how many parts users are divided; by default it follows from the sizes.
        """
        from apportion.data.spark.interactions import interactions_from_spark

        return interactions_from_spark(
            frame,
            user=user,
            item=item,
            rating=rating,
            items=items,
            rating_range=rating_range,
            outside=outside,
            positives=positives,
            store=store,
            shards=shards,
        )

    @staticmethod
    def from_store(session: Any, store: str) -> Interactions:
        """What ``from_spark(..., store=...)`` wrote: the same rows, whatever has become of the frame."""
        from apportion.data.spark.interactions import interactions_from_store

        return interactions_from_store(session, store)

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
        )

    def contents(self) -> list[Any]:
        """All that a training sees of the data: what a checkpoint compares."""
        public = [self.rating_range, self.events, self.catalog_is_public, self.catalog_from_data]
        return [self.by_user, self.user_key, self.item_ids, *public]

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
        """The rows as a table of user, item and, if there are any, rating and timestamp; merged, by user."""
        columns = {
            "user": pl.Series(self.user_ids)[self.user_of_row],
            "item": pl.Series(self.item_ids)[self.by_user.other],
        }
        if self.by_user.rating is not None:
            columns["rating"] = pl.Series(self.by_user.rating)
        if self.time is not None:
            columns["timestamp"] = pl.Series(self.time)
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

    def _of_all_ratings(self) -> Self:
        """These events, from a table that has ratings: its reader left them out."""
        self.events = ALL_RATINGS
        return self

    def split(
        self, shares: Sequence[float] = (0.8, 0.1, 0.1), seed: int = 0
    ) -> tuple[Interactions, ...]:
        """Split the interactions at random in these shares (training, validation, test).

        An interaction's part depends on the seed, its user and its item alone.
        """
        return self._parts(shares, self.graph.scores(_key(seed)))

    def split_users(
        self, shares: Sequence[float] = (0.9, 0.1), seed: int = 0
    ) -> tuple[Interactions, ...]:
        """Split the users at random in these shares, each with all of its interactions.

        A user's part depends on the seed and its own id alone.
        """
        lot = mix(self.user_key ^ np.uint64(_key(seed)))
        return self._parts(shares, lot[self.user_of_row])

    def _parts(
        self, shares: Sequence[float], scores: NDArray[np.uint64]
    ) -> tuple[Interactions, ...]:
        """The interactions whose random 64-bit numbers [rows] fall in each share of their range."""
        if isinstance(shares, (int, float, str)) or not hasattr(shares, "__iter__"):
            raise ParameterError(
                f"shares must be one number for each part, such as (0.8, 0.2), got {shares!r}"
            )
        shares = [number("a share", share, above=0, at_most=1) for share in shares]
        if abs(sum(shares) - 1) > 1e-9:
            raise ParameterError(f"the shares of a split must sum to 1, got {shares}")
        part = np.searchsorted(np.cumsum(shares)[:-1], scores / 2.0**64, side="right")
        return tuple(self.take(part == place) for place in range(len(shares)))

    def split_time(self, at: Any) -> tuple[Interactions, Interactions]:
        """Split the interactions in those before a time, a number, date or text, and those from then on."""
        before = self._times() < read_time("at", at)
        return self.take(before), self.take(~before)

    def leave_out(
        self, k: int = 1, *, last: bool = False, seed: int = 0
    ) -> tuple[Interactions, Interactions]:
        """Take k interactions of every user out, at random or the last ones; one at least stays.

        Of users with k interactions or fewer, all but one are taken out. Who has only one keeps it. What is
        left for training comes first. A user's part depends on the seed and its own rows alone.
        """
        k, lot = whole("k", k, at_least=1), self.graph.scores(_key(seed))
        order = (lot, self._times()) if last else (lot,)
        out = last_of_users(self.by_user.start, order, k)
        return self.take(~out), self.take(out)

    def _times(self) -> Times:
        if self.time is None:
            raise DataError("these interactions have no times: give timestamp= when they are read")
        return self.time

    def hold_out_users(
        self, users: int | None = None, history: float = 0.8, at_least: int = 1, seed: int = 0
    ) -> tuple[Interactions, HeldOut]:
        """Keep some users out of training: their history to recommend from, their labels to find.

        Args:
            users: how many, chosen at random among those with ``at_least`` interactions; None for all.
            history: the share of a held-out user's interactions that is its history, at least one; one
                is left as a label where the user has two or more.
            at_least: the number of interactions a held-out user must have.
            seed: for choosing; a user's lot depends on its own id and interactions.
        """
        key, at_least = _key(seed), whole("at_least", at_least, at_least=1)
        history = number("history", history, above=0, below=1)
        lot = mix(self.user_key ^ np.uint64(key))
        eligible = np.flatnonzero(np.diff(self.by_user.start) >= at_least)
        if users is not None and whole("users", users, at_least=1) > len(eligible):
            raise DataError(f"fewer than {users} users have at least {at_least} interactions")
        held = np.zeros(self.users, dtype=bool)
        held[eligible[np.argsort(lot[eligible], kind="stable")[:users]]] = True
        graph = self.graph
        of_held = held[graph.user]
        rank = graph.rank_within_user(graph.scores(key))
        size = np.diff(self.by_user.start)[graph.user]
        known = rank < np.clip(np.round(history * size), 1, np.maximum(1, size - 1))
        held_out = HeldOut(
            self.take(of_held & known), self.take(of_held & ~known), np.flatnonzero(held)
        )
        return self.take(~of_held), held_out

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


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Users outside training: what is known of them, what is to be found, and their numbers [users]."""

    history: Interactions
    labels: Interactions
    users: Integers


def _key(seed: int) -> int:
    return whole("seed", seed, at_least=0) % 2**64


def check_range(rating_range: tuple[float, float] | None) -> tuple[float, float] | None:
    """Two numbers that go up, or None."""
    if rating_range is None:
        return None
    try:
        low, high = (
            number("rating_range", value, at_least=-1e30, at_most=1e30) for value in rating_range
        )
    except (TypeError, ValueError):
        raise ParameterError(f"rating_range must be two numbers, got {rating_range!r}") from None
    if not low < (low + high) / 2 < high:
        raise ParameterError(f"rating_range must go up, got {rating_range!r}")
    return low, high


def _read_ratings(
    rating: Any, rows: int, rating_range: tuple[float, float] | None, outside: str
) -> NDArray[np.float32]:
    word("outside", outside, ("error", "clip"))
    try:
        given = column_array(rating) if isinstance(rating, pl.Series) else rating
    except pl.exceptions.PolarsError:
        raise DataError("rating must hold numbers only") from None
    values = read_numbers("rating", given, np.float32)  # infinite if 32 bits cannot hold it
    if values.shape != (rows,):
        raise DataError(f"rating must have one number for each of {rows} rows, got {values.shape}")
    # NaN if there is one.
    least, greatest = extremes([values[some] for some in row_blocks(rows)]) if rows else (0.0, 0.0)
    if not np.isfinite([least, greatest]).all():
        row = int(np.argmin(np.isfinite(values)))
        raise DataError(f"rating: row {row} is missing or not finite")
    if rating_range is None:
        return values
    low, high = rating_range
    if outside == "clip":
        return np.asarray(np.clip(values, low, high), dtype=np.float32)
    low32, high32 = np.float32(low), np.float32(high)
    if rows and (least < low32 or greatest > high32):
        row = int(np.argmin((values >= low32) & (values <= high32)))
        raise DataError(
            f'rating: row {row} is outside {low:g} to {high:g}; outside="clip" clips it (--outside clip)'
        )
    return values
