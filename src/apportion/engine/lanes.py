# ruff: noqa: ARG001 (an intrinsic names all its arguments, of some of which nobody asks the type)
"""Vectors of numbers inside compiled code: one number in each lane of the vector registers.

In functions that numba compiles, ``load`` and ``spread`` make vectors, + - * / < <= == & | work on them
lane by lane, and ``select``, ``root``, ``size``, ``least`` and ``largest`` are what else is needed. A lane
does the same arithmetic whatever its neighbours are.
"""

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model
from numba.np.arrayobj import make_array

# The widest registers hold eight numbers; where they are narrower, each instruction becomes several.
LANES = 8


class _Lanes(types.Type):  # type: ignore[misc]
    """One number per lane."""

    def __init__(self) -> None:
        super().__init__(name=f"float64x{LANES}")


class _Mask(types.Type):  # type: ignore[misc]
    """One truth value per lane."""

    def __init__(self) -> None:
        super().__init__(name=f"boolx{LANES}")


_lanes, _mask = _Lanes(), _Mask()
_NUMBERS = ir.VectorType(ir.DoubleType(), LANES)
_BITS = ir.VectorType(ir.IntType(1), LANES)


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _NUMBERS)


@register_model(_Mask)
class _MaskModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _BITS)


def _place(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """The address of numbers ``LANES * index`` and on of a contiguous array."""
    data = make_array(array_type)(context, builder, array).data
    first = builder.mul(index, ir.Constant(index.type, LANES))
    return builder.bitcast(builder.gep(data, [first]), _NUMBERS.as_pointer())


@intrinsic  # type: ignore[untyped-decorator]
def load(_: Any, array: Any, index: Any) -> Any:
    """The vector at ``index`` of an array of vectors, which for NumPy are ``LANES`` numbers each."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature.args[0], *arguments)
        return builder.load(place, align=8)

    return _lanes(array, types.intp), emit


@intrinsic  # type: ignore[untyped-decorator]
def store(_: Any, array: Any, index: Any, value: Any) -> Any:
    """Put a vector to ``index`` of an array of vectors."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, index, value = arguments
        place = _place(context, builder, signature.args[0], array, index)
        builder.store(value, place, align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, _lanes), emit


@intrinsic  # type: ignore[untyped-decorator]
def spread(_: Any, value: Any) -> Any:
    """The same number in every lane."""

    def emit(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        empty = ir.Constant(_NUMBERS, ir.Undefined)
        first = builder.insert_element(empty, arguments[0], ir.Constant(ir.IntType(32), 0))
        order = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return builder.shuffle_vector(first, empty, order)

    return _lanes(types.float64), emit


@intrinsic  # type: ignore[untyped-decorator]
def select(_: Any, mask: Any, yes: Any, no: Any) -> Any:
    """In each lane the one or the other number."""

    def emit(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.select(*arguments)

    return _lanes(_mask, _lanes, _lanes), emit


def _library(name: str, takes: Any, gives: Any) -> Any:
    """One of LLVM's own functions of a vector."""

    @intrinsic  # type: ignore[untyped-decorator]
    def function(_: Any, value: Any) -> Any:
        def emit(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
            kind = ir.FunctionType(
                ir.DoubleType() if gives is types.float64 else _NUMBERS, [_NUMBERS]
            )
            called = cgutils.get_or_insert_function(
                builder.module, kind, f"llvm.{name}.v{LANES}f64"
            )
            return builder.call(called, arguments)

        return gives(takes), emit

    return function


root = _library("sqrt", _lanes, _lanes)
size = _library("fabs", _lanes, _lanes)
least = _library("vector.reduce.fmin", _lanes, types.float64)
largest = _library("vector.reduce.fmax", _lanes, types.float64)


def _operator(symbol: Any, kind: Any, result: Any, emit: Callable[[Any, Any, Any], Any]) -> None:
    @intrinsic  # type: ignore[untyped-decorator]
    def apply(_: Any, a: Any, b: Any) -> Any:
        def emit_both(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
            return emit(builder, *arguments)

        return result(kind, kind), emit_both

    @overload(symbol, strict=False)  # type: ignore[untyped-decorator]
    def implementation(a: Any, b: Any) -> Any:
        return (lambda a, b: apply(a, b)) if a == b == kind else None


# A product that is added to something may be rounded once instead of twice, in all lanes alike.
_FUSED = ("contract",)
_operator(operator.add, _lanes, _lanes, lambda to, a, b: to.fadd(a, b, flags=_FUSED))
_operator(operator.sub, _lanes, _lanes, lambda to, a, b: to.fsub(a, b, flags=_FUSED))
_operator(operator.mul, _lanes, _lanes, lambda to, a, b: to.fmul(a, b, flags=_FUSED))
_operator(operator.truediv, _lanes, _lanes, lambda to, a, b: to.fdiv(a, b))
_operator(operator.lt, _lanes, _mask, lambda to, a, b: to.fcmp_ordered("<", a, b))
_operator(operator.le, _lanes, _mask, lambda to, a, b: to.fcmp_ordered("<=", a, b))
_operator(operator.eq, _lanes, _mask, lambda to, a, b: to.fcmp_ordered("==", a, b))
_operator(operator.and_, _mask, _mask, lambda to, a, b: to.and_(a, b))
_operator(operator.or_, _mask, _mask, lambda to, a, b: to.or_(a, b))
