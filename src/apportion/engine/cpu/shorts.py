"""Gram matrices of 16-bit whole numbers: exact, and faster than floating-point ones.

As in ``gram``, rows are gathered into a tile that stays in the fastest cache, and a panel of 8 rows of the
result is held in registers while the tile is read. But two rows x, y of a tile lie together, column by column
(x_0 y_0 x_1 y_1 ...), for an instruction that multiplies 16-bit numbers and adds neighbouring products: it
does the work of four multiply-adds of 64-bit numbers, and rounds nothing. Products are added up in 32
bits, and have to be moved to where there is room before they may pass these (``sums``).

Rows are brought from one scale to another on their way into the tile: times a factor, rounded to the nearest
whole number. Vectors are as in ``gram``, and so is how they are adapted to other processors.
"""

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from apportion.engine.cpu.gram import PANEL
from apportion.engine.cpu.vectors import VectorWriter

LANES = 16

_INDEX, _SHORT, _WORD = ir.IntType(64), ir.IntType(16), ir.IntType(32)
_FLOAT, _DOUBLE = ir.FloatType(), ir.DoubleType()


def _scaled(writer: Any, place: Any, factor: Any) -> Any:
    """16 short numbers times a factor, in floating point."""
    builder = writer.builder
    kind = ir.VectorType(_SHORT, LANES)
    shorts = builder.load(builder.bitcast(place, kind.as_pointer()), align=2)
    return builder.fmul(builder.sitofp(shorts, ir.VectorType(_FLOAT, LANES)), factor)


def _spread(builder: Any, value: Any) -> Any:
    nothing = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    one = builder.insert_element(nothing, value, ir.Constant(_WORD, 0))
    return builder.shuffle_vector(
        one, nothing, ir.Constant(ir.VectorType(_WORD, LANES), [0] * LANES)
    )


@intrinsic  # type: ignore[untyped-decorator]
def put_pair(_: Any, tile: Any, at: Any, source: Any, x: Any, f: Any, y: Any, g: Any) -> Any:
    """tile[at] = round(f * source[x]) and round(g * source[y]), column by column in turn.

    A number of the tile holds the first in its lower half and the second in the upper.
    """
    del at, x, f, y, g

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        writer = VectorWriter(context, builder, signature, args)
        out, rows, zero = writer.matrix(0), writer.matrix(2), ir.Constant(_INDEX, 0)
        _, at, _, first, f, second, g = args
        floats, words = ir.VectorType(_FLOAT, LANES), ir.VectorType(_WORD, LANES)
        # Added to a number below 2^22, this leaves no digits after the point, and the number, rounded, in
        # the last bits of the sum.
        large = ir.Constant(floats, [1.5 * 2.0**23] * LANES)
        factors = _spread(builder, f), _spread(builder, g)

        def change(column: Any, _: list[Any]) -> list[Any]:
            low, high = (
                builder.bitcast(
                    builder.fadd(_scaled(writer, writer.place(rows, row, column), factor), large),
                    words,
                )
                for row, factor in zip((first, second), factors, strict=True)
            )
            low = builder.and_(low, ir.Constant(words, [0xFFFF] * LANES))
            high = builder.shl(high, ir.Constant(words, [16] * LANES))
            writer.store(builder.or_(low, high), writer.place(out, at, column))
            return []

        writer.loop(zero, out[1], LANES, [], change)
        return context.get_dummy_value()

    whole, real = types.intp, types.float32
    return types.void(tile, whole, source, whole, real, whole, real), write


def _sum_writer(vectors: int) -> Any:
    """``add(total, at, j, source, rows, factors, first, stop)``, for as many columns from j on.

    total[at] += sum over k from first to stop of factors[0, k] * source[rows[0, k]], every number rounded
    towards zero first. Sums of these must be below 2^31 in size.
    """

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        writer = VectorWriter(context, builder, signature, args)
        total, source, zero = writer.matrix(0), writer.matrix(3), ir.Constant(_INDEX, 0)
        rows, factors = writer.matrix(4), writer.matrix(5)
        _, at, j, _, _, _, first, stop = args
        words, doubles = ir.VectorType(_WORD, LANES), ir.VectorType(_DOUBLE, LANES)

        def add_row(k: Any, sums: list[Any]) -> list[Any]:
            row = builder.sext(builder.load(writer.place(rows, zero, k)), _INDEX)
            factor = _spread(builder, builder.load(writer.place(factors, zero, k)))
            places = [writer.place(source, row, j, 0, v * LANES) for v in range(vectors)]
            values = [builder.fptosi(_scaled(writer, place, factor), words) for place in places]
            return [builder.add(one, value) for one, value in zip(sums, values, strict=True)]

        none = ir.Constant(words, [0] * LANES)
        sums = writer.loop(first, stop, 1, [none] * vectors, add_row)
        for v in range(vectors):
            here = writer.place(total, at, j, 0, v * LANES)
            value = builder.sitofp(sums[v], doubles)
            writer.store(builder.fadd(writer.load(here, LANES), value), here)
        return context.get_dummy_value()

    def add(
        _: Any,
        total: Any,
        at: Any,
        j: Any,
        source: Any,
        rows: Any,
        factors: Any,
        first: Any,
        stop: Any,
    ) -> Any:
        del at, j, first, stop
        whole = types.intp
        return types.void(total, whole, whole, source, rows, factors, whole, whole), write

    return intrinsic(add)


