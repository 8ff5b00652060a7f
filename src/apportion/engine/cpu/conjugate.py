"""One user's system by conjugate gradients, where they settle soon: a fraction of the work of a factor.

(X'X + D) v = X'y with D diagonal is solved without X'X: a step multiplies the rows X [n, d] twice by a
vector, which takes 4 n d operations, where X'X takes n d^2 and its factor d^3 / 3. D, a ridge that grows with
n or the weight of what users did not choose, keeps these systems near their diagonals: divided by those,
their condition is usually 2 to 5, and seven to ten steps bring the error below 1e-5 of v. Where they do not
settle the caller makes a factor after all.

The rows are gathered once and stay in a cache; eight of them are multiplied at a time. A user's numbers are
computed in the same order whoever else is there.
"""

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from apportion.engine.cpu.vectors import INDEX, VectorWriter

Array = NDArray[np.float64]
Singles = NDArray[np.float32]

ROWS = 8  # at a time
VECTORS = 5  # that ``solve_by_steps`` needs room for, beside the rows
AHEAD = 32  # rows that are asked for before they are needed

# With S the diagonal of X'X + D = A, and |x|^2 = x'S x: A >= D >= S / grown, grown = max S / D. So an error e
# of v, that leaves r = A e, has |e| <= grown (r'S^-1 r)^1/2. Of |v| it may be at most this much, squared.
_SETTLED = 1e-5**2
_STEPS = 16
# After a quarter of the steps a fifth of the way must be done: it goes on about as it began.
_SOON, _BY_THEN = 4, _SETTLED**0.2
# Where the diagonal has grown more, what float32 rounds off r could alone be as much as that.
_GROWN = 30.0
# Squares within these bounds stay numbers with all their digits when what was squared is a millionth of it.
_LARGE, _SMALL = 1e30, 1e-24


@intrinsic  # type: ignore[untyped-decorator]
def _take_rows(
    _: Any,
    tile: Any,
    at: Any,
    source: Any,
    item: Any,
    label: Any,
    first: Any,
    stop: Any,
    b: Any,
    squares: Any,
) -> Any:
    """Gather 8 rows, tile[at + i] = x = source[item[0, first + at + i]], and add them up.

    b [1, d] += y x with y = label[0, first + at + i], squares [1, d] += x^2. From ``stop`` on x is the last
    row of the source.
    """

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        writer = VectorWriter(context, builder, signature, args)
        tile, source, item, label, b, squares = (writer.matrix(i) for i in (0, 2, 3, 4, 7, 8))
        at, zero, one, lanes = args[1], ir.Constant(INDEX, 0), ir.Constant(INDEX, 1), writer.lanes
        last = builder.sub(args[6], one)
        nothing = builder.sub(writer.rows(2), one)
        end = builder.sub(item[1], one)

        def least(x: Any, y: Any) -> Any:
            return builder.select(builder.icmp_signed("<", x, y), x, y)

        def row_at(place: Any) -> Any:
            return builder.sext(builder.load(writer.place(item, zero, place)), INDEX)

        rows, y, ahead = [], [], []
        for i in range(ROWS):
            place = builder.add(builder.add(args[5], at), ir.Constant(INDEX, i))
            own = least(place, last)
            there = builder.icmp_signed("<=", place, last)
            rows.append(builder.select(there, row_at(own), nothing))
            value = builder.load(writer.place(label, zero, own))
            y.append(writer.spread(builder.fptrunc(value, writer.number), lanes))
            ahead.append(row_at(least(builder.add(place, ir.Constant(INDEX, AHEAD)), end)))

        def take(column: Any, _: list[Any]) -> list[Any]:
            places = [writer.place(out, zero, column) for out in (b, squares)]
            sums = [writer.load(place, lanes) for place in places]
            for i in range(ROWS):
                writer.ask_for(writer.place(source, ahead[i], column))
                x = writer.load(writer.place(source, rows[i], column), lanes)
                writer.store(x, writer.place(tile, at, column, i))
                sums = [
                    writer.add_product(total, factor, x)
                    for total, factor in zip(sums, (y[i], x), strict=True)
                ]
            for total, place in zip(sums, places, strict=True):
                writer.store(total, place)
            return []

        writer.loop(zero, tile[1], lanes, [], take)
        return context.get_dummy_value()

    del at, first, stop
    whole = types.intp
    return types.void(tile, whole, source, item, label, whole, whole, b, squares), write


