"""JSON that anybody may have written: whatever is wrong with it is an error of ours."""

import json
import math
from typing import Any

from apportion.errors import DataError


def parse_json(text: str | bytes) -> Any:
    """The values of JSON text.

    Refuses what JSON does not know (NaN, infinities), what would be read as such, names that come twice,
    and nesting or numbers beyond all bounds.
    """
    try:
        values = json.loads(
            text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_once
        )
    except json.JSONDecodeError as error:
        raise DataError(f"invalid JSON at line {error.lineno}") from None
    except UnicodeError:
        raise DataError("not JSON: it is not valid Unicode") from None
    except RecursionError:
        raise DataError("not JSON that can be used: it is nested too deeply") from None
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError("not JSON that can be used: a number has too many digits") from None
    return values


def _no_constant(name: str) -> Any:
    raise DataError(f"not JSON: it holds {name}")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise DataError("not JSON that can be used: a number is too large")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise DataError("not JSON that can be used: an object has the same name twice")
    return values
