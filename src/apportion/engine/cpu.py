"""The compiled engine: all cores of one machine."""

from typing import Any

import numpy as np

from apportion.data.rows import Rows
from apportion.data.stored import StoredRows, in_memory
from apportion.engine.base import Engine
from apportion.engine.kernels import Array, Kernels, Shorts, Units
from apportion.engine.machine import arithmetic
from apportion.engine.session import LocalSession
from apportion.engine.users import turned_items
from apportion.errors import ParameterError
from apportion.native import kernels
from apportion.threads import thread_count
from apportion.twins import gradients as twins

_native: Any = kernels


class CpuEngine(Engine):
    """Compiled kernels on all cores; sums do not depend on the number of threads."""

    def __init__(self) -> None:
        if _native is None:
            raise ParameterError(
                "the compiled kernels are not installed: install a C++ compiler (g++ 11 or clang 14 or "
                'later) and apportion again, or use engine="reference"'
            )

    def identity(self) -> dict[str, str]:
        """See ``Engine.identity``. The kernels give the same bits on every processor."""
        return {"engine": "cpu", "kernels": _native.digest[:16], **arithmetic()}

    def load(self, rows: Rows | StoredRows) -> LocalSession:
        """See ``Engine.load``."""
        return LocalSession(in_memory(rows), NativeKernels())

    def __repr__(self) -> str:
        return "CpuEngine()"


class NativeKernels(Kernels):
    """``apportion._native``, with as many threads as may be used."""

    def solve_users(self, *systems: Any, bound: float | None, stretch: bool) -> Any:
        """See ``Kernels``."""
        start, item, label, items, ridge, shared = systems
        if not (np.isfinite(items).all() and np.isfinite(shared).all()):
            # Released values beyond all numbers say nothing: nobody has a vector then.
            label, items, shared = np.zeros(len(label)), np.zeros_like(items), np.zeros_like(shared)
        items, shared = np.ascontiguousarray(items), np.ascontiguousarray(shared)
        turned = self.turned(items, shared)
        return _native.solve_users(
            start, item, label, items, ridge, shared, *turned, bound, stretch, thread_count()
        )

    def turned(self, items: Array, shared: Array) -> tuple[Array, Array, Array]:
        """What LAPACK has to say of released values: on a cluster, said once for all machines."""
        return turned_items(items, shared)

    def short_rows(self, rows: Array, bound: float) -> Shorts:
        """See ``Kernels``."""
        short: Shorts = _native.short_rows(np.ascontiguousarray(rows), bound, False, thread_count())
        return short

    def gram_sums(self, *arguments: Any) -> tuple[Units, Units]:
        """See ``Kernels``."""
        second, right = _native.gram_sums(*arguments, thread_count())
        return second, right

    def label_sums(self, *arguments: Any) -> Units:
        """See ``Kernels``."""
        sums: Units = _native.label_sums(*arguments, thread_count())
        return sums

    def float_sums(self, *arguments: Any) -> tuple[Array, Array]:
        """See ``Kernels``."""
        second, right = _native.float_sums(*arguments, thread_count())
        return second, right

    def number_sums(self, *arguments: Any) -> Units:
        """See ``Kernels``."""
        sums: Units = _native.number_sums(*arguments, thread_count())
        return sums

    def row_gradients(self, *examples: Any, loss: Any, bound: float, grid: float) -> Any:
        """See ``Kernels``."""
        features, norms, row, label, weight, start, coef = examples
        label, known = _loss(loss, features, row, label, start, None, coef)
        examples = (features, norms, row, label, weight, start, coef)
        if grid:
            return _native.row_gradients(*examples, *known, bound, grid, thread_count())
        return _native.float_gradients(*examples, *known, bound, thread_count())

    def user_gradients(self, *examples: Any, loss: Any, bound: float, grid: float) -> Units:
        """See ``Kernels``."""
        features, norms, row, label, weight, task, start, coef = examples
        label, known = _loss(loss, features, row, label, start, task, coef)
        examples = (features, norms, row, label, weight, task, start, coef)
        sums: Units = _native.user_gradients(*examples, *known, bound, grid, thread_count())
        return sums


def _loss(
    loss: Any, features: Array, row: Any, label: Array, start: Any, task: Any, coef: Array
) -> tuple[Array, tuple[str, float, int]]:
    """Labels, and the loss as the kernels know it: built in, a compiled function, or slopes for labels."""
    if loss.kernel is not None:
        return label, (*loss.kernel, 0)
    if loss.address:
        return label, ("function", 0.0, loss.address)
    if task is None:
        task = np.repeat(np.arange(len(start) - 1), np.diff(start))
    slopes = loss.slopes(twins.margins(features, row, task, coef), label)
    return slopes, ("given", 0.0, 0)
