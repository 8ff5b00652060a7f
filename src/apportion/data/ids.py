"""Ids of any usual type, as numbers from 0 on.

Whether two rows belong to the same user decides the guarantee, so nothing may be coerced on the way:
an id that would change its value or merge with another is refused. The same text however it is written
is one id, in whatever it was read from: space before and after it does not count, and its letters are
composed (Unicode's normal form C).
"""

from __future__ import annotations

import hashlib
import numbers
import unicodedata
from functools import cache
from itertools import accumulate
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from apportion.data.numeric import check_unmasked
from apportion.errors import DataError
from apportion.frames import pl
from apportion.native import kernels
from apportion.threads import extremes, row_blocks, share_out, side_by_side
from apportion.twins import ids as twin

Integers = NDArray[np.integer[Any]]
# So few ids are looked up one by one.
_FEW = 1000
# Integers, an object array of strings or bytes, or a column of any of these with nothing missing.
Ids: TypeAlias = "NDArray[Any] | pl.Series"
# What Unicode calls white space, and polars strips; Python's own set is larger.
_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
)


@cache
def _whole_types() -> tuple[type[pl.DataType], ...]:
    """What polars and NumPy both have."""
    return pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64


def read_column(name: str, values: Any) -> Ids:
    """Ids of many rows: as ``read_ids``, but those of a polars table stay in their column."""
    if isinstance(values, pl.Series):
        named = isinstance(values.dtype, (pl.Categorical, pl.Enum))
        column: pl.Series = values.cast(pl.String) if named else values
        usual = column.dtype in (pl.String, pl.Binary, *_whole_types())
        if usual and len(column) and not column.null_count():
            return column
    return read_ids(name, values)


def read_ids(name: str, values: Any) -> NDArray[Any]:
    """Ids as integers, or as an object array of strings, [rows]."""
    if isinstance(values, (str, bytes, dict, set, frozenset)) or not hasattr(values, "__len__"):
        raise DataError(f"{name} must be a list or an array of ids, got a {type(values).__name__}")
    check_unmasked(name, values)
    try:
        array = values if isinstance(values, np.ndarray) else _uncoerced(values)
    except pl.exceptions.PolarsError:  # 128-bit numbers, and whatever else NumPy does not have
        raise DataError(f"{name} must hold strings, or whole numbers of at most 64 bits") from None
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


def number_ids(ids: Ids) -> tuple[NDArray[Any], Integers]:
    """The distinct ids in ascending order, and the position of each row's among them, [rows].

    In order, because the order in which ids first appear would tell something about the rows. Strings
    as ``plain_ids`` writes them.
    """
    if not is_text(ids):
        return _number_integers(ids)
    distinct, codes = _number_as_written(ids)
    plain = plain_ids(distinct)
    if plain is distinct:
        return distinct, codes
    distinct, places = _number_objects(plain)
    return distinct, places[codes].astype(codes.dtype)


def plain_ids(ids: NDArray[Any]) -> NDArray[Any]:
    """Strings without space around them, in Unicode's normal form C; other ids, and bytes, as they are."""
    if not is_text(ids) or not len(ids) or isinstance(ids[0], bytes):
        return ids
    texts = [text.strip(_SPACE) for text in ids.tolist()]
    texts = [text if text.isascii() else unicodedata.normalize("NFC", text) for text in texts]
    if texts == ids.tolist():
        return ids
    plain = np.empty(len(ids), dtype=object)
    plain[:] = texts
    return plain


def _number_as_written(ids: Ids) -> tuple[NDArray[Any], Integers]:
    if isinstance(ids, pl.Series):
        return _number_texts(ids)
    kind = pl.Binary if len(ids) and isinstance(ids[0], bytes) else pl.String
    try:
        return _number_texts(pl.Series(ids.tolist(), dtype=kind))
    except UnicodeEncodeError:  # half a surrogate pair, which Python allows
        return _number_objects(ids)


