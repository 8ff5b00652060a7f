"""The public list of tasks or items: which exist must not depend on who is in the data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from apportion.checks import whole
from apportion.data.files import IdType, ids_from_text, is_there, read_columns
from apportion.data.ids import (
    Ids,
    Integers,
    column_array,
    find_ids,
    is_text,
    number_ids,
    plain_ids,
    read_ids,
)
from apportion.data.memory import MOST, check_memory
from apportion.errors import DataError, ParameterError
from apportion.frames import pl

# The number of members (ids are then 0, 1, ...), their ids, a file of them, or "public": those in the data.
Catalog = int | Sequence[Any] | NDArray[Any] | str | Path | Literal["public"] | None


def listed(member: str, catalog: Catalog, values: Ids | None = None) -> Any:
    """The catalog; the ids in it, if it is a file of them, as text where those of the rows are text."""
    if not isinstance(catalog, (str, Path)) or catalog == "public":
        return catalog
    if isinstance(catalog, str) and not is_there(Path(catalog)):
        raise ParameterError(
            f'{member}s must be a number, a list of ids, a file of ids or "public"; there is no file '
            f"{catalog!r}"
        )
    ids = read_id_list(Path(catalog), member)
    return ids.cast(pl.String) if values is not None and is_text(values) else ids


def read_id_list(path: Path, column: str = "item") -> pl.Series:
    """Ids from this column of a CSV or Parquet file, or from a file of one id a line."""
    if path.is_dir() or path.suffix.lower() in (".csv", ".parquet", ".pq"):
        ids = read_columns(path, [column], [])[column]
    elif not path.exists():
        raise DataError(f"there is no file or folder {path}")
    else:
        try:
            lines = path.read_text(encoding="utf-8-sig").split("\n")
        except UnicodeDecodeError:
            raise DataError(f"{path} is not a text file of one id a line") from None
        lines = [line.strip() for line in lines]
        ids = ids_from_text(pl.Series(column, [line for line in lines if line], dtype=pl.String))
    if not len(ids):
        raise DataError(f"{path} holds no ids")
    return ids


def read_catalog(member: str, catalog: Catalog, values: Ids) -> tuple[NDArray[Any], Integers]:
    """The catalog's ids [members], and the position in it of each row's id [rows].

    ``member`` is "task" or "item"; the catalog's own name is its plural.
    """
    name = f"{member}s"
    if catalog is None or isinstance(catalog, str):
        if catalog not in (None, "public"):
            raise ParameterError(
                f'{name} must be a number, a list of ids or "public", got {catalog!r}'
            )
        return number_ids(values)
    if isinstance(catalog, (int, np.integer)):
        size = whole(name, catalog, at_least=1, at_most=MOST)
        check_memory(f"a catalog of {size} {name}", 48 * size)  # counts of rows, sums of counts
        why = f"{name}={size} names them 0 to {size - 1}; for other ids give their list"
        return np.arange(size), read_positions(member, values, size, why)
    ids = plain_ids(read_ids(name, catalog)).copy()  # the caller's own may change
    if len(set(ids.tolist())) < len(ids):
        raise ParameterError(f"{name} names the same {member} twice")
    return ids, find_ids(member, values, ids, f"catalog given as {name}")


def id_type(catalog: Catalog) -> IdType | None:
    """The type in which ids of a text file fit a catalog; None if the rows are to decide.

    Without a catalog ids are strings: what one row looks like must not change the others.
    """
    if catalog is None:
        return pl.String
    if isinstance(catalog, str):  # "public": the ids of the data are no secret
        return None
    if isinstance(catalog, (int, np.integer)):
        return pl.Int64
    ids = read_ids("a catalog", catalog)
    if ids.dtype.kind == "O":
        return pl.Binary if isinstance(ids[0], bytes) else pl.String
    return pl.UInt64 if ids.dtype == np.uint64 else pl.Int64


def read_positions(name: str, values: Ids, size: int, why: str) -> Integers:
    """Whole numbers from 0 to size - 1, [rows]."""
    if is_text(values):
        raise DataError(f"{name} must hold whole numbers from 0 to {size - 1}: {why}")
    values = column_array(values) if isinstance(values, pl.Series) else values
    inside = (values >= 0) & (values < size)
    if not inside.all():
        row = int(np.argmin(inside))
        raise DataError(f"{name}: row {row} is not between 0 and {size - 1}: {why}")
    return values.astype(np.int64)
