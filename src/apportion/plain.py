"""Frozen settings as plain values and back: how files hold them. Known kinds and plain values only."""

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from apportion.errors import DataError


def to_plain(value: Any) -> Any:
    """A dataclass as a dictionary of its fields with its ``kind``; tuples as lists.

    >>> from apportion.allocation import UniformSampling
    >>> to_plain(UniformSampling(k=3))
    {'kind': 'UniformSampling', 'k': 3}
    """
    if is_dataclass(value) and not isinstance(value, type):
        own = {each.name: to_plain(getattr(value, each.name)) for each in fields(value)}
        return {"kind": type(value).__name__, **own}
    if isinstance(value, (list, tuple)):
        return [to_plain(each) for each in value]
    if value == float("inf"):
        return "inf"
    return value.item() if hasattr(value, "item") else value


def from_plain(value: Any, kinds: Iterable[type]) -> Any:
    """The inverse of ``to_plain``, of these kinds alone, each field of its declared type.

    Whatever else it is, is a ``DataError``.
    """
    known = {kind.__name__: kind for kind in kinds}

    def build(value: Any) -> Any:
        if isinstance(value, dict):
            kind = known.get(str(value.get("kind")))
            if kind is None:
                raise DataError(f"{str(value.get('kind'))[:80]!r} is no kind of setting")
            hints = get_type_hints(kind)
            names = [each.name for each in fields(kind)]
            if set(value) - {"kind"} != set(names):
                raise DataError(f"{kind.__name__} has other fields than it should")
            built = {name: build(value[name]) for name in names}
            for name in names:
                if not _fits(built[name], hints[name]):
                    raise DataError(
                        f"{name} of {kind.__name__} is of another type than it should be"
                    )
            return kind(**built)
        if isinstance(value, list):
            return tuple(build(each) for each in value)
        return float("inf") if value == "inf" else value

    try:
        return build(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"settings cannot be read: {error}") from None


def _fits(value: Any, hint: Any) -> bool:
    """Whether a plain value is of a declared type."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in inside)
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in inside)
    if origin is tuple and inside[-1:] == (...,):
        return isinstance(value, tuple) and all(_fits(each, inside[0]) for each in value)
    if origin is tuple:
        same = isinstance(value, tuple) and len(value) == len(inside)
        return same and all(map(_fits, value, inside))
    if origin is not None:  # a sequence
        return isinstance(value, tuple) and all(_fits(each, inside[0]) for each in value)
    if hint is float:
        return type(value) in (int, float)
    if hint in (int, bool, str):
        return type(value) is hint
    return isinstance(value, hint)
