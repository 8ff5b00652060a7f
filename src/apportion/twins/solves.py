"""Solutions of many small symmetric systems: the twin of native/solves.cpp."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_EPSILON = float(np.finfo(np.float64).eps)
# Nothing is divided by a number smaller than this.
_NORMAL = float(np.finfo(np.float64).tiny) * (1 + 2.0**-20)
_AT_ONCE = 2**22  # numbers of full matrices


def solve_filtered(
    packed: Array,
    b: Array,
    alpha: Array,
    ridge: float,
    scale: Array | None,
    shared: Array | None,
) -> Array:
    """V f(l) V' b for each A = V diag(l) V', f(l) = v / (v^2 + ridge^2), v = max(l, 0) + alpha, [systems, d].

    Directions in which v is lost in the rounding of the largest are left out. A is the upper triangle
    ``packed`` [systems, d (d + 1) / 2], row by row, plus scale_i times the shared one, if there is one.
    """
    theta, d = np.empty(b.shape), b.shape[1]
    rows, columns = np.triu_indices(d)
    step = max(1, _AT_ONCE // (d * d))
    for first in range(0, len(b), step):
        some = slice(first, first + step)
        entries = packed[some]
        if scale is not None and shared is not None:
            entries = entries + scale[some, None] * shared
        # Everything relative to the largest, so that none is too large a number.
        size, of_b = (np.abs(each).max(axis=1).clip(1e-300) for each in (entries, b[some]))
        A = np.empty((len(entries), d, d))
        A[:, rows, columns] = A[:, columns, rows] = entries / size[:, None]
        values, vectors = np.linalg.eigh(A)
        unit = np.maximum(size, np.maximum(alpha[some], ridge))
        v = np.maximum(values, 0.0) * (size / unit)[:, None] + (alpha[some] / unit)[:, None]
        known = (v > d * _EPSILON * v.max(axis=1, keepdims=True)) & (v > _NORMAL / unit[:, None])
        v[~known] = 1.0
        bound = (ridge / unit)[:, None]
        f = known / (v + bound * (bound / v))
        most = f.max(axis=1, keepdims=True)
        f /= np.where(most > 0, most, 1.0)
        turned = np.einsum("sij,si->sj", vectors, b[some] / of_b[:, None])
        solved = np.einsum("sij,sj->si", vectors, f * turned)
        with np.errstate(over="ignore"):  # a solution may be too large a number
            theta[some] = solved * of_b[:, None] * (most / unit[:, None])
    return theta
