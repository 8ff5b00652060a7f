"""Interactions whose rows lie in Spark."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from apportion.checks import number, whole
from apportion.data.catalog import Catalog
from apportion.data.ids import id_keys
from apportion.data.interactions import ALL_RATINGS, Interactions, check_range
from apportion.data.rows import Rows
from apportion.data.spark.frames import columns_of, find_frame, find_ids, sharded
from apportion.data.spark.shards import SparkRows
from apportion.data.spark.store import Store, read_store, write_store
from apportion.errors import DataError, ParameterError

# What an object of a machine's own memory has, and this has not.
_ELSEWHERE = ("by_user", "by_item", "user_ids", "user_key")


class SparkInteractions(Interactions):
    """See ``Interactions.from_spark``: what is public is here, users and rows are not."""

    def __init__(self, store: Store) -> None:
        settings = store.settings
        if settings["kind"] != "interactions":
            raise DataError("these stored rows are no interactions")
        between = settings["rating_range"]
        self.rating_range = None if between is None else (between[0], between[1])
        self.events = settings["events"]
        self.catalog_is_public = settings["catalog_is_public"]
        self.catalog_from_data = settings["catalog_from_data"]
        self.item_ids = store.ids
        self._store = store

    @property
    def explicit(self) -> bool:
        """Whether there are ratings."""
        return self.events is None

    def rows(self) -> SparkRows:  # type: ignore[override]
        """As ``SparkEngine`` loads them."""
        key = None if self.catalog_is_public else id_keys(self.item_ids)
        store = self._store
        return SparkRows(store.frame, len(store.digests), self.item_ids, key, digests=store.digests)

    def contents(self) -> list[Any]:
        """See ``Interactions.contents``: digests of the shards stand for their rows."""
        shards = sorted(self._store.digests.items())
        public = [self.rating_range, self.events, self.catalog_is_public, self.catalog_from_data]
        return [shards, self.item_ids, *public]

    def __getattr__(self, name: str) -> Any:
        if name in _ELSEWHERE:
            raise DataError(
                "the rows of these interactions lie in Spark: what you called needs them in this machine's "
                "memory. Select, split and count in the frame, before from_spark"
            )
        raise AttributeError(name)


@dataclass(frozen=True)
class _Build:
    """A shard's rows from its columns: as interactions of one machine are made."""

    user: str
    item: str
    rating: str | None
    rating_range: tuple[float, float] | None
    outside: Literal["error", "clip"]
    positives: float | None

    def __call__(self, item_ids: NDArray[Any], columns: Any) -> Rows:
        if not columns:
            none = np.zeros(0, dtype=item_ids.dtype)
            columns = {self.user: np.zeros(0, dtype=np.int64), self.item: none}
            columns |= {} if self.rating is None else {self.rating: np.zeros(0)}
        data = Interactions(
            columns[self.user],
            columns[self.item],
            None if self.rating is None else columns[self.rating],
            items=item_ids,
            rating_range=self.rating_range,
            outside=self.outside,
        )
        return (data if self.positives is None else data.positives(self.positives)).rows()


def interactions_from_spark(
    frame: Any,
    *,
    user: str,
    item: str,
    rating: str | None,
    items: Catalog,
    rating_range: tuple[float, float] | None,
    outside: Literal["error", "clip"],
    positives: float | None,
    store: str | None,
    shards: int | None,
) -> SparkInteractions:
    """See ``Interactions.from_spark``."""
    rating_range = check_range(rating_range)
    if positives is not None:
        number("positives", positives)
        if rating is None:
            raise ParameterError("positives needs ratings: name their column")
    frame = columns_of(find_frame(frame), [user, item], [] if rating is None else [rating])
    if shards is not None:
        whole("shards", shards, at_least=1, at_most=2**20)
    ids = find_ids(frame, item, "item", items)
    build = _Build(user, item, rating, rating_range, outside, positives)
    events = "given" if rating is None else None
    if positives is not None:
        events = ALL_RATINGS if positives == -np.inf else f"ratings of at least {positives:g}"
    settings = {
        "kind": "interactions",
        "rating_range": rating_range,
        "events": events,
        "catalog_is_public": items is not None,
        "catalog_from_data": isinstance(items, str),
    }
    made, count = sharded(frame, user, ids, build, shards)
    return SparkInteractions(write_store(made, count, settings, ids, store))


def interactions_from_store(session: Any, store: str) -> SparkInteractions:
    """See ``Interactions.from_store``."""
    return SparkInteractions(read_store(session, store))
