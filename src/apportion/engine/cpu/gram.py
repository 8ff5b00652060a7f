"""Gram matrices and Cholesky factors in tiles: the inner loops of the processor engine.

Nearly all time of a training goes into sums of x x' over rows x that lie scattered in memory. They are
computed as a good matrix product is:

* up to 64 scattered rows are gathered into a contiguous *tile*, which stays in the fastest cache, while the
  rows of the next tile are asked for already;
* the result is computed in *panels* of 8 rows, and a panel in *blocks* of 2 vectors (of 64 bytes: 16
  numbers in float32, 8 in float64). A block is held in 16 registers while the tile is read once: for each
  of its rows two loads, eight broadcasts, sixteen multiply-adds;
* blocks start at the first vector that reaches the diagonal. What is below the diagonal in such a vector is
  filled with numbers that mean nothing; nobody reads them.

A Cholesky factor U (A = U'U) is made of the same blocks, panel by panel: a panel of A, less what the panels
above give, multiplied by the inverse of the factor of its first 8 columns.

The intrinsics are the only part written in terms of the machine (``vectors``): LLVM makes narrower vectors
where a processor has none so wide. All matrices are contiguous and padded to whole vectors. Every number of
a Gram matrix is a sum over the rows of a tile, in their order, added to what the tiles before gave: it does
not depend on the blocks.
"""

from typing import Any, Literal

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from apportion.engine.cpu.vectors import INDEX, SHORT, VECTOR, VectorWriter

Floats = NDArray[Any]

TILE = 64  # rows
PANEL = 8  # rows


