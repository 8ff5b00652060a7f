"""Named arrays as bytes and back: how shards and sums travel."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ALIGNED = 64  # bytes, so that arrays can be used where they lie


def to_bytes(arrays: Mapping[str, NDArray[Any] | None]) -> bytes:
    """All arrays in one piece; None is left out."""
    given = {name: np.ascontiguousarray(each) for name, each in arrays.items() if each is not None}
    form = [(name, each.dtype.str, each.shape, each.size) for name, each in given.items()]
    header = json.dumps(form).encode()
    header += b" " * (-(len(header) + 8) % _ALIGNED)
    pieces: list[Any] = [len(header).to_bytes(8, "little"), header]
    for each in given.values():
        pieces += [each.reshape(-1).view(np.uint8).data, bytes(-each.nbytes % _ALIGNED)]
    return b"".join(pieces)


def from_bytes(content: Any) -> dict[str, NDArray[Any]]:
    """The arrays, in the memory of the bytes: they cannot be written to.

    >>> from_bytes(to_bytes({"a": np.arange(3), "b": None}))
    {'a': array([0, 1, 2])}
    """
    view = memoryview(content)
    place = 8 + int.from_bytes(view[:8], "little")
    arrays = {}
    for name, dtype, shape, size in json.loads(bytes(view[8:place])):
        found = np.frombuffer(view, np.dtype(dtype), size, place).reshape(shape)
        found.flags.writeable = False
        arrays[name] = found
        place += found.nbytes + -found.nbytes % _ALIGNED
    return arrays
