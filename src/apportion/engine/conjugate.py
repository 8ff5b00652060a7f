"""One user's system by conjugate gradients, where they settle soon: a fraction of the work of a factor.

(X'X + D) v = X'y with D diagonal is solved without X'X: a step multiplies the rows X [n, d] twice by a
vector, which takes 4 n d operations, where X'X takes n d^2 and its factor d^3 / 3. D, a ridge that grows with
n or the weight of what users did not choose, keeps these systems near their diagonals: divided by those,
their condition is usually 2 to 5, and seven to ten steps leave an error of about 1e-5 of v. Where they do
not settle the caller makes a factor after all.

The rows are gathered once and stay in a cache; eight of them are multiplied at a time. A user's numbers are
computed in the same order whoever else is there.
"""

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from apportion.engine.vectors import INDEX, VectorWriter

Array = NDArray[np.float64]
Singles = NDArray[np.float32]

ROWS = 8  # at a time
AHEAD = 32  # rows that are asked for before they are needed

# How far the error that is left must have come down, in the norm of the system over its diagonal: squared.
_SETTLED = 3e-6**2
_STEPS = 16
# After four steps, how far it must have come to be there in sixteen, as this is about how it goes on.
_SOON, _BY_THEN = 4, _SETTLED**0.2
# X'X may make the diagonal so much larger than D is. The error of v, relative to v and in the norm of the
# diagonal, is at most that of the explained part, _SETTLED, times the condition of the divided system, whose
# smallest eigenvalue is at least one over this.
_GROWN = 30.0
# Squares of numbers within these bounds, and of a millionth of them, float32 holds to all its digits.
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


@njit(cache=True, fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def _step(
    along: float, v: Singles, left: Singles, inverse: Singles, p: Singles, q: Singles
) -> float:
    """Go ``along`` p; what is left unexplained, squared, over the diagonal."""
    factor, total = np.float32(along), np.float32(0.0)
    for k in range(v.shape[1]):
        v[0, k] += factor * p[0, k]
        rest = left[0, k] - factor * q[0, k]
        left[0, k] = rest
        total += rest * rest * inverse[0, k]
    return float(total)


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
    left, inverse = rest[:width].reshape((1, width)), rest[width : 2 * width].reshape((1, width))
    p, q = rest[2 * width : 3 * width], rest[3 * width : 4 * width]
    p, q = p.reshape((1, width)), q.reshape((1, width))
    v[:] = 0.0
    left[:] = 0.0
    inverse[:] = diagonal
    for at in range(0, rows, ROWS):
        _take_rows(tile, at, items, item, label, first, stop, left, inverse)
    for k in range(width):
        if not inverse[0, k] <= _GROWN * diagonal[0, k]:
            return False
        inverse[0, k] = np.float32(1.0) / inverse[0, k]
        p[0, k] = left[0, k] * inverse[0, k]
    size = begin = _product(left, p)
    if not _SMALL < begin < _LARGE:
        return False
    for step in range(1, _STEPS + 1):
        for k in range(width):
            q[0, k] = diagonal[0, k] * p[0, k]
        for at in range(0, rows, ROWS):
            _multiply_rows(tile, at, p, q)
        new = _step(size / _product(p, q), v, left, inverse, p, q)
        if not new > _SETTLED * begin:
            return bool(new >= 0.0)
        if step == _SOON and new > _BY_THEN * begin:
            return False
        turn = np.float32(new / size)
        for k in range(width):
            p[0, k] = left[0, k] * inverse[0, k] + turn * p[0, k]
        size = new
    return False
