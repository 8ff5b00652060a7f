"""``--engine spark``: the session, and rows that stay in Spark."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apportion.cli.reading import Source, ids_like
from apportion.errors import ParameterError

if TYPE_CHECKING:
    from apportion.data import Interactions
    from apportion.engine import SparkEngine

_PANEL = "Spark"

Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Of --engine spark: local[4], spark://host:7077, yarn, k8s://...; by default what spark-submit "
        "or Spark's own settings say.",
        rich_help_panel=_PANEL,
    ),
]
Store = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        help="Of --engine spark: a new folder for the rows as the training sees them; all executors must "
        "reach it (hdfs:, s3a:, a shared disk). Needed on a cluster, and to resume a training.",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True)
class Cluster:
    """Where a training runs, if it runs on Spark.

    Attributes
        master: the address; None for what Spark's settings say.
        store: the folder of the rows that the training sees; None for a temporary one.
    """

    master: str | None = None
    store: str | None = None

    def engine(self) -> "SparkEngine":
        """Sums over users on this cluster."""
        from apportion.engine import SparkEngine

        return SparkEngine(start_session(self.master))

    def read(self, source: Source, place: str, **settings: Any) -> "Interactions":
        """The rows of Parquet files at ``place``, any path of Hadoop's; they are not collected.

        ``settings`` are those of ``Source.read``. If the store was written before, from the same place and
        in the same way, its rows are taken.
        """
        from apportion.data import Interactions
        from apportion.data.spark.frames import find_frame
        from apportion.data.spark.interactions import Reading, check_reading
        from apportion.data.spark.store import is_stored

        session = start_session(self.master)
        rated = not source.implicit or source.positives is not None
        reading = Reading(
            user=source.user or "user",
            item=source.item or "item",
            rating=(source.rating or "rating") if rated else None,
            rating_range=settings["rating_range"],
            outside=settings["outside"],
            positives=source.positives,
            weight=source.weight,
            **source.bound_of_weights(),
        )
        if source.encoding is not None:
            raise ParameterError("--encoding is for CSV files; --engine spark reads Parquet")
        items = settings["items"]
        from apportion.data.catalog import read_id_list

        listed = read_id_list(items) if isinstance(items, Path) else None
        if self.store is not None and is_stored(session, self.store):
            stored = Interactions.from_store(session, self.store)
            if listed is not None:
                items = ids_like(listed, stored.item_ids, items)
            check_reading(stored, place, items, reading)
            return stored
        if listed is not None:
            items = _like_column(listed, find_frame(place), reading.item, items)
        return Interactions.from_spark(place, items=items, store=self.store, **vars(reading))


def find_cluster(engine: str, master: str | None, store: str | None) -> Cluster | None:
    """The cluster of these options; None for one machine."""
    if engine == "spark":
        return Cluster(master, store)
    for name, value in (("--master", master), ("--store", store)):
        if value is not None:
            raise typer.BadParameter("goes with --engine spark only", param_hint=f"'{name}'")
    return None


@cache
def start_session(master: str | None) -> Any:
    """The session of this process, quiet."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise ParameterError(
            "--engine spark needs PySpark 4 and Java 17: pip install 'apportion[spark]'"
        ) from None
    builder = SparkSession.builder.appName("apportion").config(
        "spark.ui.showConsoleProgress", "false"
    )
    if master is not None:
        builder = builder.master(master)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        raise ParameterError(
            f"Spark does not start ({type(error).__name__}): apportion doctor shows if there is Java 17; "
            f"is {master or 'the master of its settings'} the address of a cluster?"
        ) from error
    session.sparkContext.setLogLevel("ERROR")
    return session


def _like_column(ids: Any, frame: Any, column: str, path: Path) -> Any:
    """The ids of a list in the type of the frame's column."""
    import numpy as np

    text = dict(frame.dtypes).get(column) == "string"
    like = np.array([""], dtype=object) if text else np.zeros(1, dtype=np.int64)
    return ids_like(ids, like, path)
