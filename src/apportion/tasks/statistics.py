"""Models from sufficient statistics: A_i = sum of w x x' and b_i = sum of w y x of every task."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from apportion.engine import Session, queries
from apportion.engine.feed import released_blocks
from apportion.engine.solves import solve_filtered, solve_positive
from apportion.packing import pack, unpack
from apportion.privacy import OpenRelease
from apportion.tasks.penalty import Penalty

Array = NDArray[np.float64]


def solve_released(
    session: Session,
    query: queries.Statistics,
    release: OpenRelease,
    penalty: Penalty,
    noise_ridge: float,
    each: Callable[[slice, Array, Array, Array], None] | None = None,
) -> Array:
    """Sum, release and solve block by block; the models of all tasks, [tasks, d].

    The noise of A_i is symmetric with spectral radius about r = noise * sqrt(2 d): noise_ridge * r
    suppresses directions in which A_i is smaller. ``each`` is told of every block: which tasks, A, b and
    the models.
    """
    d = release.records[1].shape[1]
    suppression = noise_ridge * radius(release, d)
    coef = np.empty((session.tasks, d))
    for tasks, (A, b) in released_blocks(session, query, release):
        common = _common(penalty, tasks)
        coef[tasks] = solve_filtered(A, b, penalty.ridge[tasks], suppression, *common)
        if each is not None:
            each(tasks, A, b, coef[tasks])
    return coef


def radius(release: OpenRelease, d: int) -> float:
    """About the spectral radius of the noise of A_i."""
    return release.records[0].noise_scale * math.sqrt(2 * d)


class FilteredErrors:
    """Standard errors of view theta_i, from what ``solve_released`` tells of every block of tasks.

    theta = F b with F = V f(l) V', A = V diag(l) V' (``solve_filtered``). Its variance is that of b's noise
    and of the noise of A times theta, noise_A^2 (theta_k^2 + |theta|^2) / 2 in coordinate k. What F
    suppresses, (I - F A) theta, is missing besides. Its size follows from the variance of theta over tasks,
    one for the features and one for the constant: E b_k^2 = sum_l A_kl^2 tau_l^2 + noise_b^2, over all tasks.
    """

    def __init__(
        self,
        release: OpenRelease,
        ridge: Array,
        suppression: float,
        view: Array,
        groups: NDArray[np.int64],
    ) -> None:
        # Of NumPy, whose squares are infinite where those of Python are errors.
        self._of_gram, self._of_moment = (np.float64(one.noise_scale) for one in release.records)
        self._ridge, self._suppression, self._view = ridge, np.float64(suppression), view
        self._groups = np.eye(groups.max() + 1)[groups]  # of each coordinate, [d, groups]
        sizes = len(ridge), len(view)
        self._noise, self._missing = np.empty(sizes), np.empty((*sizes, self._groups.shape[1]))
        self._squares, self._power = np.zeros(len(groups)), np.zeros((len(groups), len(groups)))

    def __call__(self, tasks: slice, A: Array, b: Array, coef: Array) -> None:
        """One block: its statistics as released, and its models."""
        matrices = unpack(A, coef.shape[1])
        values, basis = np.linalg.eigh(matrices)
        values = np.maximum(values, 0.0) + self._ridge[tasks, None]
        with np.errstate(over="ignore", invalid="ignore"):  # bounds near the largest number
            divisor = values**2 + self._suppression**2
            filters = np.divide(values, divisor, out=np.zeros_like(values), where=divisor > 0)
            squares = coef**2
            noise = (squares + squares.sum(axis=1, keepdims=True)) / 2
            noise = self._of_moment**2 + self._of_gram**2 * noise
            seen, back = self._view @ basis, np.swapaxes(basis, 1, 2)
            root = (seen * filters[:, None, :]) @ back
            self._noise[tasks] = np.sum(root**2 * noise[:, None, :], axis=2)
            missing = (seen * (1 - filters * values)[:, None, :]) @ back
            self._missing[tasks] = missing**2 @ self._groups
            self._squares += np.sum(b**2, axis=0)
            self._power += np.sum(matrices**2, axis=0)

    def errors(self) -> Array:
        """[tasks, outputs]."""
        from scipy.optimize import nnls  # slow to load

        if not (np.isfinite(self._squares).all() and np.isfinite(self._power).all()):
            return np.full_like(self._noise, np.inf)  # their squares are no numbers
        tasks, d = len(self._noise), len(self._squares)
        # Never quite zero: a thousandth of what is there is kept as signal.
        signal = np.maximum(self._squares - tasks * self._of_moment**2, 1e-3 * self._squares)
        noise = tasks * self._of_gram**2 * (np.eye(d) + 1) / 2
        power = self._groups.T @ np.maximum(self._power - noise, 1e-3 * self._power) @ self._groups
        unit = (
            power.max(initial=0.0) or 1.0
        )  # so that no scale is too small for the solver's tolerance
        right = self._groups.T @ signal
        tau = nnls(power / unit, right / (right.max(initial=0.0) or 1.0))[0]
        tau *= (right.max(initial=0.0) or 1.0) / unit
        return np.asarray(np.sqrt(self._noise + self._missing @ tau))


def solve_exact(session: Session, penalty: Penalty) -> Array:
    """The models of all tasks from exact statistics, [tasks, d]."""
    blocks = []
    everything = queries.Statistics(queries.RightHandSides(math.inf, math.inf))
    for first, (A, b) in session.exact_sums(everything):
        tasks = slice(first, first + len(b))
        alpha, common = penalty.ridge[tasks], _common(penalty, tasks)
        definite = alpha.min(initial=math.inf) > 0
        solve = solve_positive(A, b, alpha, *common) if definite else None
        blocks.append(solve_filtered(A, b, alpha, 0.0, *common) if solve is None else solve)
    return np.concatenate(blocks)


def _common(penalty: Penalty, tasks: slice) -> tuple[Array, ...]:
    """What is added to the matrices of these tasks: their scale, and the packed matrix."""
    if penalty.shared is None:
        return ()
    return penalty.scale[tasks], pack(penalty.shared[None])[0]
