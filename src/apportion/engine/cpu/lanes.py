# ruff: noqa: ARG001 (an intrinsic names all its arguments, of some of which nobody asks the type)
"""Vectors of numbers inside compiled code: one number in each lane of the vector registers.

In functions that numba compiles, ``load`` and ``spread`` make vectors, + - * / < <= == & | work on them
lane by lane, and ``select``, ``root``, ``size``, ``least`` and ``largest`` are what else is needed. A lane
does the same arithmetic whatever its neighbours are. An array of float32 has vectors of sixteen numbers, one
of float64 of eight.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model
from numba.np.arrayobj import make_array
from numpy.typing import NDArray

from apportion.engine.cpu.gram import put_turned

Array = NDArray[np.float64]

# The widest registers have so many bytes; where they are narrower, each instruction becomes several.
_BYTES = 64
# How many numbers of 64 bits they hold.
LANES = 8


class _Lanes(types.Type):  # type: ignore[misc]
    """One number per lane."""

    def __init__(self, number: Any, lanes: int) -> None:
        super().__init__(name=f"{number}x{lanes}")
        self.number, self.lanes = number, lanes
        self.one = ir.DoubleType() if number == types.float64 else ir.FloatType()
        self.vector = ir.VectorType(self.one, lanes)


class _Mask(types.Type):  # type: ignore[misc]
    """One truth value per lane."""

    def __init__(self, lanes: int) -> None:
        super().__init__(name=f"boolx{lanes}")
        self.lanes = lanes
        self.vector = ir.VectorType(ir.IntType(1), lanes)


@register_model(_Lanes)
@register_model(_Mask)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, kind.vector)


def _place(context: Any, builder: Any, kind: Any, array_type: Any, array: Any, index: Any) -> Any:
    """The address of the vector at ``index`` of a contiguous array."""
    data = make_array(array_type)(context, builder, array).data
    first = builder.mul(index, ir.Constant(index.type, kind.lanes))
    return builder.bitcast(builder.gep(data, [first]), kind.vector.as_pointer())


def _of(array: Any, registers: int) -> _Lanes:
    """What the vectors of an array are, if they fill so many registers."""
    return _Lanes(array.dtype, registers * _BYTES * 8 // array.dtype.bitwidth)


def _load(registers: int) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def load(_: Any, array: Any, index: Any) -> Any:
        """The vector at ``index`` of an array of vectors, which for NumPy are so many numbers each."""
        kind = _of(array, registers)

        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place = _place(context, builder, kind, signature.args[0], *arguments)
            return builder.load(place, align=array.dtype.bitwidth // 8)

        return kind(array, types.intp), emit

    return load


def _spread(registers: int) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def spread(_: Any, array: Any, value: Any) -> Any:
        """The same number in every lane of a vector as those of the array."""
        kind = _of(array, registers)

        def emit(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
            value = arguments[1]
            if kind.one != value.type:
                value = builder.fptrunc(value, kind.one)
            empty = ir.Constant(kind.vector, ir.Undefined)
            first = builder.insert_element(empty, value, ir.Constant(ir.IntType(32), 0))
            order = ir.Constant(ir.VectorType(ir.IntType(32), kind.lanes), [0] * kind.lanes)
            return builder.shuffle_vector(first, empty, order)

        return kind(array, types.float64), emit

    return spread


load, spread = _load(1), _spread(1)
# For what waits for one result after the other: two registers that do not wait for each other.
load_wide, spread_wide = _load(2), _spread(2)


@intrinsic  # type: ignore[untyped-decorator]
def store(_: Any, array: Any, index: Any, value: Any) -> Any:
    """Put a vector to ``index`` of an array of vectors."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        *where, vector = arguments
        place = _place(context, builder, value, signature.args[0], *where)
        builder.store(vector, place, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), emit


