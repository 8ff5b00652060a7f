"""Parameters as plain Python numbers, arrays as our own float64, within their range, or a clear error.

Plain numbers matter: an 8-bit NumPy bound would overflow when it is squared, and a 32-bit one would
round a budget. Whatever enters a sensitivity or a budget goes through here first. Arrays are copied:
what has been checked must not change afterwards.
"""

import math
import numbers
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.errors import ParameterError, ReleaseError

# The smallest portion of a budget: with less, noise would be beyond all numbers.
LEAST_SHARE = 1e-9


def number(
    name: str,
    value: object,
    *,
    above: float = -math.inf,
    at_least: float = -math.inf,
    below: float = math.inf,
    at_most: float = math.inf,
    hint: str = "",
) -> float:
    """The value as a float, if it is a number in the range; NaN never is."""
    if not isinstance(value, bool) and isinstance(value, numbers.Real):
        try:
            plain = float(value)
        except OverflowError:
            plain = math.nan
        unbounded = above == -math.inf or plain > above
        if unbounded and at_least <= plain <= at_most and (below == math.inf or plain < below):
            return plain
    limits = [
        f"{words} {limit:g}"
        for words, limit, default in (
            ("above", above, -math.inf),
            ("of at least", at_least, -math.inf),
            ("below", below, math.inf),
            ("of at most", at_most, math.inf),
        )
        if limit != default
    ]
    wanted = " and ".join(limits)
    raise ParameterError(
        f"{name} must be a number {wanted}, got {_shown(value)}{hint and '; ' + hint}"
    )


def whole(name: str, value: object, *, at_least: int, at_most: int | None = None) -> int:
    """The value as an int, if it is a whole number in the range."""
    if (
        not isinstance(value, bool)
        and isinstance(value, numbers.Integral)
        and int(value) >= at_least
        and (at_most is None or int(value) <= at_most)
    ):
        return int(value)
    limit = "" if at_most is None else f" and at most {at_most}"
    raise ParameterError(
        f"{name} must be a whole number of at least {at_least}{limit}, got {_shown(value)}"
    )


def whole_array(name: str, given: Any) -> NDArray[np.integer[Any]]:
    """Whole numbers [n], 64 bits at most, as an array that nobody else has and nobody can write to."""
    array = np.asarray(given)
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.dtype == np.uint64:
        raise ReleaseError(f"{name} must be one row of whole numbers, below 2^63")
    return _read_only(np.array(array, order="C", subok=False))


def float_array(name: str, given: Any) -> NDArray[np.float64]:
    """Numbers of any shape as float64, in an array that nobody else has and nobody can write to.

    Integers would wrap when they are squared, and short floating-point numbers round. Always a copy: of
    an array that cannot be written to, the base may be.
    """
    return _read_only(float_copy(name, given))


def float_copy(name: str, given: Any) -> NDArray[np.float64]:
    """As ``float_array``, for us to write to."""
    array = np.asarray(given)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise ReleaseError(f"{name} must be an array of numbers of at most 64 bits")
    return np.array(array, dtype=np.float64, order="C", subok=False)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


def word(name: str, value: object, choices: Sequence[object]) -> None:
    """Refuse what is none of the choices; an array, too, which compares with each of its entries."""
    if not isinstance(value, Hashable) or value not in choices:
        wanted = " or ".join(
            f'"{each}"' if isinstance(each, str) else str(each) for each in choices
        )
        raise ParameterError(f"{name} must be {wanted}, got {_shown(value)}")


def _shown(value: object) -> str:
    """A number or a word as it was given, anything else by its kind: it may hold private values."""
    if not isinstance(value, (numbers.Number, str, type(None))):
        return f"a {type(value).__name__}"
    try:
        text = repr(value)
    except ValueError:  # Python does not write out whole numbers of thousands of digits
        return "a number of too many digits"
    return text if len(text) <= 80 else f"{text[:80]}..."
