"""Recommendations for a frame of histories in Spark: every executor has the model, and users of its own."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from apportion.checks import whole
from apportion.data.spark.frames import by_user, columns_of, find_frame
from apportion.data.spark.sessions import Traveling, own_session
from apportion.errors import DataError
from apportion.frames import pl

if TYPE_CHECKING:
    from apportion.recommend.recommender import Recommender


def recommend_frame(model: "Recommender", histories: Any, k: int, **settings: Any) -> Any:
    """See ``Recommender.recommend_many``: a Spark frame of user, rank, item, (title,) score.

    Rows are counted now; nothing else is computed before Spark needs it.
    """
    k = whole("k", k, at_least=1)
    released = model.released
    explicit = released.fold_in.feedback == "explicit"
    frame = columns_of(find_frame(histories), ["user", "item"], ["rating"] if explicit else [])
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    text = released.item_ids.dtype.kind == "O"
    item = "bigint" if not text else "binary" if _of_bytes(released.item_ids) else "string"
    if kinds["item"] != item:
        raise DataError(f"the frame has items of type {kinds['item']}, the model {item}: cast them")
    title = "" if released.titles is None else "title string, "
    schema = f"user {kinds['user']}, rank int, item {item}, {title}score float"
    told = replace(released, training={})  # which executors do not need
    work = _Recommend(Traveling(own_session(frame.sparkSession), (told, k, settings)))
    return by_user(frame, "user").mapInArrow(work, schema)


def _of_bytes(ids: Any) -> bool:
    return bool(len(ids)) and isinstance(ids[0], bytes)


@dataclass(frozen=True, eq=False)
class _Recommend:
    """Recommends to all users of a partition."""

    settings: Traveling

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        from apportion.recommend.recommender import Recommender

        found = list(batches)
        if not found:
            return
        table = pa.Table.from_batches(found)
        histories = pl.DataFrame(
            {name: pl.Series(name, table[name]) for name in table.column_names}
        )
        released, k, settings = self.settings.value
        best = Recommender(released).recommend_many(histories, k, **settings)
        best = best.with_columns(pl.col("rank").cast(pl.Int32), pl.col("score").cast(pl.Float32))
        yield from _plain(best.to_arrow()).to_batches()


def _plain(table: Any) -> Any:
    """With the types that Spark has: strings and bytes of 32-bit offsets."""
    import pyarrow as pa

    plain = {pa.large_string(): pa.string(), pa.string_view(): pa.string(),
             pa.large_binary(): pa.binary(), pa.binary_view(): pa.binary()}  # fmt: skip
    fields = [pa.field(each.name, plain.get(each.type, each.type)) for each in table.schema]
    return table.cast(pa.schema(fields))