@intrinsic  # type: ignore[untyped-decorator]
def add_rows(_: Any, out: Any, source: Any, at: Any, factor: Any) -> Any:
    """out [1, d] += factor[0, row] * source[row] for the 8 rows from ``at`` on."""

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        writer = VectorWriter(context, builder, signature, args)
        out, source, factor = (writer.matrix(which) for which in (0, 1, 3))
        at, zero, lanes = args[2], ir.Constant(INDEX, 0), writer.lanes
        factors = [
            writer.spread(builder.load(writer.place(factor, zero, at, 0, i)), lanes)
            for i in range(ROWS)
        ]
        _add_all(writer, out, source, at, factors)
        return context.get_dummy_value()

    del at
    return types.void(out, source, types.intp, factor), write


def _add_all(writer: VectorWriter, out: Any, source: Any, at: Any, factors: list[Any]) -> None:
    zero, lanes = ir.Constant(INDEX, 0), writer.lanes

    def add(column: Any, _: list[Any]) -> list[Any]:
        place = writer.place(out, zero, column)
        sums = [
            writer.load(place, lanes),
            ir.Constant(ir.VectorType(writer.number, lanes), [0.0] * lanes),
        ]
        for i in range(ROWS):
            x = writer.load(writer.place(source, at, column, i), lanes)
            sums[i % 2] = writer.add_product(sums[i % 2], factors[i], x)
        writer.store(writer.builder.fadd(*sums), place)
        return []

    writer.loop(zero, source[1], lanes, [], add)


@intrinsic  # type: ignore[untyped-decorator]
def _multiply_rows(_: Any, tile: Any, at: Any, p: Any, q: Any) -> Any:
    """For the 8 rows x from ``at`` on, q [1, d] += x (x'p), p being [1, d]."""

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        writer = VectorWriter(context, builder, signature, args)
        tile, p, q = (writer.matrix(which) for which in (0, 2, 3))
        at, zero, lanes = args[1], ir.Constant(INDEX, 0), writer.lanes

        def multiply(column: Any, sums: list[Any]) -> list[Any]:
            factor = writer.load(writer.place(p, zero, column), lanes)
            rows = [writer.load(writer.place(tile, at, column, i), lanes) for i in range(ROWS)]
            return [
                writer.add_product(total, factor, x) for total, x in zip(sums, rows, strict=True)
            ]

        none = ir.Constant(ir.VectorType(writer.number, lanes), [0.0] * lanes)
        sums = writer.loop(zero, tile[1], lanes, [none] * ROWS, multiply)
        product = writer.totals(sums)
        factors = [writer.pick(product, product, [i] * lanes) for i in range(ROWS)]

        _add_all(writer, q, tile, at, factors)
        return context.get_dummy_value()

    del at
    return types.void(tile, types.intp, p, q), write


