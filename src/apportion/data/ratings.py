"""Ratings as numbers, within their public range."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.checks import number, word
from apportion.data.ids import column_array
from apportion.data.numeric import read_numbers
from apportion.errors import DataError, ParameterError
from apportion.frames import pl
from apportion.threads import extremes, row_blocks


def check_range(rating_range: tuple[float, float] | None) -> tuple[float, float] | None:
    """Two numbers that go up, or None."""
    if rating_range is None:
        return None
    try:
        low, high = (
            number("rating_range", value, at_least=-1e30, at_most=1e30) for value in rating_range
        )
    except (TypeError, ValueError):
        raise ParameterError(f"rating_range must be two numbers, got {rating_range!r}") from None
    if not low < (low + high) / 2 < high:
        raise ParameterError(f"rating_range must go up, got {rating_range!r}")
    return low, high


def read_ratings(
    rating: Any, rows: int, rating_range: tuple[float, float] | None, outside: str
) -> NDArray[np.float32]:
    """One number for each row, finite and in its range, or clipped to it."""
    word("outside", outside, ("error", "clip"))
    try:
        given = column_array(rating) if isinstance(rating, pl.Series) else rating
    except pl.exceptions.PolarsError:
        raise DataError("rating must hold numbers only") from None
    values = read_numbers("rating", given, np.float32)  # infinite if 32 bits cannot hold it
    if values.shape != (rows,):
        raise DataError(f"rating must have one number for each of {rows} rows, got {values.shape}")
    # NaN if there is one.
    least, greatest = extremes([values[some] for some in row_blocks(rows)]) if rows else (0.0, 0.0)
    if not np.isfinite([least, greatest]).all():
        row = int(np.argmin(np.isfinite(values)))
        raise DataError(f"rating: row {row} is missing or not finite")
    if rating_range is None:
        return values
    low, high = rating_range
    if outside == "clip":
        return np.asarray(np.clip(values, low, high), dtype=np.float32)
    low32, high32 = np.float32(low), np.float32(high)
    if rows and (least < low32 or greatest > high32):
        row = int(np.argmin((values >= low32) & (values <= high32)))
        raise DataError(
            f'rating: row {row} is outside {low:g} to {high:g}; outside="clip" clips it (--outside clip)'
        )
    return values