def padded(size: int, dtype: Any) -> int:
    """The size in whole vectors."""
    lanes = VECTOR // np.dtype(dtype).itemsize
    return int(-(-size // lanes) * lanes)


def aligned(shape: tuple[int, ...], dtype: Any) -> Floats:
    """Zeros that begin where a vector may begin without straddling two cache lines."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + VECTOR, dtype=np.uint8)
    first = -memory.ctypes.data % VECTOR
    room: Floats = memory[first : first + size].view(dtype).reshape(shape)
    return room


def _block_writer(mode: Literal["add", "subtract", "solve"], vectors: int) -> Any:
    """``change(left, i, right, j, rows, out, at, small)``, for blocks of so many vectors.

    out[at + p, j + q] += sum over k < rows of left[k, i + p] * right[k, j + q], for p < 8 and q in the
    vectors; or less this sum; or less this sum and then multiplied by the inverse of the transpose of small
    [8, 8], an upper triangle with reciprocals on its diagonal (not used otherwise).
    """

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        writer = VectorWriter(context, builder, signature, args)
        lanes, load, spread = writer.lanes, writer.load, writer.spread
        _, i, _, j, rows, _, at, _ = args
        out, small, zero = writer.matrix(5), writer.matrix(7), ir.Constant(INDEX, 0)
        left, right = writer.matrix(0), writer.matrix(2)

        def add_row(row: Any, sums: list[Any]) -> list[Any]:
            new = []
            for v in range(vectors):
                x = load(writer.place(right, row, j, 0, v * lanes), lanes)
                for p in range(PANEL):
                    factor = builder.load(writer.place(left, row, i, 0, p))
                    total = sums[v * PANEL + p]
                    new.append(writer.add_product(total, spread(factor, lanes), x))
            return new

        none = ir.Constant(ir.VectorType(writer.number, lanes), [0.0] * lanes)
        sums = writer.loop(zero, rows, 1, [none] * (vectors * PANEL), add_row)
        for v in range(vectors):
            done: list[Any] = []
            for p in range(PANEL):
                here = writer.place(out, at, j, p, v * lanes)
                value = load(here, lanes)
                combine = builder.fadd if mode == "add" else builder.fsub
                value = combine(value, sums[v * PANEL + p])
                if mode == "solve":
                    for k in range(p):
                        factor = builder.load(writer.place(small, zero, zero, k, p))
                        value = writer.subtract_product(value, spread(factor, lanes), done[k])
                    scale = builder.load(writer.place(small, zero, zero, p, p))
                    value = builder.fmul(value, spread(scale, lanes))
                done.append(value)
                writer.store(value, here)
        return context.get_dummy_value()

    def change(
        _: Any, left: Any, i: Any, right: Any, j: Any, rows: Any, out: Any, at: Any, small: Any
    ) -> Any:
        del i, j, rows, at
        whole = types.intp
        return types.void(left, whole, right, whole, whole, out, whole, small), write

    return intrinsic(change)


_add_one, _add_two = _block_writer("add", 1), _block_writer("add", 2)
_solve_one, _solve_two = _block_writer("solve", 1), _block_writer("solve", 2)
_subtract_one = _block_writer("subtract", 1)


def _row_writer(add: bool) -> Any:
    """``change(out, at, source, row, factor)``: out[at] = or += factor * source[row]."""

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        writer = VectorWriter(context, builder, signature, args)
        out, source, zero = writer.matrix(0), writer.matrix(2), ir.Constant(INDEX, 0)
        _, at, _, row, factor = args
        factors = writer.spread(factor, writer.lanes)

        def change(column: Any, _: list[Any]) -> list[Any]:
            here = writer.place(out, at, column)
            value = writer.load(writer.place(source, row, column), writer.lanes)
            if add:
                value = writer.add_product(writer.load(here, writer.lanes), factors, value)
            else:
                value = builder.fmul(factors, value)
            writer.store(value, here)
            return []

        writer.loop(zero, out[1], writer.lanes, [], change)
        return context.get_dummy_value()

    def change(_: Any, out: Any, at: Any, source: Any, row: Any, factor: Any) -> Any:
        del at, row, factor
        return types.void(out, types.intp, source, types.intp, out.dtype), write

    return intrinsic(change)


put_row, add_row = _row_writer(add=False), _row_writer(add=True)


@intrinsic  # type: ignore[untyped-decorator]
def put_turned(_: Any, out: Any, p: Any, source: Any, q: Any, scale: Any) -> Any:  # noqa: ARG001
    """out[p + i, q + j] = scale[0, p + i] * source[q + j, p + i], i and j being lanes of a vector.

    Without a factor if ``scale`` is None.
    """

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        writer = VectorWriter(context, builder, signature, args)
        lanes, p, q = writer.lanes, args[1], args[3]
        rows = [writer.load(writer.place(writer.matrix(2), q, p, j), lanes) for j in range(lanes)]
        if not isinstance(scale, types.NoneType):
            place = writer.place(writer.matrix(4), ir.Constant(INDEX, 0), p)
            rows = [builder.fmul(row, writer.load(place, lanes)) for row in rows]
        step = lanes // 2
        while step:  # exchange the upper right and lower left quarters, then those of each quarter
            upper = [lanes + j - step if j & step else j for j in range(lanes)]
            lower = [lanes + j if j & step else j + step for j in range(lanes)]
            for i in range(lanes):
                if not i & step:
                    both = rows[i], rows[i + step]
                    rows[i], rows[i + step] = (
                        writer.pick(*both, places) for places in (upper, lower)
                    )
            step //= 2
        for i in range(lanes):
            writer.store(rows[i], writer.place(writer.matrix(0), p, q, i))
        return context.get_dummy_value()

    return types.void(out, types.intp, source, types.intp, scale), write


@intrinsic  # type: ignore[untyped-decorator]
def _factor_small(_: Any, matrix: Any, at: Any, small: Any) -> Any:  # noqa: ARG001
    """The factor of matrix[at : at + 8, at : at + 8], its diagonal inverted, into small [8, 8].

    Returns the smallest pivot, or NaN.
    """

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        writer = VectorWriter(context, builder, signature, args)
        spread, zero, at = writer.spread, ir.Constant(INDEX, 0), args[1]
        one, smallest = ir.Constant(writer.number, 1.0), ir.Constant(writer.number, np.inf)
        sqrt = builder.module.declare_intrinsic("llvm.sqrt", [writer.number])
        rows = [writer.load(writer.place(writer.matrix(0), at, at, p), PANEL) for p in range(PANEL)]
        for p in range(PANEL):
            pivot = builder.extract_element(rows[p], ir.Constant(SHORT, p))
            smaller = builder.fcmp_unordered("<", pivot, smallest)
            smallest = builder.select(smaller, pivot, smallest)
            scale = builder.fdiv(one, builder.call(sqrt, [pivot]))
            rows[p] = builder.fmul(rows[p], spread(scale, PANEL))
            for q in range(p + 1, PANEL):
                factor = builder.extract_element(rows[p], ir.Constant(SHORT, q))
                rows[q] = writer.subtract_product(rows[q], spread(factor, PANEL), rows[p])
            rows[p] = builder.insert_element(rows[p], scale, ir.Constant(SHORT, p))
            writer.store(rows[p], writer.place(writer.matrix(2), zero, zero, p))
        return smallest

    return matrix.dtype(matrix, types.intp, small), write


@intrinsic  # type: ignore[untyped-decorator]
def _go_forward(_: Any, U: Any, at: Any, b: Any) -> Any:  # noqa: ARG001
    """Solve for b[at : at + 8], from U'x = b, and subtract what they give from the rest of b [1, n]."""

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        writer = VectorWriter(context, builder, signature, args)
        U, b, at, zero = writer.matrix(0), writer.matrix(2), args[1], ir.Constant(INDEX, 0)
        x = [builder.load(writer.place(b, zero, at, 0, p)) for p in range(PANEL)]
        for p in range(PANEL):
            x[p] = builder.fmul(x[p], builder.load(writer.place(U, at, at, p, p)))
            for q in range(p + 1, PANEL):
                factor = builder.load(writer.place(U, at, at, p, q))
                x[q] = writer.subtract_product(x[q], factor, x[p])
            builder.store(x[p], writer.place(b, zero, at, 0, p))
        x = [writer.spread(value, PANEL) for value in x]

        def subtract(column: Any, _: list[Any]) -> list[Any]:
            here = writer.place(b, zero, column)
            value = writer.load(here, PANEL)
            for p in range(PANEL):
                row = writer.load(writer.place(U, at, column, p), PANEL)
                value = writer.subtract_product(value, row, x[p])
            writer.store(value, here)
            return []

        writer.loop(builder.add(at, ir.Constant(INDEX, PANEL)), U[1], PANEL, [], subtract)
        return context.get_dummy_value()

    return types.void(U, types.intp, b), write


@intrinsic  # type: ignore[untyped-decorator]
def _go_backward(_: Any, U: Any, at: Any, b: Any) -> Any:  # noqa: ARG001
    """Solve for b[at : at + 8], from U x = b, the rest of b [1, n] being solved for already."""

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        writer = VectorWriter(context, builder, signature, args)
        U, b, at, zero = writer.matrix(0), writer.matrix(2), args[1], ir.Constant(INDEX, 0)

        def add(column: Any, sums: list[Any]) -> list[Any]:
            x = writer.load(writer.place(b, zero, column), PANEL)
            rows = [writer.load(writer.place(U, at, column, p), PANEL) for p in range(PANEL)]
            return [
                writer.add_product(total, row, x) for total, row in zip(sums, rows, strict=True)
            ]

        none = ir.Constant(ir.VectorType(writer.number, PANEL), [0.0] * PANEL)
        after = builder.add(at, ir.Constant(INDEX, PANEL))
        sums = writer.loop(after, U[1], PANEL, [none] * PANEL, add)
        x = [
            builder.fsub(builder.load(writer.place(b, zero, at, 0, p)), writer.total(sums[p]))
            for p in range(PANEL)
        ]
        for p in reversed(range(PANEL)):
            x[p] = builder.fmul(x[p], builder.load(writer.place(U, at, at, p, p)))
            for q in range(p):
                factor = builder.load(writer.place(U, at, at, q, p))
                x[q] = writer.subtract_product(x[q], factor, x[p])
            builder.store(x[p], writer.place(b, zero, at, 0, p))
        return context.get_dummy_value()

    return types.void(U, types.intp, b), write


@intrinsic  # type: ignore[untyped-decorator]
def _ask_for(_: Any, matrix: Any, row: Any, column: Any) -> Any:  # noqa: ARG001
    """Have a place of a matrix brought into the cache, without waiting for it."""

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        writer = VectorWriter(context, builder, signature, args)
        writer.ask_for(writer.place(writer.matrix(0), args[1], args[2]))
        return context.get_dummy_value()

    return types.void(matrix, types.intp, types.intp), write


@intrinsic  # type: ignore[untyped-decorator]
def take_next(_: Any, counter: Any) -> Any:
    """Add one to ``counter[0]`` and return what it was: whichever thread is free takes the next piece."""

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        return builder.atomic_rmw("add", array.data, ir.Constant(INDEX, 1), "monotonic")

    return types.int64(counter), write


@njit(cache=True)  # type: ignore[untyped-decorator]
def ask_for_row(matrix: Floats, row: int) -> None:
    """Have a row of a contiguous matrix brought into the cache, without waiting for it."""
    for column in range(0, matrix.shape[1], VECTOR // matrix.itemsize):
        _ask_for(matrix, row, column)


@njit(cache=True)  # type: ignore[untyped-decorator]
def add_upper(left: Floats, right: Floats, rows: int, total: Floats) -> None:
    """Add left' right, over the first rows of two tiles [., n], to the upper triangle of total [n, n]."""
    lanes = VECTOR // total.itemsize
    n = total.shape[1]
    for at in range(0, n, PANEL):
        j = at // lanes * lanes
        while j + 2 * lanes <= n:
            _add_two(left, at, right, j, rows, total, at, total)
            j += 2 * lanes
        if j < n:
            _add_one(left, at, right, j, rows, total, at, total)


@njit(cache=True)  # type: ignore[untyped-decorator]
def cholesky(A: Floats, small: Floats) -> float:
    """Replace the upper triangle of A [n, n] by its factor U, with reciprocals on the diagonal.

    Returns the smallest pivot, or 0 if one is not positive; what is left in A then means nothing. ``small``
    [8, 8] is room to work in.
    """
    lanes = VECTOR // A.itemsize
    n = A.shape[1]
    smallest = A.dtype.type(np.inf)
    for at in range(0, n, PANEL):
        j = at // lanes * lanes
        # The columns on the diagonal come first: all others need their factor.
        _subtract_one(A, at, A, j, at, A, at, small)
        pivot = _factor_small(A, at, small)
        if not pivot > 0:
            return 0.0
        smallest = min(smallest, pivot)
        _solve_one(A, at, A, j, 0, A, at, small)
        for p in range(PANEL):
            A[at + p, at + p] = small[p, p]
        j += lanes
        while j + 2 * lanes <= n:
            _solve_two(A, at, A, j, at, A, at, small)
            j += 2 * lanes
        if j < n:
            _solve_one(A, at, A, j, at, A, at, small)
    return float(smallest)


@njit(cache=True)  # type: ignore[untyped-decorator]
def substitute(U: Floats, b: Floats) -> None:
    """Replace b [1, n] by the solution of U'U x = b, U being as ``cholesky`` leaves it."""
    n = U.shape[1]
    for at in range(0, n, PANEL):
        _go_forward(U, at, b)
    for at in range(n - PANEL, -1, -PANEL):
        _go_backward(U, at, b)