def _pieces(ids: Integers | pl.Series) -> list[Integers]:
    """Whole numbers as they lie in memory: a column that was read from a file is in many pieces."""
    if isinstance(ids, pl.Series):
        return [piece.to_numpy() for piece in ids.get_chunks()]
    return [ids[rows] for rows in row_blocks(len(ids))]


def _number_integers(ids: Integers | pl.Series) -> tuple[Integers, Integers]:
    """By a table of all numbers between the least and the greatest, else of those that occur."""
    pieces = _pieces(ids)
    kind, ends = pieces[0].dtype, list(accumulate(map(len, pieces)))
    rows = ends[-1]
    low, high = map(int, extremes(pieces)) if rows else (0, -1)
    if high - low >= 4 * rows + 1000:
        column = ids if isinstance(ids, pl.Series) else pl.Series(ids)
        distinct = column.gather(column.arg_unique()).sort().to_numpy()
        return distinct, _find_hashed(_modulo(column.to_numpy()), _modulo(distinct))
    found, codes = _numbering(rows).number_span(
        [_as_compiled(piece) for piece in pieces],
        low % 2**64,
        high - low + 1,
        len(row_blocks(rows)),
    )
    return found.view(np.int64).astype(kind), codes


def _numbering(rows: int) -> Any:
    """What is compiled, if there is something and 32 bits count the rows; else the twin."""
    return twin if kernels is None or rows >= 2**31 else kernels


def _as_compiled(ids: Integers) -> Integers:
    """The usual small numbers as they are, all others as one type."""
    return np.ascontiguousarray(ids) if ids.dtype == np.int32 else _modulo(ids)


def _number_texts(ids: pl.Series) -> tuple[NDArray[Any], Integers]:
    """By hashes of 64 bits, which are easily numbered; then every row is compared with its id."""
    hashes = ids.hash()
    rows = hashes.arg_unique()
    distinct = ids.gather(rows)
    order = distinct.arg_sort()
    distinct, rows = distinct.gather(order), rows.gather(order)
    codes = _find_hashed(hashes.to_numpy(), hashes.gather(rows).to_numpy())
    same = side_by_side(
        lambda rows: (ids[rows] == distinct.gather(pl.Series(codes[rows]))).all(),
        row_blocks(len(ids)),
    )
    if not all(same):  # two ids have the same hash
        return _number_objects(ids.to_numpy())
    return distinct.to_numpy(), codes


def _number_objects(ids: NDArray[Any]) -> tuple[NDArray[Any], Integers]:
    """Whatever can be told apart and ordered, one by one."""
    distinct = np.empty(len(names := sorted(set(ids))), dtype=object)
    distinct[:] = names
    place = {value: position for position, value in enumerate(names)}
    return distinct, np.fromiter((place[value] for value in ids), dtype=np.int32, count=len(ids))


def _find_hashed(ids: NDArray[np.uint64], distinct: NDArray[np.uint64]) -> Integers:
    """The position of each id among the distinct ones."""
    ids, distinct = np.ascontiguousarray(ids), np.ascontiguousarray(distinct)
    codes: Integers = _numbering(len(ids)).find_hashed(ids, distinct, len(row_blocks(len(ids))))
    return codes


def _modulo(ids: Integers) -> NDArray[np.uint64]:
    """The ids modulo 2^64, so that one type does for all: none merge, and differences are right."""
    if ids.dtype.itemsize < 8 or not ids.dtype.isnative:
        ids = ids.astype(np.int64)
    return np.ascontiguousarray(ids).view(np.uint64)


def find_ids(name: str, ids: Ids, catalog: NDArray[Any], what: str) -> Integers:
    """The position in the catalog of each row's id, [rows]; an id that is not in it is an error."""
    if len(ids) and is_text(ids) != is_text(catalog):
        raise DataError(f"{name} and {what} must both hold strings or both hold whole numbers")
    found = match_ids(ids, catalog)
    if (found < 0).any():
        raise DataError(f"{name}: row {int(np.argmax(found < 0))} is not in the {what}")
    return found


