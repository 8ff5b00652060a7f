"""Users' vectors outside a session: for serving, where a user's history is the user's own to show."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.engine.cpu import NativeKernels
from apportion.engine.reference import TwinKernels
from apportion.native import kernels

Array = NDArray[np.float64]


def solve_users(
    start: NDArray[Any],
    item: NDArray[Any],
    label: Array,
    items: Array,
    ridge: Array,
    shared: Array,
) -> Array:
    """For each user, argmin over v of sum (y - u_i . v)^2 + v' (shared + ridge I) v, [users, d].

    The sum is over the user's rows ``start[j]:start[j + 1]`` of ``item`` and ``label``. A user's vector has
    the same bits whoever else is there. Without labels it is zero.
    """
    with np.errstate(all="ignore"):
        vectors = (TwinKernels() if kernels is None else NativeKernels()).solve_users(
            np.ascontiguousarray(start, dtype=np.int64),
            np.ascontiguousarray(item, dtype=np.int32),
            np.ascontiguousarray(label, dtype=np.float64),
            np.ascontiguousarray(items, dtype=np.float64),
            np.ascontiguousarray(ridge, dtype=np.float64),
            shared,
            bound=None,
            stretch=False,
        )
    return np.asarray(vectors)
