"""Symmetric matrices as their upper triangles, row by row."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def pack(matrices: NDArray[Any]) -> Array:
    """Upper triangles, row by row: [tasks, d, d] -> [tasks, d (d + 1) / 2]."""
    rows, columns = np.triu_indices(matrices.shape[-1])
    return np.ascontiguousarray(matrices[:, rows, columns], dtype=np.float64)


def unpack(packed: Array, dimension: int) -> Array:
    """The inverse of ``pack``: full symmetric matrices, [tasks, d, d]."""
    rows, columns = np.triu_indices(dimension)
    matrices = np.empty((len(packed), dimension, dimension))
    matrices[:, rows, columns] = packed
    matrices[:, columns, rows] = packed
    return matrices