_sum_one, _sum_four = _sum_writer(1), _sum_writer(4)


@njit(cache=True)  # type: ignore[untyped-decorator]
def add_truncated(
    total: NDArray[np.float64],
    at: int,
    source: NDArray[np.int16],
    rows: NDArray[np.int32],
    factors: NDArray[np.float32],
    first: int,
    stop: int,
) -> None:
    """total[at] += sum over k of factors[0, k] * source[rows[0, k]], rounded towards zero one by one.

    All these together must be below 2^31 in size.
    """
    n = total.shape[1]
    j = 0
    while j + 4 * LANES <= n:
        _sum_four(total, at, j, source, rows, factors, first, stop)
        j += 4 * LANES
    while j < n:
        _sum_one(total, at, j, source, rows, factors, first, stop)
        j += LANES


def _block_writer(vectors: int) -> Any:
    """``add(tile, i, j, pairs, total)``: total[i + p, j + q] += sum of products, p < 8, q in the vectors."""

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        writer = VectorWriter(context, builder, signature, args)
        tile, total, zero = writer.matrix(0), writer.matrix(4), ir.Constant(_INDEX, 0)
        _, i, j, pairs, _ = args
        words = ir.VectorType(_WORD, LANES)
        shorts = ir.VectorType(_SHORT, 2 * LANES)
        wide = ir.VectorType(_WORD, 2 * LANES)
        halves = [ir.Constant(words, list(range(which, 2 * LANES, 2))) for which in (0, 1)]

        def products(x: Any, y: Any) -> Any:
            """x_2k y_2k + x_2k+1 y_2k+1: LLVM knows an instruction for this."""
            x, y = (builder.sext(builder.bitcast(each, shorts), wide) for each in (x, y))
            product = builder.mul(x, y)
            even, odd = (builder.shuffle_vector(product, product, half) for half in halves)
            return builder.add(even, odd)

        def add_pair(pair: Any, sums: list[Any]) -> list[Any]:
            new = []
            for v in range(vectors):
                y = writer.load(writer.place(tile, pair, j, 0, v * LANES), LANES)
                for p in range(PANEL):
                    x = _spread(builder, builder.load(writer.place(tile, pair, i, 0, p)))
                    new.append(builder.add(sums[v * PANEL + p], products(x, y)))
            return new

        none = ir.Constant(words, [0] * LANES)
        sums = writer.loop(zero, pairs, 1, [none] * (vectors * PANEL), add_pair)
        for v in range(vectors):
            for p in range(PANEL):
                here = writer.place(total, i, j, p, v * LANES)
                writer.store(builder.add(writer.load(here, LANES), sums[v * PANEL + p]), here)
        return context.get_dummy_value()

    def add(_: Any, tile: Any, i: Any, j: Any, pairs: Any, total: Any) -> Any:
        del i, j, pairs
        whole = types.intp
        return types.void(tile, whole, whole, whole, total), write

    return intrinsic(add)


_add_one, _add_two = _block_writer(1), _block_writer(2)


@njit(cache=True)  # type: ignore[untyped-decorator]
def add_products(tile: NDArray[np.int32], pairs: int, total: NDArray[np.int32]) -> None:
    """Add the sums of x x' over the pairs of rows of a tile to the upper triangle of total [n, n]."""
    n = total.shape[1]
    for at in range(0, n, PANEL):
        j = at // LANES * LANES
        while j + 2 * LANES <= n:
            _add_two(tile, at, j, pairs, total)
            j += 2 * LANES
        if j < n:
            _add_one(tile, at, j, pairs, total)
