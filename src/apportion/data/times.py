"""When interactions were: reading times, and splitting by them. No training uses a time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from apportion.data.ids import Integers
from apportion.data.numeric import check_unmasked
from apportion.errors import DataError, ParameterError
from apportion.frames import pl

if TYPE_CHECKING:
    from apportion.data.orientation import Orientation

Times = NDArray[np.float64]
_WANTED = "a number (seconds, say), a date or time, or text as 2024-05-31 or 2024-05-31T18:30:00"


def read_times(name: str, values: Any, rows: int) -> Times:
    """One time for each row: numbers as they are, dates and times in seconds since 1970 UTC, [rows].

    Text is a number in every row, or a date or time as ISO 8601 has it. Times without a zone are of UTC.
    """
    check_unmasked(name, values)
    try:
        column = values if isinstance(values, pl.Series) else _column(values)
        times = _seconds(column)
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
        raise DataError(f"{name} must hold times: each {_WANTED}") from None
    if len(times) != rows:
        raise DataError(f"{name} must have one time for each of {rows} rows, got {len(times)}")
    if not (known := np.isfinite(times)).all():
        raise DataError(f"{name}: row {int(np.argmin(known))} is no time; a time is {_WANTED}")
    return times


def read_time(name: str, value: Any) -> float:
    """One time, as ``read_times`` reads a row of a column."""
    if not isinstance(value, (bool, bytes)):
        try:
            return float(read_times(name, [value], 1)[0])
        except DataError:
            pass
    raise ParameterError(f"{name} must be {_WANTED}")


def _column(values: Any) -> pl.Series:
    if isinstance(values, np.ndarray):
        return pl.Series(values)
    if hasattr(values, "to_numpy"):  # of pandas or pyarrow
        array = values.to_numpy()
        return pl.Series(array.tolist() if array.dtype == object else array)
    return pl.Series(list(values))


def _seconds(column: pl.Series) -> Times:
    if column.dtype.is_temporal():
        if column.dtype == pl.Time or isinstance(column.dtype, pl.Duration):
            raise TypeError
        micros = column.cast(pl.Datetime("us")).to_physical().cast(pl.Float64)
        return (micros / 1e6).to_numpy()
    if column.dtype.is_numeric():
        return column.cast(pl.Float64).fill_null(np.nan).to_numpy()
    if column.dtype != pl.String:
        raise TypeError
    text = column.str.strip_chars()
    numbers = text.cast(pl.Float64, strict=False)
    if not numbers.null_count():
        return numbers.to_numpy()
    return np.array([_moment(each) for each in text.to_list()])


def _moment(text: str | None) -> float:
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return np.nan
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def times_of_pairs(
    by_user: Orientation, user: Integers, item: Integers, items: int, time: Times
) -> Times:
    """The last time of each pair of user and item, in the order of ``by_user``, given those of rows."""
    users = np.repeat(np.arange(len(by_user.start) - 1), np.diff(by_user.start))
    pairs = users * max(1, items) + by_user.other
    latest = np.full(len(pairs), -np.inf)
    np.maximum.at(latest, np.searchsorted(pairs, user.astype(np.int64) * items + item), time)
    return latest


def last_of_users(start: Integers, order: tuple[NDArray[Any], ...], last: int) -> NDArray[np.bool_]:
    """Which rows are the last so many of their user; one is always left, [rows].

    Args:
        start: where each user's rows begin, with the end appended, [users + 1].
        order: what orders rows, [rows] each, the most important last, as for ``np.lexsort``.
        last: how many.
    """
    user = np.repeat(np.arange(len(start) - 1), np.diff(start))
    by_order = np.lexsort((*order, user))
    place = np.empty(len(user), dtype=np.int64)
    place[by_order] = np.arange(len(user)) - start[user]
    size = np.diff(start)[user]
    return np.asarray(place >= np.maximum(size - last, 1))
