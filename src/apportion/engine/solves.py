"""Solutions of many small symmetric systems, several at once (native/solves.cpp).

A system's solution does not depend on which others it is solved with, nor on the number of threads.

Rounding matters where it is not small beside the ridge. Where it is, which is usual for noisy systems,
numbers are float32, of which twice as many are computed at once; elsewhere they are float64. Which of both is
decided for each system by itself.

Matrices are symmetric and come as their upper triangles, row by row: [systems, d (d + 1) / 2].
"""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from apportion.native import kernels
from apportion.threads import threads_for
from apportion.twins import solves as twin

Array = NDArray[np.float64]

# Systems are solved in float32 if the norm of A is at most so many times the ridge: rounding is then as if A
# were different by about 2^-24 |A|, or 2^-15 of the ridge. Of millions of systems near this limit none had a
# solution that was wrong by more than 2^-12 |b| / ridge.
_SINGLE = 512.0
# A ridge so many times larger than A and alpha leaves too little that float32 could hold.
_OUTWEIGHED = 1e30
# Sweeps of QL allowed for each dimension; 2.3 are usual.
_SWEEPS = 6


def solve_filtered(
    packed: Array,
    b: Array,
    alpha: Array,
    ridge: float,
    scale: Array | None = None,
    shared: Array | None = None,
) -> Array:
    """argmin |(A+ + alpha_i I) theta - b|^2 + ridge^2 |theta|^2 for each system, [systems, d].

    A+ is the projection of A on the positive semi-definite matrices. With A = V diag(l) V' this is V f(l)
    V' b, f(l) = v / (v^2 + ridge^2), v = max(l, 0) + alpha_i. Directions in which v is lost in the rounding
    of the largest are left out. A is the packed matrix plus scale_i times the shared one (packed), if there
    is one.
    """
    systems = _Systems.of(packed, b, alpha, scale, shared)
    theta, left = np.empty(systems.b.shape), np.arange(len(systems.b))
    sweeps = _SWEEPS * (systems.b.shape[1] + 4)
    for single, most, least in ((True, _SINGLE, 1 / _OUTWEIGHED), (False, np.inf, 0.0)):
        if kernels is not None and len(left) and (ridge > 0 or not single):
            some = systems.only(left)
            theta[left], failed = kernels.solve_filtered(
                some.packed, some.b, some.alpha, float(ridge), most, least, sweeps, single, some.scale,
                some.shared, some.threads,
            )  # fmt: skip
            left = left[failed]
    if len(left):  # LAPACK is slower, but it always converges
        some = systems.only(left)
        theta[left] = twin.solve_filtered(
            some.packed, some.b, some.alpha, ridge, some.scale, some.shared
        )
    return theta


def solve_positive(
    packed: Array,
    b: Array,
    alpha: Array,
    scale: Array | None = None,
    shared: Array | None = None,
) -> Array:
    """(A + alpha_i I)^-1 b for each positive semi-definite A, by Cholesky, [systems, d].

    Where a pivot is lost in rounding, directions without data are left out. A: see ``solve_filtered``.
    """
    systems = _Systems.of(packed, b, alpha, scale, shared)
    if kernels is None or len(b) == 0:
        return solve_filtered(packed, b, alpha, 0.0, scale, shared)
    theta, failed = kernels.solve_positive(*systems, systems.threads)
    left = np.flatnonzero(failed)
    if len(left):
        some = systems.only(left)
        theta[left] = solve_filtered(some.packed, some.b, some.alpha, 0.0, some.scale, some.shared)
    return np.asarray(theta)


class _Systems(NamedTuple):
    """Systems as they are compiled for; scale and shared are None together."""

    packed: Array
    b: Array
    alpha: Array
    scale: Array | None
    shared: Array | None

    @classmethod
    def of(
        cls, packed: Array, b: Array, alpha: Array, scale: Array | None, shared: Array | None
    ) -> Self:
        if scale is not None and shared is not None:
            scale, shared = (np.ascontiguousarray(each, np.float64) for each in (scale, shared))
        packed, b, alpha = (np.ascontiguousarray(each, np.float64) for each in (packed, b, alpha))
        return cls(packed, b, alpha, scale, shared)

    def only(self, some: NDArray[np.intp]) -> Self:
        if len(some) == len(self.b):
            return self
        scale = None if self.scale is None else self.scale[some]
        return self._replace(
            packed=self.packed[some], b=self.b[some], alpha=self.alpha[some], scale=scale
        )

    @property
    def threads(self) -> int:
        return threads_for(len(self.b) * self.b.shape[1] ** 3)
