"""Interactions whose rows lie in Spark."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from apportion.checks import number, whole
from apportion.data.catalog import Catalog, listed, read_catalog
from apportion.data.ids import id_keys
from apportion.data.interactions import Interactions
from apportion.data.ratings import check_range
from apportion.data.rows import Rows
from apportion.data.sources import ALL_RATINGS
from apportion.data.spark.frames import columns_of, find_frame, find_ids, sharded
from apportion.data.spark.shards import SparkRows
from apportion.data.spark.store import Store, read_store, write_store
from apportion.data.weights import WEIGHT_BOUND, check_weight_bound, events_of
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
        self.reading = settings["reading"]
        self._store = store

    @property
    def explicit(self) -> bool:
        """Whether there are ratings."""
        return self.events is None

    def rows(self) -> SparkRows:  # type: ignore[override]
        """As ``SparkEngine`` loads them."""
        key = None if self.catalog_is_public else id_keys(self.item_ids)
        store = self._store
        shards, digests = len(store.digests), store.digests
        return SparkRows(
            store.frame, shards, self.item_ids, key, digests=digests, asked=store.asked
        )

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
class Reading:
    """How columns are read; see ``Interactions.from_spark``."""

    user: str
    item: str
    rating: str | None
    rating_range: tuple[float, float] | None
    outside: Literal["error", "clip"]
    positives: float | None
    weight: str | bool | None = None
    weight_bound: float = WEIGHT_BOUND

    def plain(self) -> dict[str, Any]:
        """As the store remembers it."""
        between = self.rating_range
        return {
            **asdict(self),
            "rating_range": None if between is None else [float(each) for each in between],
            "positives": None if self.positives is None else float(self.positives),
            "weight": self.weight or None,
            "weight_bound": float(self.weight_bound) if self.weight else None,
        }

    @property
    def numbers(self) -> list[str]:
        """The columns of numbers."""
        return [name for name in (self.rating, self.weight) if isinstance(name, str)]


@dataclass(frozen=True)
class _Build(Reading):
    """A shard's rows from its columns: as interactions of one machine are made."""

    def __call__(self, item_ids: NDArray[Any], columns: Any) -> Rows:
        if not columns:
            none = np.zeros(0, dtype=item_ids.dtype)
            columns = {self.user: np.zeros(0, dtype=np.int64), self.item: none}
            columns |= {name: np.zeros(0) for name in self.numbers}
        data = Interactions(
            columns[self.user],
            columns[self.item],
            None if self.rating is None else columns[self.rating],
            items=item_ids,
            rating_range=self.rating_range,
            outside=self.outside,
            weight=columns[self.weight] if isinstance(self.weight, str) else self.weight,
            weight_bound=self.weight_bound,
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
    weight: str | bool | None,
    weight_bound: float,
    store: str | None,
    shards: int | None,
) -> SparkInteractions:
    """See ``Interactions.from_spark``."""
    items = listed("item", items)
    between, most = check_range(rating_range), check_weight_bound(weight_bound)
    reading = Reading(user, item, rating, between, outside, positives, weight, most)
    if weight and rating is not None:
        raise ParameterError("weight is for events: leave out the ratings (rating=None)")
    if positives is not None:
        number("positives", positives)
        if rating is None:
            raise ParameterError("positives needs ratings: name their column")
    source = frame if isinstance(frame, str) else None
    frame = columns_of(find_frame(frame), [user, item], reading.numbers)
    if shards is not None:
        whole("shards", shards, at_least=1, at_most=2**20)
    ids = find_ids(frame, item, "item", items)
    events = None
    if rating is None:
        events = events_of(most) if weight else "given"
    if positives is not None:
        events = ALL_RATINGS if positives == -np.inf else f"ratings of at least {positives:g}"
    settings = {
        "kind": "interactions",
        "rating_range": reading.rating_range,
        "events": events,
        "catalog_is_public": items is not None,
        "catalog_from_data": isinstance(items, str),
        "reading": {"path": source, **reading.plain()},
    }
    made, count = sharded(frame, user, ids, _Build(**vars(reading)), shards)
    return SparkInteractions(write_store(made, (count, shards), settings, ids, store))


def interactions_from_store(session: Any, store: str) -> SparkInteractions:
    """See ``Interactions.from_store``."""
    return SparkInteractions(read_store(session, store))


def check_reading(data: Interactions, path: str, items: Catalog, reading: Reading) -> None:
    """Refuse stored interactions that were read from another path, or in another way; say what differs."""
    assert isinstance(data, SparkInteractions), "read from a store"
    written = data.reading
    differ = [
        f"{name} was {written.get(name)!r} and is now {value!r}"
        for name, value in {"path": path, **reading.plain()}.items()
        if written.get(name) != value
    ]
    were = _catalog_kind(data.catalog_is_public, data.catalog_from_data)
    are = _catalog_kind(items is not None, isinstance(items, str))
    if were != are:
        differ.append(f"items were {were} and are now {are}")
    elif are == _LIST:
        ids = read_catalog("item", items, np.zeros(0, dtype=np.int64))[0]
        if not np.array_equal(ids, data.item_ids):
            differ.append("items are another list than they were")
    if differ:
        raise ParameterError(
            f"the store holds rows that were read in another way: {'; '.join(differ)}. Name a new folder "
            "to store these rows, or give the arguments with which the others were stored"
        )


_LIST = "a list"


def _catalog_kind(public: bool, from_data: bool) -> str:
    if not public:
        return "private"
    return "those in the data, declared public" if from_data else _LIST
