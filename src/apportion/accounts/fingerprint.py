"""Short names of values, equal only if the values are: to tell whether a training is the same one.

Under a key a fingerprint says nothing to those who do not have it. Without a key it lets anybody try
out guesses, so private data is never fingerprinted without one.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from apportion.errors import ParameterError


def fingerprint(value: Any, key: bytes = b"") -> str:
    """64 hexadecimal digits of a number, a text, an array, a dataclass, or a collection of these.

    >>> fingerprint([1, 2.0]) == fingerprint([1, 2.0]), fingerprint([1, 2]) == fingerprint([12])
    (True, False)
    >>> fingerprint("x", key=b"a") == fingerprint("x", key=b"b")
    False
    """
    digest = hashlib.blake2b(key=key, person=b"fingerprint", digest_size=32)
    for piece in _pieces(value):
        digest.update(len(piece).to_bytes(8, "little"))
        digest.update(piece)
    return digest.hexdigest()


def _pieces(value: Any) -> Iterator[bytes | memoryview]:
    """What a value consists of; no two values have the same pieces."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float)):
        yield f"{type(value).__name__} {value!r}".encode()
    elif isinstance(value, str):
        yield b"str"
        yield value.encode("utf-8", "surrogatepass")
    elif isinstance(value, bytes):
        yield b"bytes"
        yield value
    elif isinstance(value, np.ndarray) and value.dtype.kind != "O":
        yield f"array {value.dtype.str} {value.shape}".encode()
        yield np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
    elif isinstance(value, (list, tuple, np.ndarray)):
        yield f"list {len(value)}".encode()
        for each in value:
            yield from _pieces(each)
    elif isinstance(value, Mapping):
        yield from _named("mapping", value)
    elif isinstance(value, FunctionType):
        code = value.__code__
        constants = [repr(each) for each in code.co_consts if not isinstance(each, CodeType)]
        closed_over = [cell.cell_contents for cell in value.__closure__ or ()]
        parts = {"code": code.co_code, "constants": constants, "closed over": closed_over}
        yield from _named(value.__qualname__, parts)
    elif is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        yield from _named(type(value).__qualname__, parts)
    elif hasattr(value, "__dict__"):
        yield from _named(type(value).__qualname__, vars(value))
    else:
        raise ParameterError(f"a {type(value).__name__} cannot be part of a checkpointed training")


def _named(name: str, parts: Mapping[Any, Any]) -> Iterator[bytes | memoryview]:
    yield f"{len(parts)} parts of {name}".encode()
    for key, part in parts.items():
        yield from _pieces(key)
        yield from _pieces(part)
