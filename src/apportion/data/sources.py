"""Where interactions come from: tables, files, sparse matrices, clusters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import numpy as np

from apportion.checks import word
from apportion.data.catalog import Catalog, id_type, listed
from apportion.data.files import from_stream, has_column, read_columns, table_of
from apportion.data.weights import (
    WEIGHT_BOUND,
)
from apportion.errors import DataError, ParameterError

if TYPE_CHECKING:
    from apportion.data.interactions import Interactions


# What ``events`` says of events that were made of every rating there was.
ALL_RATINGS = "all ratings"


class _Made(Protocol):
    """What a reader makes: ``Interactions``."""

    events: str | None

    def __init__(self, user: Any, item: Any, rating: Any = None, **others: Any) -> None: ...


_Of = TypeVar("_Of", bound=_Made)


class Sources:
    """Every way of reading interactions."""

    @classmethod
    def from_frame(
        cls: type[_Of],
        frame: Any,
        *,
        user: str = "user",
        item: str = "item",
        rating: str | None = "rating",
        items: Catalog = None,
        rating_range: tuple[float, float] | None = None,
        outside: Literal["error", "clip"] = "error",
        timestamp: str | None = None,
        weight: str | bool | None = None,
        weight_bound: float = WEIGHT_BOUND,
    ) -> _Of:
        """Read named columns of a pandas, polars (lazy, too) or pyarrow table; ``rating=None`` for events.

        ``weight`` names a column of how much events count, or is ``True`` to count repeated rows.

        >>> import polars as pl
        >>> from apportion import Interactions
        >>> frame = pl.DataFrame({"user": [1, 1, 2], "item": [7, 8, 7], "rating": [4.0, 3.5, 5.0]})
        >>> Interactions.from_frame(frame, items=[7, 8], rating_range=(0.5, 5.0))
        Interactions(items=2, explicit, ratings from 0.5 to 5)
        """
        weights = weight if isinstance(weight, str) else None
        names = [name for name in (user, item, rating, timestamp, weights) if name is not None]
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
            weight=weight if weights is None else frame[weights],
            weight_bound=weight_bound,
        )
        known = rating or weight or not has_column(given, "rating")
        return found if known else _of_all_ratings(found)

    @classmethod
    def from_path(
        cls: type[_Of],
        path: str | Path | Sequence[str | Path],
        *,
        separator: str | None = None,
        quote: str | None = '"',
        encoding: str = "utf-8",
        **columns: Any,
    ) -> _Of:
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
        weight = columns.get("weight")
        frame = read_columns(
            path,
            [user, item],
            [name for name in (rating, weight) if isinstance(name, str)],
            {item: id_type(listed("item", columns.get("items")))},
            others=[] if time is None else [time],
            separator=separator,
            quote=quote,
            encoding=encoding,
        )
        made: Any = cls
        found: _Of = made.from_frame(frame, **columns)
        known = rating or weight or not has_column(path, "rating", encoding)
        return found if known else _of_all_ratings(found)

    @classmethod
    def from_sparse(
        cls: type[_Of],
        matrix: Any,
        *,
        feedback: Literal["explicit", "implicit"] | None = None,
        public_items: bool = True,
        rating_range: tuple[float, float] | None = None,
        outside: Literal["error", "clip"] = "error",
        weight: bool = False,
        weight_bound: float = WEIGHT_BOUND,
    ) -> _Of:
        """Read a scipy.sparse matrix of users x items; its width is the public number of items.

        ``feedback="explicit"``, the default where there is a ``rating_range``, takes the stored entries as
        ratings; ``"implicit"``, the default without one, every one that is not zero as an event, which counts
        by the entry with ``weight=True``. A user's
        id is its row number: a user who leaves must leave an empty row behind, or the others' ids, and
        with them their sides of a ``split``, change.
        """
        if not (hasattr(matrix, "tocoo") and getattr(matrix, "ndim", 2) == 2):
            raise DataError(
                f"from_sparse takes a scipy.sparse matrix, got a {type(matrix).__name__}; "
                "scipy.sparse.csr_array(...) makes one of an array, from_frame reads tables"
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
            weight=entries.data[kept] if weight else None,
            weight_bound=weight_bound,
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
        weight: str | bool | None = None,
        weight_bound: float = WEIGHT_BOUND,
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
            weight, weight_bound: of events, as in ``from_frame``.
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
            weight=weight,
            weight_bound=weight_bound,
            store=store,
            shards=shards,
        )

    @staticmethod
    def from_store(session: Any, store: str) -> Interactions:
        """What ``from_spark(..., store=...)`` wrote: the same rows, whatever has become of the frame."""
        from apportion.data.spark.interactions import interactions_from_store

        return interactions_from_store(session, store)


def _of_all_ratings(found: _Of) -> _Of:
    """These events, from a table that has ratings: its reader left them out."""
    found.events = ALL_RATINGS
    return found