@intrinsic  # type: ignore[untyped-decorator]
def select(_: Any, mask: Any, yes: Any, no: Any) -> Any:
    """In each lane the one or the other number."""

    def emit(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.select(*arguments)

    return yes(mask, yes, no), emit


def _library(name: str, *, reduces: bool = False) -> Any:
    """One of LLVM's own functions of a vector."""

    @intrinsic  # type: ignore[untyped-decorator]
    def function(_: Any, value: Any) -> Any:
        def emit(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
            kind = ir.FunctionType(value.one if reduces else value.vector, [value.vector])
            of_what = f"v{value.lanes}f{value.number.bitwidth}"
            called = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.{of_what}")
            return builder.call(called, arguments)

        return (value.number if reduces else value)(value), emit

    return function


root, size = _library("sqrt"), _library("fabs")
least = _library("vector.reduce.fmin", reduces=True)
largest = _library("vector.reduce.fmax", reduces=True)


def _operator(symbol: Any, takes: type, gives: type, emit: Callable[[Any, Any, Any], Any]) -> None:
    @intrinsic  # type: ignore[untyped-decorator]
    def apply(_: Any, a: Any, b: Any) -> Any:
        def emit_both(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
            return emit(builder, *arguments)

        return (_Mask(a.lanes) if gives is _Mask else a)(a, b), emit_both

    @overload(symbol, strict=False)  # type: ignore[untyped-decorator]
    def implementation(a: Any, b: Any) -> Any:
        return (lambda a, b: apply(a, b)) if a == b and isinstance(a, takes) else None


# A product that is added to something may be rounded once instead of twice, in all lanes alike.
_FUSED = ("contract",)
_operator(operator.add, _Lanes, _Lanes, lambda to, a, b: to.fadd(a, b, flags=_FUSED))
_operator(operator.sub, _Lanes, _Lanes, lambda to, a, b: to.fsub(a, b, flags=_FUSED))
_operator(operator.mul, _Lanes, _Lanes, lambda to, a, b: to.fmul(a, b, flags=_FUSED))
_operator(operator.truediv, _Lanes, _Lanes, lambda to, a, b: to.fdiv(a, b))
_operator(operator.lt, _Lanes, _Mask, lambda to, a, b: to.fcmp_ordered("<", a, b))
_operator(operator.le, _Lanes, _Mask, lambda to, a, b: to.fcmp_ordered("<=", a, b))
_operator(operator.eq, _Lanes, _Mask, lambda to, a, b: to.fcmp_ordered("==", a, b))
_operator(operator.and_, _Mask, _Mask, lambda to, a, b: to.and_(a, b))
_operator(operator.or_, _Mask, _Mask, lambda to, a, b: to.or_(a, b))


@njit(cache=True)  # type: ignore[untyped-decorator]
def lanes_in(array: NDArray[Any]) -> int:
    """How many numbers a vector of this array has."""
    return _BYTES // array.itemsize


@njit(cache=True)  # type: ignore[untyped-decorator]
def vectors(like: NDArray[Any], count: int) -> NDArray[Any]:
    """Room for so many vectors like those of an array, none of which straddles two cache lines."""
    lanes = lanes_in(like)
    room = np.empty((count + 1) * lanes, dtype=like.dtype)
    first = (-room.ctypes.data // room.itemsize) % lanes
    return room[first : first + count * lanes]


@njit(cache=True)  # type: ignore[untyped-decorator]
def fill(rows: Array, scale: Array, shared: Array, first: int, ready: Array, sizes: Array) -> None:
    """Put rows ``first`` and on into the lanes, with scale_i * shared, divided by their largest entries.

    Lanes beyond the last row repeat it.
    """
    systems, width = rows.shape
    done, as_rows = 0, ready.reshape((width, LANES))
    if first + LANES <= systems:
        while done + LANES <= width:
            put_turned(as_rows, done, rows[first:], 0, None)
            done += LANES
    for entry in range(done, width):
        for lane in range(LANES):
            ready[entry * LANES + lane] = rows[min(first + lane, systems - 1), entry]
    for lane in range(LANES):
        sizes[lane] = scale[min(first + lane, systems - 1)]
    multiple, top = load(sizes, 0), spread(ready, 1e-300)
    for entry in range(width):
        x = load(ready, entry) + multiple * spread(ready, shared[entry])
        store(ready, entry, x)
        top = select(top < size(x), size(x), top)
    inverse = spread(ready, 1.0) / top
    for entry in range(width):
        store(ready, entry, load(ready, entry) * inverse)
    store(sizes, 0, top)
