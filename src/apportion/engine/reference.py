"""The reference engine: every query in plain NumPy. It defines what the others must compute.

It works wherever NumPy does, and needs no compiler.
"""

import platform
from importlib.metadata import version
from typing import Any

from apportion.data.rows import Rows
from apportion.engine.base import Engine
from apportion.engine.kernels import Array, Kernels, Rows32, Shorts, Starts, Units
from apportion.engine.session import LocalSession
from apportion.twins import gradients, sums, users


class ReferenceEngine(Engine):
    """NumPy, in one thread."""

    def identity(self) -> dict[str, str]:
        """See ``Engine.identity``."""
        libraries = {name: version(name) for name in ("numpy", "scipy")}
        return {"engine": "reference", **libraries, "processor": platform.machine()}

    def load(self, rows: Rows) -> LocalSession:
        """See ``Engine.load``."""
        return LocalSession(rows, TwinKernels())

    def __repr__(self) -> str:
        return "ReferenceEngine()"


class TwinKernels(Kernels):
    """The NumPy twins of the compiled kernels."""

    def solve_users(
        self,
        start: Starts,
        item: Rows32,
        label: Array,
        items: Array,
        ridge: Array,
        shared: Array,
        bound: float | None,
        stretch: bool,
    ) -> Any:
        """See ``Kernels``."""
        vectors = users.solve_users(start, item, label, items, ridge, shared)
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

    def float_sums(
        self, features: Array, row: Rows32, label: Array, weight: Array, start: Starts
    ) -> tuple[Array, Array]:
        """See ``Kernels``."""
        return sums.float_sums(features, row, label, None, weight, start)

    def number_sums(self, task: Rows32, value: Array, tasks: int, grid: float) -> Units:
        """See ``Kernels``."""
        return sums.number_sums(task, value, tasks, grid)

    def row_gradients(self, *arguments: Any) -> Any:
        """See ``Kernels``."""
        *rest, loss, bound, grid = arguments
        name, parameter = loss.kernel or (loss.slope, 0.0)
        return gradients.row_gradients(*rest, name, parameter, bound, grid)

    def user_gradients(self, *arguments: Any) -> Units:
        """See ``Kernels``."""
        *rest, loss, bound, grid = arguments
        name, parameter = loss.kernel or (loss.slope, 0.0)
        return gradients.user_gradients(*rest, name, parameter, bound, grid)
