"""Numbers as they come: what is none, or hides some, is refused."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from apportion.errors import DataError


def check_unmasked(name: str, values: Any) -> None:
    """Refuse a masked array, whose mask NumPy forgets on the way."""
    if isinstance(values, np.ma.MaskedArray):
        raise DataError(f"{name} is a masked array: leave out the masked rows, or fill them")


def read_numbers(
    name: str, values: Any, dtype: Any, order: Literal["K", "C"] = "K", more: str = ""
) -> NDArray[Any]:
    """An array of numbers, of any shape; text that is a number is read as one, dates are not.

    ``more`` is what an error says besides.
    """
    check_unmasked(name, values)
    try:
        given = np.asarray(values)
        dates = given.dtype.kind in "mM" or (
            given.dtype.kind == "O" and any(_is_date(value) for value in given.flat)
        )
        if not dates:
            with np.errstate(over="ignore"):  # becomes infinite, for the caller to refuse
                return np.asarray(given, dtype=dtype, order=order)
    except (TypeError, ValueError, OverflowError):
        pass
    raise DataError(f"{name} must hold numbers only{more}")


def _is_date(value: object) -> bool:
    """Of NumPy or pandas; those of Python are no numbers anyway."""
    return isinstance(value, (np.datetime64, np.timedelta64)) or hasattr(value, "to_datetime64")
