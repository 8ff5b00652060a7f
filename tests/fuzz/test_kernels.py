"""Compiled functions, called with hostile arrays: an error of Python's, or a result, and no array is touched.

What is read or written out of bounds shows under ``make sanitize``, where this runs too.
"""

import random
from typing import Any

import numpy as np
import pytest

from apportion.native import kernels
from tests.fuzz.harness import Fuzz, seeds
from tests.fuzz.kernel_calls import CALLS, WRITTEN, Arguments, good_call

pytestmark = pytest.mark.skipif(kernels is None, reason="no compiled kernels")

WHOLE = (0, 1, 2, 3, -1, -2, 7, 17, 2**31, 2**32, 2**62, 2**63 - 1, -(2**31), -(2**63))
FLOATS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    np.nan,
    np.inf,
    -np.inf,
    5e-324,
    1e-300,
    1e38,
    1e300,
    -1.7e308,
    2.0**31,
    2.0**63,
)
TYPES = "f8 f4 i8 i4 i2 u8 u2 u1 ? >f8 >i4 >i2 f2 c16 O S3 M8[s]".split()  # noqa: SIM905
ODD: tuple[Any, ...] = (
    None,
    "x",
    b"1234567812345678",
    [1.0, 2.0],
    3,
    3.5,
    np.float64(1.0),
    np.int64(2),
    (),
    {},
    object(),
)
# As a number of tasks or columns some of WHOLE would be given, and take gigabytes.
SIZES = tuple(each for each in WHOLE if abs(each) < 100 or abs(each) >= 2**62)
NUMBERS = (*SIZES, *FLOATS, 2**63, 2**64, True, None, "3", np.zeros(1), 1.5)


def bad_values(array: Any, source: random.Random) -> Any:
    """A few numbers, or all, are extreme."""
    bad = array.copy()
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            value = np.float64(source.choice(FLOATS)).astype(array.dtype)
    elif array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        value = source.choice([each for each in WHOLE if limits.min <= each <= limits.max])
    else:
        return bad
    if source.random() < 0.2:
        bad[...] = value
    for _ in range(source.randrange(1, 4)):
        if bad.size:
            bad.flat[source.randrange(bad.size)] = value
    return bad


def bad_shape(array: Any, source: random.Random) -> Any:
    """One row less or more, another number of dimensions, no rows, no columns."""
    axis = source.randrange(array.ndim)
    longer = [array, np.take(array, [0] * min(1, array.shape[axis]), axis)]
    return source.choice(
        (
            np.delete(array, slice(0, 1), axis),
            np.concatenate(longer, axis),
            np.concatenate([array, array], axis),
            array[None],
            array.reshape(-1),
            array[..., None],
            array[:0],
            np.zeros((*array.shape[:-1], 0), array.dtype),
            np.zeros((0,) * array.ndim, array.dtype),
            array.reshape(-1)[0:1].reshape(()) if array.size else array,
        )
    ).copy()


def bad_memory(array: Any, source: random.Random) -> Any:
    """Strides, alignment, another type or byte order, not to be written to."""
    raw = np.zeros(array.nbytes + 1, np.uint8)[1:]
    unaligned = raw[: array.nbytes].view(array.dtype).reshape(array.shape)
    unaligned[...] = array
    frozen = array.copy()
    frozen.flags.writeable = False
    with np.errstate(all="ignore"):
        cast = array.astype(source.choice(TYPES), casting="unsafe")
    return source.choice(
        (
            unaligned,
            frozen,
            cast,
            np.repeat(array, 2, axis=0)[::2],
            array[::-1],
            np.asfortranarray(array),
            array.T,
            np.broadcast_to(array[:1], array.shape) if array.shape[0] else array,
            memoryview(np.ascontiguousarray(array)),
        )
    )


def hostile(value: Any, source: random.Random) -> Any:
    """Something else in the place of a good argument."""
    if isinstance(value, list):  # of arrays
        some = [hostile(each, source) if source.random() < 0.5 else each for each in value]
        return source.choice((some, [], [None], value + some))
    if not isinstance(value, np.ndarray):
        return source.choice(NUMBERS if source.random() < 0.8 else ODD)
    if source.random() < 0.05:
        return source.choice(ODD)
    return source.choice((bad_values, bad_values, bad_shape, bad_memory))(value, source)


def copies(call: Arguments) -> Arguments:
    return {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in call.items()}


def test_every_compiled_function_is_called() -> None:
    functions = {name for name in dir(kernels) if callable(getattr(kernels, name))}
    assert functions - {"isa", "isas", "use_isa"} - {"__loader__"} == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_good_calls_are_good(name: str, isa: str) -> None:
    for source in seeds(5):
        getattr(kernels, name)(**good_call(name, source))


@pytest.mark.filterwarnings("ignore")  # of NumPy, about casts
@pytest.mark.parametrize("name", CALLS)
def test_hostile_calls(name: str, isa: str, fuzz: Fuzz) -> None:
    function, refused, wanted = getattr(kernels, name), 0, 0
    for source in seeds(120):
        call = good_call(name, source)
        places = [argument for argument in call if argument != "function"]
        for argument in source.sample(places, min(len(places), source.choice((1, 1, 1, 2, 3)))):
            call[argument] = hostile(call[argument], source)
        before = copies(call)
        wanted += 1
        try:
            fuzz.case(lambda: function(**call))
        except (TypeError, ValueError, MemoryError, OverflowError):
            refused += 1
        for argument in set(call) - WRITTEN.get(name, set()):
            if isinstance(call[argument], np.ndarray):
                assert call[argument].tobytes() == before[argument].tobytes(), argument
    assert 0 < refused < wanted
