"""Public data sets: reading their original archives, and fetching them. One file a data set."""

from __future__ import annotations

from pathlib import Path

from apportion.data.datasets import ml_1m, ml_10m, ml_20m, ml_100k, msd
from apportion.data.datasets.archive import DataSet, content_of, table
from apportion.data.datasets.fetch import fetch
from apportion.data.interactions import Interactions
from apportion.errors import DataError, ParameterError
from apportion.frames import pl

__all__ = ["DATA_SETS", "DataSet", "fetch", "find_data_set", "read_data_set", "read_titles"]

DATA_SETS: dict[str, DataSet] = {
    module.DATA_SET.name: module.DATA_SET for module in (ml_100k, ml_1m, ml_10m, ml_20m, msd)
}


def find_data_set(name: str) -> DataSet:
    """The data set of this name."""
    if name not in DATA_SETS:
        raise ParameterError(f"there is no data set {name!r}; there are {', '.join(DATA_SETS)}")
    return DATA_SETS[name]


def read_data_set(name: str, path: str | Path) -> Interactions:
    """Read a data set from its zip archive or from a folder that holds its files.

    The items of the data are declared public: these are public research data.
    """
    data_set = find_data_set(name)
    frame = table(data_set, content_of(Path(path), data_set.ratings), data_set.columns)
    try:
        frame = frame.with_columns(pl.col("rating").cast(pl.Float32))
        if data_set.numbered:
            frame = frame.with_columns(pl.col("user", "item").cast(pl.Int64))
    except pl.exceptions.PolarsError:
        raise DataError(f"{data_set.ratings} in {path} does not hold ratings of {name}") from None
    return Interactions.from_frame(frame, items="public", rating_range=data_set.rating_range)


def read_titles(name: str, path: str | Path) -> pl.DataFrame:
    """The items' ids, titles and genres (joined by "|"), as columns item, title and genres."""
    data_set = find_data_set(name)
    if data_set.titles is None:
        raise DataError(f"{name} comes without titles")
    content = content_of(Path(path), data_set.titles).decode(data_set.encoding, "replace")
    try:
        if data_set.read_titles is not None:
            return data_set.read_titles(content)
        frame = table(data_set, content.encode(), ("item", "title", "genres"))
        return frame.with_columns(pl.col("item").cast(pl.Int64))
    except (pl.exceptions.PolarsError, ValueError, IndexError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{data_set.titles} in {path} does not hold titles of {name}") from None
