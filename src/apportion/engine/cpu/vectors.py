"""Instructions on vectors and contiguous matrices, for code that numba compiles.

What the processor engine writes in terms of the machine, it writes with this: vectors of 64 bytes, which LLVM
turns into narrower ones where a processor has none so wide.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]

VECTOR = 64  # bytes; also what the processor fetches from memory at a time

INDEX, SHORT = ir.IntType(64), ir.IntType(32)


class VectorWriter:
    """Writes instructions on vectors and contiguous matrices of one type."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self._context, self.builder, self._types, self._args = (
            context,
            builder,
            signature.args,
            args,
        )
        kind = signature.args[0].dtype
        self.bytes = kind.bitwidth // 8
        self.number, self.lanes = context.get_data_type(kind), VECTOR // self.bytes

    def matrix(self, which: int) -> tuple[Any, Any]:
        """The memory of an argument, and the length of its rows."""
        kind, value = self._types[which], self._args[which]
        array = self._context.make_array(kind)(self._context, self.builder, value)
        return array.data, self.builder.extract_value(array.shape, 1)

    def rows(self, which: int) -> Any:
        """How many rows an argument has."""
        kind, value = self._types[which], self._args[which]
        array = self._context.make_array(kind)(self._context, self.builder, value)
        return self.builder.extract_value(array.shape, 0)

    def place(self, matrix: tuple[Any, Any], row: Any, column: Any, p: int = 0, q: int = 0) -> Any:
        """The address of [row + p, column + q]."""
        data, width = matrix
        row = self.builder.add(row, ir.Constant(INDEX, p))
        column = self.builder.add(column, ir.Constant(INDEX, q))
        offset = self.builder.add(self.builder.mul(row, width), column)
        return self.builder.gep(data, [offset])

    def load(self, place: Any, lanes: int) -> Any:
        """A vector."""
        kind = ir.VectorType(self.number, lanes).as_pointer()
        return self.builder.load(self.builder.bitcast(place, kind), align=self.bytes)

    def store(self, vector: Any, place: Any) -> None:
        """The opposite."""
        kind = vector.type.as_pointer()
        self.builder.store(vector, self.builder.bitcast(place, kind), align=self.bytes)

    def ask_for(self, place: Any) -> None:
        """Have what is there brought into the cache, without waiting for it."""
        address = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [address, SHORT, SHORT, SHORT])
        prefetch = self.builder.module.declare_intrinsic("llvm.prefetch", (address,), kind)
        # To be read; to be kept in all caches; data, not instructions.
        how = (ir.Constant(SHORT, value) for value in (0, 3, 1))
        self.builder.call(prefetch, [self.builder.bitcast(place, address), *how])

    def spread(self, value: Any, lanes: int) -> Any:
        """A vector of equal numbers."""
        nothing = ir.Constant(ir.VectorType(self.number, lanes), ir.Undefined)
        one = self.builder.insert_element(nothing, value, ir.Constant(SHORT, 0))
        return self.pick(one, nothing, [0] * lanes)

    def pick(self, x: Any, y: Any, places: list[int]) -> Any:
        """A vector of these numbers of x, or, counting on, of y."""
        mask = ir.Constant(ir.VectorType(SHORT, len(places)), places)
        return self.builder.shuffle_vector(x, y, mask)

    def add_product(self, total: Any, x: Any, y: Any) -> Any:
        """Total + x y: one instruction, where there is one."""
        product = self.builder.fmul(x, y, flags=("contract",))
        return self.builder.fadd(product, total, flags=("contract",))

    def subtract_product(self, total: Any, x: Any, y: Any) -> Any:
        """Total - x y, likewise."""
        product = self.builder.fmul(x, y, flags=("contract",))
        return self.builder.fsub(total, product, flags=("contract",))

    def total(self, vector: Any) -> Any:
        """The sum of the numbers of a vector, halves first."""
        return self.fold(vector, self.builder.fadd)

    def fold(self, vector: Any, combine: Callable[[Any, Any], Any]) -> Any:
        """One number of those of a vector, halves combined first."""
        lanes = vector.type.count
        while lanes > 1:
            lanes //= 2
            low, high = (
                self.pick(vector, vector, list(range(first, first + lanes))) for first in (0, lanes)
            )
            vector = combine(low, high)
        return self.builder.extract_element(vector, ir.Constant(SHORT, 0))

    def totals(self, vectors: list[Any]) -> Any:
        """A vector of the sums of the numbers of each vector; there are 2, 4, ... of them, at most lanes."""
        part = vectors[0].type.count  # numbers side by side that belong to the same sum
        while part > 1:
            pairs = list(zip(vectors[::2], vectors[1::2], strict=False))
            lanes = 2 * vectors[0].type.count
            if not pairs:  # all is in one vector already
                pairs, lanes = [(vectors[0], vectors[0])], lanes // 2
            low = [place for place in range(lanes) if place % part < part // 2]
            high = [place + part // 2 for place in low]
            vectors = [
                self.builder.fadd(*(self.pick(*pair, half) for half in (low, high)))
                for pair in pairs
            ]
            part //= 2
        return vectors[0]

    def loop(
        self, first: Any, stop: Any, step: int, values: list[Any], body: Callable[..., list[Any]]
    ) -> list[Any]:
        """For index from first to stop: values = body(index, values). Returns the last ones."""
        builder, before = self.builder, self.builder.block
        head, inside, after = (builder.append_basic_block(name) for name in ("head", "in", "after"))
        builder.branch(head)
        builder.position_at_end(head)
        index = builder.phi(INDEX)
        index.add_incoming(first, before)
        held = [builder.phi(value.type) for value in values]
        builder.cbranch(builder.icmp_signed("<", index, stop), inside, after)
        builder.position_at_end(inside)
        new = body(index, held)
        inside = builder.block  # another one, if there is a loop in the body
        for phi, start, value in zip(held, values, new, strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(value, inside)
        index.add_incoming(builder.add(index, ir.Constant(INDEX, step)), inside)
        builder.branch(head)
        builder.position_at_end(after)
        return held
