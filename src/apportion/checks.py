"""Parameters as plain Python numbers, within their range, or a clear error.

Plain numbers matter: an 8-bit NumPy bound would overflow when it is squared, and a 32-bit one would
round a budget. Whatever enters a sensitivity or a budget goes through here first.
"""

import math
import numbers
from collections.abc import Hashable, Sequence

from apportion.errors import ParameterError

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