def match_ids(ids: Ids, catalog: NDArray[Any]) -> Integers:
    """The position in the catalog of each row's id, or -1, [rows]."""
    return IdIndex(catalog).places(ids) if len(ids) else np.zeros(0, dtype=np.int64)


class IdIndex:
    """Where ids are in a catalog that stays the same: the first place of each."""

    def __init__(self, catalog: NDArray[Any]) -> None:
        self._place: dict[Any, int] = {}
        for position, value in enumerate(plain_ids(catalog).tolist()):
            self._place.setdefault(value, position)

    def places(self, ids: Ids) -> Integers:
        """The position of each row's id, or -1, [rows]."""
        place = self._place
        if isinstance(ids, np.ndarray) and len(ids) <= _FEW:
            return np.array([place.get(id_, -1) for id_ in plain_ids(ids).tolist()], dtype=np.int64)
        distinct, codes = number_ids(ids)
        places = np.array([place.get(value, -1) for value in distinct.tolist()], dtype=np.int64)
        return places[codes]


def is_text(ids: Ids) -> bool:
    """Whether ids are strings or bytes, not whole numbers."""
    if isinstance(ids, pl.Series):
        return ids.dtype not in _whole_types()
    return ids.dtype.kind == "O"


def id_keys(ids: NDArray[Any]) -> NDArray[np.uint64]:
    """A number for each id that depends on nothing but the id as it is written, [ids].

    7 and "7" have the same key: whether a column is read as numbers or as text may depend on one row.
    """
    texts = (
        value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
        for value in ids.tolist()
    )
    digests = (hashlib.blake2b(text, digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), dtype=np.uint64)


def _uncoerced(values: Any) -> NDArray[Any]:
    """An array of the values as they are: NumPy would turn [1, "1"] into two equal strings."""
    if isinstance(values, pl.Series):  # as objects: strings of a fixed width lose "\0" at their end
        return column_array(values)
    if hasattr(values, "__array__"):  # a column of a frame, or anything that knows its own type
        return np.asarray(values)
    array = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        array[row] = value
    return array


def column_array(column: pl.Series) -> NDArray[Any]:
    """The column as an array; what is in many pieces is copied on all cores."""
    if column.dtype == pl.Int128:  # of which older polars panics
        raise pl.exceptions.InvalidOperationError("NumPy has no whole numbers of 128 bits")
    if column.dtype not in (*_whole_types(), pl.Float32, pl.Float64) or column.null_count():
        return column.to_numpy()
    pieces = [piece.to_numpy() for piece in column.get_chunks()]
    if len(pieces) == 1:
        return pieces[0]
    whole = np.empty(len(column), dtype=pieces[0].dtype)

    def copy(piece: NDArray[Any], end: int) -> None:
        whole[end - len(piece) : end] = piece

    share_out(copy, pieces, list(accumulate(map(len, pieces))))
    return whole


def _whole_floats(name: str, array: NDArray[Any]) -> NDArray[np.int64]:
    bits = np.finfo(array.dtype).nmant + 1  # from here on whole numbers have been merged
    exact = np.isfinite(array) & (np.abs(array) < 2.0**bits)
    exact &= np.floor(np.where(exact, array, 0.0)) == array
    if not exact.all():
        raise DataError(
            f"{name}: row {int(np.argmin(exact))} is missing or not a whole number below 2^{bits}; "
            "use integers or strings for ids"
        )
    return array.astype(np.int64)


def _objects(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if set(map(type, array)) in ({str}, {bytes}):
        return array
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
    if kinds[0] is UUID:
        return np.array([str(value) for value in array], dtype=object)
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
    return next((kind for kind in (str, bytes, UUID) if isinstance(value, kind)), None)
