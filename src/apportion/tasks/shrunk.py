"""Each task's own matrix, shrunk toward what all tasks have in common by what is known of its noise.

Everything here works on released values alone, in units in which both bounds are one.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from apportion.packing import unpack
from apportion.threads import in_threads

Array = NDArray[np.float64]

# Tasks are worked through this many bytes at a time.
_BLOCK_BYTES = 16 * 2**20
# Portions of the rest of the budget that A may get, and quantiles that stand for all tasks.
_PORTIONS = np.linspace(0.01, 0.99, 50)
_QUANTILES = (np.arange(64) + 0.5) / 64


@dataclass(frozen=True, eq=False)
class Released:
    """What is known of all tasks, and the scale of the noise on it.

    The matrices of all tasks are held at once, 4 d (d + 1) bytes a task and release.

    Attributes
        gram: A_i, about the sum of w x x', packed upper triangles, [tasks, d (d + 1) / 2].
        moment: b_i, about the sum of w y x, [tasks, d].
        mass: s_i, about the sum of w, positive, [tasks].
        second_moment: C, about the mean of x x', positive definite, [d, d].
        gram_noise, moment_noise, mass_noise: standard deviations (of the diagonal of A).
    """

    gram: Array
    moment: Array
    mass: Array
    second_moment: Array
    gram_noise: float
    moment_noise: float
    mass_noise: float

    def averaged(self, other: Self) -> Self:
        """Two releases of the same A and b in one, as precise as one release at the cost of both."""
        gram = _weight(self.gram_noise, other.gram_noise)
        moment = _weight(self.moment_noise, other.moment_noise)
        return replace(
            self,
            gram=self.gram + gram * (other.gram - self.gram),
            moment=self.moment + moment * (other.moment - self.moment),
            gram_noise=other.gram_noise * math.sqrt(gram),
            moment_noise=other.moment_noise * math.sqrt(moment),
        )


def _weight(noise: float, other: float) -> float:
    """How much the other of two values counts, so that their mean has the least variance."""
    return 1 / (1 + (other / noise) ** 2)


class Shrinkage:
    """What tasks have in common, learned from all of them, and the models that follow.

    In the basis of C's eigenvectors, with eigenvalues c_k (empirical Bayes throughout):

    - A_i is taken to be normal around s_i C, entry (k, l) with a variance of g_i c_k c_l: this is how
      sums of x x' over some of the users scatter. g_i = g_0 + g_2 s_i^2, one part for who happens to take
      part and one for features that differ by task, follows from what (A_i - s_i C)^2 exceeds the
      noise, over all tasks. Given the released A_i with its noise the best guess is then

          M_i = s_i C + K_i (A_i - s_i C),    K_ikl = g_i c_k c_l / (g_i c_k c_l + noise_A^2),

      entry by entry: s_i C where noise prevails, A_i where it does not.
    - theta_i is taken to be normal around a common center, with variance tau_k^2: the center is the
      least-squares solution for all tasks together, as far as it stands out from its noise; tau_k^2 is
      what the squares of b_i - M_i center exceed those of the noise.
    - b_i is M_i theta_i with the noise of the release and with (A_i - M_i) theta_i, of variance

          W_ik = noise_b^2 + sum_l K_ikl noise_A^2 (1 + [k = l]) / 2 * (tau_l^2 + center_l^2).

    So theta_i = center + T M_i (M_i T M_i + W_i)^-1 (b_i - M_i center) with T = diag(tau^2).
    ``alpha`` [tasks] is added to the diagonal of every M_i.
    """

    def __init__(self, released: Released, alpha: Array | float = 0.0) -> None:
        self._released = released
        self._alpha = np.broadcast_to(np.asarray(alpha, dtype=np.float64), released.mass.shape)
        self._values, self._basis = np.linalg.eigh(released.second_moment)
        d = len(self._values)
        self._isometry = (
            np.eye(d) + 1
        ) / 2  # the noise of a symmetric matrix: half off its diagonal
        self._shape = np.outer(self._values, self._values) / self._values.max() ** 2
        self.spread = self._learn_spread()
        self.center, self.variance = self._learn_models()

    def coef(self) -> Array:
        """The models of all tasks, [tasks, d]."""
        coef = np.empty_like(self._released.moment)
        for block, matrices, moment in self._blocks():
            noise = self._noise(self.spread[block])
            coef[block] = in_threads(self._solve, matrices, moment, noise)
        return np.asarray(coef @ self._basis.T)

    def errors(self, view: Array) -> Array:
        """Standard errors of view theta_i: the posterior's, [tasks, outputs]; view is [outputs, d].

        The covariance of theta_i given what was released is T - T M (M T M + W)^-1 M T.
        """
        view = view @ self._basis
        errors = np.empty((len(self.spread), len(view)))
        for block, matrices, _ in self._blocks():
            scaled = matrices * self.variance  # M T
            system = scaled @ matrices
            diagonal = np.arange(len(self.variance))
            system[:, diagonal, diagonal] += self._noise(self.spread[block])
            seen = np.swapaxes(scaled @ view.T, 1, 2)  # view T M, as M is symmetric
            solved = np.linalg.solve(system, np.swapaxes(seen, 1, 2))
            known = np.einsum("tod,tdo->to", seen, solved)
            errors[block] = np.sqrt(np.maximum(view**2 @ self.variance - known, 0.0))
        return errors

    def portion(self, share: float, rest: float) -> float:
        """The portion of the rest of the budget for A, the other being for b, that leaves least error.

        ``share`` is A's part in what was spent on A and b, ``rest`` how much is left, relative to that.
        The error of a model follows the mean of W_ik; 64 quantiles stand for all tasks.
        """
        spread = np.quantile(self.spread, _QUANTILES)[:, None, None] * self._shape
        gram, moment = self._released.gram_noise**2, self._released.moment_noise**2
        errors = [
            moment * (1 - share) / (1 - share + rest * (1 - portion))
            + self._misfit(spread, gram * share / (share + rest * portion)).mean()
            for portion in _PORTIONS
        ]
        return float(_PORTIONS[np.argmin(errors)])

    def _learn_spread(self) -> Array:
        """g_i in units of 1 / max c^2, [tasks]."""
        from scipy.optimize import nnls  # slow to load

        released = self._released
        noise = released.gram_noise**2 * self._isometry
        noise = noise + np.diag((released.mass_noise * self._values) ** 2)
        excess = np.empty_like(released.mass)
        for block, difference, _ in self._differences():
            excess[block] = np.sum((difference**2 - noise) * self._shape, axis=(1, 2))
        excess /= np.sum(self._shape**2 * self._isometry)
        unit = released.gram_noise**2  # so that no scale is too small for the solver's tolerance
        terms = (released.mass / released.mass.max())[:, None] ** [0, 2]
        return np.asarray(unit * (terms @ nnls(terms, excess / unit)[0]))

    def _learn_models(self) -> tuple[Array, Array]:
        """The common center and tau^2 in the basis of C, each [d]."""
        noise, d = self._released.moment_noise**2, len(self._values)
        square, product = np.zeros((d, d)), np.zeros(d)
        for _, matrices, moment in self._blocks():
            square += np.einsum("tki,tkj->ij", matrices, matrices)
            product += np.einsum("tki,tk->i", matrices, moment)
        values, basis = np.linalg.eigh(square)
        known = values > d * np.finfo(np.float64).eps * values.max()
        product = basis.T @ product
        solution = np.divide(product, values, out=np.zeros(d), where=known)
        # A solution of variance noise / values that is no larger than this tells nothing.
        signal = np.maximum(0.0, product * solution - noise)
        kept = np.divide(signal, product * solution, out=np.zeros(d), where=signal > 0)
        center = basis @ (kept * solution)
        total = np.zeros(d)
        for _, matrices, moment in self._blocks():
            total += np.sum((moment - matrices @ center) ** 2, axis=0)
        # Never quite zero: a thousandth of what is there is kept as signal.
        above = np.maximum(total - noise * len(self.spread), 1e-3 * total)
        power = np.diag(square)
        known = power > np.finfo(np.float64).eps ** 2 * power.max()
        return center, np.divide(above, power, out=np.zeros(d), where=known)

    def _solve(self, matrices: Array, moment: Array, noise: Array) -> Array:
        scaled = self.variance[:, None] * matrices
        system = matrices @ scaled
        diagonal = np.arange(len(self.variance))
        system[:, diagonal, diagonal] += noise
        residual = moment - matrices @ self.center
        return self.center + (scaled @ np.linalg.solve(system, residual[:, :, None]))[:, :, 0]

    def _noise(self, spread: Array) -> Array:
        """W_i, [block, d]."""
        released = self._released
        misfit = self._misfit(spread[:, None, None] * self._shape, released.gram_noise**2)
        return released.moment_noise**2 + misfit

    def _misfit(self, spread: Array, noise: float) -> Array:
        """The variance of (A_i - M_i) theta_i, given that of A_i's entries and of their noise."""
        left = spread / (spread + noise) * noise * self._isometry
        return np.asarray(left @ (self.variance + self.center**2))

    def _blocks(self) -> Iterator[tuple[slice, Array, Array]]:
        """M_i + alpha I and b_i in the basis of C, some tasks at a time."""
        diagonal = np.arange(len(self._values))
        noise = self._released.gram_noise**2
        for block, matrices, moment in self._differences():
            spread = self.spread[block, None, None] * self._shape
            matrices *= spread / (spread + noise)
            matrices[:, diagonal, diagonal] += np.outer(self._released.mass[block], self._values)
            matrices[:, diagonal, diagonal] += self._alpha[block, None]
            yield block, matrices, moment

    def _differences(self) -> Iterator[tuple[slice, Array, Array]]:
        """A_i - s_i C and b_i in the basis of C, some tasks at a time."""
        released, d = self._released, len(self._values)
        diagonal = np.arange(d)
        size = max(1, _BLOCK_BYTES // (8 * d * d))
        for first in range(0, len(released.mass), size):
            block = slice(first, first + size)
            matrices = self._basis.T @ unpack(released.gram[block], d) @ self._basis
            matrices[:, diagonal, diagonal] -= np.outer(released.mass[block], self._values)
            yield block, matrices, released.moment[block] @ self._basis
