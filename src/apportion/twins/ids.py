"""Numbering of ids: the twin of native/bind_ids.cpp. ``threads`` is for the compiled ones."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.integer[Any]]
Words = NDArray[np.uint64]


def number_span(pieces: list[Any], low: int, span: int, threads: int) -> tuple[Words, Integers]:
    """The distinct numbers of some pieces of memory, and the position of each row's among them.

    All are one of low, low + 1, ..., low + span - 1, modulo 2^64; the distinct ones are in this order.
    """
    kind = np.int64 if pieces and pieces[0].dtype == np.int32 else np.uint64
    place = np.concatenate(
        [np.zeros(0, np.uint64), *(piece.astype(kind).view(np.uint64) for piece in pieces)]
    )
    place -= np.uint64(low)
    if len(place) and int(place.max()) >= span:
        raise ValueError("pieces hold numbers outside of low to low + span - 1")
    distinct, codes = np.unique(place, return_inverse=True)
    return distinct + np.uint64(low), codes.astype(np.int32 if len(codes) < 2**31 else np.int64)


def find_hashed(ids: Words, distinct: Words, threads: int) -> Integers:
    """The position of each id among the distinct ones, which may be in any order."""
    order = np.argsort(distinct)
    place = np.searchsorted(distinct, ids, sorter=order)
    codes = order[np.minimum(place, max(0, len(order) - 1))] if len(order) else place
    if len(ids) and not (len(order) and (distinct[codes] == ids).all()):
        raise ValueError("ids holds a number that is not in distinct")
    return codes.astype(np.int32 if len(ids) < 2**31 else np.int64)