# Sums may be made in any order, the same one every time.
@njit(cache=True, fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def _product(x: Singles, y: Singles) -> float:
    total = np.float32(0.0)
    for k in range(x.shape[1]):
        total += x[0, k] * y[0, k]
    return float(total)


@intrinsic  # type: ignore[untyped-decorator]
def _step(_: Any, v: Any, left: Any, whole: Any, inverse: Any, p: Any, q: Any, along: Any) -> Any:
    """Go ``along`` p, all being rows [1, d]; what is left unexplained, r'S^-1 r, and v'S v."""

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        writer = VectorWriter(context, builder, signature, args)
        lanes, zero = writer.lanes, ir.Constant(INDEX, 0)
        factor = writer.spread(args[6], lanes)

        def go(column: Any, sums: list[Any]) -> list[Any]:
            places = [writer.place(writer.matrix(which), zero, column) for which in range(6)]
            v, left, whole, inverse, p, q = (writer.load(place, lanes) for place in places)
            v = writer.add_product(v, factor, p)
            left = writer.subtract_product(left, factor, q)
            writer.store(v, places[0])
            writer.store(left, places[1])
            return [
                writer.add_product(sums[0], left, builder.fmul(left, inverse)),
                writer.add_product(sums[1], v, builder.fmul(v, whole)),
            ]

        none = ir.Constant(ir.VectorType(writer.number, lanes), [0.0] * lanes)
        sums = writer.loop(zero, writer.matrix(0)[1], lanes, [none, none], go)
        both = [writer.total(total) for total in sums]
        return context.make_tuple(builder, signature.return_type, both)

    del along
    number = v.dtype
    return types.UniTuple(number, 2)(v, left, whole, inverse, p, q, number), write


@intrinsic  # type: ignore[untyped-decorator]
def _turn(_: Any, p: Any, q: Any, left: Any, inverse: Any, diagonal: Any, before: Any) -> Any:
    """p = S^-1 r + before * p, and q = D p, all being rows [1, d]."""

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        writer = VectorWriter(context, builder, signature, args)
        lanes, zero = writer.lanes, ir.Constant(INDEX, 0)
        factor = writer.spread(args[5], lanes)

        def turn(column: Any, _: list[Any]) -> list[Any]:
            places = [writer.place(writer.matrix(which), zero, column) for which in range(5)]
            p, _, left, inverse, diagonal = (writer.load(place, lanes) for place in places)
            p = writer.add_product(builder.fmul(left, inverse), factor, p)
            writer.store(p, places[0])
            writer.store(builder.fmul(diagonal, p), places[1])
            return []

        writer.loop(zero, writer.matrix(0)[1], lanes, [], turn)
        return context.get_dummy_value()

    del before
    return types.void(p, q, left, inverse, diagonal, p.dtype), write


@intrinsic  # type: ignore[untyped-decorator]
def _least_product(_: Any, x: Any, y: Any) -> Any:
    """The least of the products of two rows [1, d], number by number."""

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        writer = VectorWriter(context, builder, signature, args)
        x, y = writer.matrix(0), writer.matrix(1)
        lanes, zero = writer.lanes, ir.Constant(INDEX, 0)

        def lesser(one: Any, other: Any) -> Any:
            return builder.select(builder.fcmp_ordered("<", one, other), one, other)

        def compare(column: Any, least: list[Any]) -> list[Any]:
            factors = [writer.load(writer.place(each, zero, column), lanes) for each in (x, y)]
            return [lesser(builder.fmul(*factors), least[0])]

        none = ir.Constant(ir.VectorType(writer.number, lanes), [np.inf] * lanes)
        [least] = writer.loop(zero, x[1], lanes, [none], compare)
        return writer.fold(least, lesser)

    return x.dtype(x, y), write


@njit(cache=True)  # type: ignore[untyped-decorator]
def _fits(square: float) -> bool:
    return _SMALL < square < _LARGE


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def solve_by_steps(
    item: NDArray[np.int32],
    label: Array,
    items: Singles,
    first: int,
    stop: int,
    diagonal: Singles,
    room: Singles,
    v: Singles,
) -> bool:
    """Solve (X'X + D) v = X'y in place of v [1, d]; False if it does not settle.

    X are the rows of ``items``, the last of which is zero, that item[0, first:stop] names.
    """
    width = items.shape[1]
    rows = -(-(stop - first) // ROWS) * ROWS
    tile, rest = room[: rows * width].reshape((rows, width)), room[rows * width :]
    left, whole, inverse, p, q = rest[: VECTORS * width].reshape((VECTORS, 1, width))
    v[:] = 0.0
    left[:] = 0.0
    whole[:] = diagonal
    for at in range(0, rows, ROWS):
        _take_rows(tile, at, items, item, label, first, stop, left, whole)
    p[:] = 0.0
    for k in range(width):
        inverse[0, k] = np.float32(1.0) / whole[0, k]
    _turn(p, q, left, inverse, diagonal, np.float32(0.0))
    unexplained = _product(left, p)
    if not (_fits(unexplained) and _fits(_product(left, left)) and _fits(_product(p, p))):
        return False
    least = float(_least_product(diagonal, inverse))  # one over how much the diagonal has grown
    if not least * _GROWN >= 1.0:
        return False
    needed, by_then = _SETTLED * least**2, _BY_THEN * least**2
    for step in range(1, _STEPS + 1):
        for at in range(0, rows, ROWS):
            _multiply_rows(tile, at, p, q)
        along = np.float32(unexplained / _product(p, q))
        new, size = _step(v, left, whole, inverse, p, q, along)
        if new <= needed * size:
            return True
        if not (new < np.inf and (step != _SOON or new <= by_then * size)):
            return False
        _turn(p, q, left, inverse, diagonal, np.float32(new / unexplained))
        unexplained = float(new)
    return False
