"""The reference engine: every query in plain NumPy. It defines what the others must compute.

It works wherever NumPy does, and needs no compiler.
"""

from typing import Any

from apportion.data.rows import Rows
from apportion.data.stored import StoredRows, in_memory
from apportion.engine.base import Engine
from apportion.engine.kernels import Array, Kernels, Shorts, Units
from apportion.engine.machine import arithmetic
from apportion.engine.session import LocalSession
from apportion.twins import gradients, sums, users


class ReferenceEngine(Engine):
    """NumPy, in one thread."""

    def identity(self) -> dict[str, str]:
        """See ``Engine.identity``."""
        return {"engine": "reference", **arithmetic()}

    def load(self, rows: Rows | StoredRows) -> LocalSession:
        """See ``Engine.load``."""
        return LocalSession(in_memory(rows), TwinKernels())

    def __repr__(self) -> str:
        return "ReferenceEngine()"


class TwinKernels(Kernels):
    """The NumPy twins of the compiled kernels."""

    def solve_users(self, *systems: Any, bound: float | None, stretch: bool) -> Any:
        """See ``Kernels``."""
        vectors = users.solve_users(*systems)
        return vectors if bound is None else users.short_rows(vectors, bound, stretch=stretch)

    def short_rows(self, rows: Array, bound: float) -> Shorts:
        """See ``Kernels``."""
        return users.short_rows(rows, bound)

    def gram_sums(self, *arguments: Any) -> tuple[Units, Units]:
        """See ``Kernels``."""
        return sums.gram_sums(*arguments)

    def label_sums(self, *arguments: Any) -> Units:
        """See ``Kernels``."""
        return sums.label_sums(*arguments)

    def float_sums(self, *arguments: Any) -> tuple[Array, Array]:
        """See ``Kernels``."""
        return sums.float_sums(*arguments)

    def number_sums(self, *arguments: Any) -> Units:
        """See ``Kernels``."""
        return sums.number_sums(*arguments)

    def row_gradients(self, *examples: Any, loss: Any, bound: float, grid: float) -> Any:
        """See ``Kernels``."""
        given: Any = (*examples, *(loss.kernel or (loss.slope, 0.0)), bound, grid)
        return gradients.row_gradients(*given)

    def user_gradients(self, *examples: Any, loss: Any, bound: float, grid: float) -> Units:
        """See ``Kernels``."""
        given: Any = (*examples, *(loss.kernel or (loss.slope, 0.0)), bound, grid)
        return gradients.user_gradients(*given)
