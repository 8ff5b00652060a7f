"""Ids of any usual type, as numbers from 0 on.

Whether two rows belong to the same user decides the guarantee, so nothing may be coerced on the way:
an id that would change its value or merge with another is refused.
"""

import hashlib
import numbers
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from apportion.privacy.errors import DataError

Integers = NDArray[np.integer[Any]]


def read_ids(name: str, values: Any) -> NDArray[Any]:
    """Ids as integers, or as an object array of strings, [rows]."""
    if isinstance(values, (str, bytes, dict, set, frozenset)) or not hasattr(values, "__len__"):
        raise DataError(f"{name} must be a list or an array of ids, got a {type(values).__name__}")
    array = values if isinstance(values, np.ndarray) else _uncoerced(values)
    if array.ndim != 1:
        raise DataError(f"{name} must be one-dimensional, got {array.ndim} dimensions")
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    kind = array.dtype.kind
    if kind in "iu":
        return array
    if kind == "f":
        return _whole_floats(name, array)
    if kind in "SUT":
        return array.astype(object)
    if kind == "O":
        return _objects(name, array)
    raise DataError(f"{name} must hold strings or whole numbers, got {array.dtype}")


def number_ids(ids: NDArray[Any]) -> tuple[NDArray[Any], Integers]:
    """The distinct ids in ascending order, and the position of each row's among them, [rows].

    In order, because the order in which ids first appear would tell something about the rows.
    """
    if ids.dtype.kind != "O":
        return _number_integers(ids)
    positions: dict[Any, int] = {}
    codes = np.fromiter(
        (positions.setdefault(value, len(positions)) for value in ids), dtype=np.int64
    )
    distinct = np.empty(len(positions), dtype=object)
    distinct[:] = sorted(positions)
    rank = np.empty(len(positions), dtype=np.int64)
    rank[[positions[value] for value in distinct]] = np.arange(len(positions))
    return distinct, rank[codes]


def _number_integers(ids: Integers) -> tuple[Integers, Integers]:
    """Sorted distinct ids and positions: by a table where they are dense, else by sorting."""
    low, high = (int(ids.min()), int(ids.max())) if len(ids) else (0, -1)
    if high - low >= 4 * len(ids) + 1000:
        return np.unique(ids, return_inverse=True)
    if high - low > np.iinfo(ids.dtype).max:  # a difference of two 8-bit ids may need 9 bits
        ids = ids.astype(np.int64)
    offset = ids - ids.dtype.type(low)
    present = np.zeros(high - low + 1, dtype=bool)
    present[offset] = True
    positions = np.cumsum(present, dtype=np.int64) - 1
    distinct = np.flatnonzero(present).astype(ids.dtype) + ids.dtype.type(low)
    return distinct, positions[offset]


def find_ids(name: str, ids: NDArray[Any], catalogue: NDArray[Any], what: str) -> Integers:
    """The position in the catalogue of each row's id, [rows]; an id that is not in it is an error."""
    if ids.size and (ids.dtype.kind == "O") != (catalogue.dtype.kind == "O"):
        raise DataError(f"{name} and {what} must both hold strings or both hold whole numbers")
    found = match_ids(ids, catalogue)
    if (found < 0).any():
        raise DataError(f"{name}: row {int(np.argmax(found < 0))} is not in the {what}")
    return found


def match_ids(ids: NDArray[Any], catalogue: NDArray[Any]) -> Integers:
    """The position in the catalogue of each row's id, or -1, [rows]."""
    if ids.size == 0:
        return np.zeros(0, dtype=np.int64)
    distinct, codes = number_ids(ids)
    place = {value: position for position, value in enumerate(catalogue.tolist())}
    places = np.array([place.get(value, -1) for value in distinct.tolist()], dtype=np.int64)
    return places[codes]


def id_keys(ids: NDArray[Any]) -> NDArray[np.uint64]:
    """A number for each id that depends on nothing but the id as it is written, [ids].

    7 and "7" have the same key: whether a column is read as numbers or as text may depend on one row.
    """
    texts = (
        value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
        for value in ids
    )
    digests = (hashlib.blake2b(text, digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), dtype=np.uint64)


def _uncoerced(values: Any) -> NDArray[Any]:
    """An array of the values as they are: NumPy would turn [1, "1"] into two equal strings."""
    if isinstance(values, pl.Series):  # as objects: strings of a fixed width lose "\0" at their end
        return values.to_numpy()
    if hasattr(values, "__array__"):  # a column of a frame, or anything that knows its own type
        return np.asarray(values)
    array = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        array[row] = value
    return array


def _whole_floats(name: str, array: NDArray[Any]) -> NDArray[np.int64]:
    exact = np.isfinite(array) & (np.abs(array) < 2.0**53)
    exact &= np.floor(np.where(exact, array, 0.0)) == array
    if not exact.all():
        raise DataError(
            f"{name}: row {int(np.argmin(exact))} is missing or not a whole number below 2^53; "
            "use integers or strings for ids"
        )
    return array.astype(np.int64)


def _objects(name: str, array: NDArray[Any]) -> NDArray[Any]:
    kinds = [_kind(value) for value in array]
    if None in kinds:
        raise DataError(
            f"{name}: row {kinds.index(None)} is missing, or not a string or a whole number"
        )
    if len(set(kinds)) > 1:
        odd = next(row for row, kind in enumerate(kinds) if kind is not kinds[0])
        raise DataError(
            f"{name}: row {odd} is of another type than row 0; ids must be all of one type"
        )
    if kinds[0] is not int:
        return array
    try:
        low, high = int(min(array)), int(max(array))
        return np.array(
            [int(value) for value in array],
            dtype=np.uint64 if low >= 0 and high >= 2**63 else np.int64,
        )
    except OverflowError:
        raise DataError(f"{name}: an id does not fit into 64 bits; use strings") from None


def _kind(value: object) -> type | None:
    if isinstance(value, (bool, np.bool_)):
        return None
    if isinstance(value, numbers.Integral):
        return int
    return next((kind for kind in (str, bytes) if isinstance(value, kind)), None)
