"""Minimizing without noise, all tasks at once: the baseline without privacy."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from apportion.engine import Session, queries
from apportion.packing import unpack
from apportion.tasks.schedules import Adaptive

Array = NDArray[np.float64]
Gradient = Callable[[Array], Array]

# Matrices of all tasks are kept up to this size.
_MOST_NUMBERS = 2**25
_EVERYTHING = queries.Statistics(queries.RightHandSides(math.inf, math.inf))


def minimize_smooth(
    gradient: Gradient, start: Array, solve: Gradient, steps: int
) -> tuple[Array, float]:
    """Accelerated descent until nothing moves by more than 1e-10; the models [tasks, d], and the last move.

    ``solve`` is the step to the minimum of a bound on the objective, given its gradient: the gradient over
    the largest second derivative, or more of it (``Curvature``). Moves are relative to the largest number.
    """
    coef = ahead = start
    age, moves = np.ones((len(start), 1)), 0.0
    for _ in range(steps):
        slope = gradient(ahead)
        moved = ahead - solve(slope)
        # Nesterov's momentum, restarted for a task whenever it points uphill.
        uphill = np.sum(slope * (moved - coef), axis=1, keepdims=True) > 0
        age = np.where(uphill, 1.0, age)
        older = (1 + np.sqrt(1 + 4 * age**2)) / 2
        ahead = moved + (age - 1) / older * (moved - coef) * ~uphill
        moves = float(np.abs(moved - coef).max(initial=0.0))
        coef, age = moved, older
        moves /= 1 + float(np.abs(coef).max(initial=0.0))
        if moves <= 1e-10:
            break
    return coef, moves


def minimize_rough(gradient: Gradient, start: Array, reach: float, steps: int) -> Array:
    """Subgradient descent for losses with kinks: the mean of the second half of the steps, [tasks, d]."""
    schedule = Adaptive(reach)
    coef, mean, kept = start, np.zeros_like(start), steps - steps // 2
    for step in range(steps):
        slope = gradient(coef)
        coef = coef - schedule.rates(step + 1, slope) * slope
        if step >= steps - kept:
            mean += coef / kept
    return mean


def largest_eigenvalues(session: Session) -> Array:
    """Of each task's sum of x x', [tasks]."""
    found = []
    for _, (packed, right) in session.exact_sums(_EVERYTHING):
        found.append(np.linalg.eigvalsh(unpack(packed, right.shape[1]))[:, -1])
    return np.concatenate(found)


class Curvature:
    """Bounds on the second derivatives of all tasks' objectives, smoothness * sum of x x' + alpha_i I.

    How features are scaled and correlated does not matter then, only how far the loss is from squared. Of
    models so large that the matrices would take too much memory, the largest eigenvalue stands for all.
    """

    def __init__(self, session: Session, d: int, smoothness: float, alpha: Array) -> None:
        whole = session.tasks * d * d <= _MOST_NUMBERS
        values, bases = [], []
        for _, (packed, right) in session.exact_sums(_EVERYTHING):
            each, basis = np.linalg.eigh(unpack(packed, right.shape[1]))
            values.append(smoothness * np.maximum(each if whole else each[:, -1:], 0.0))
            bases.append(basis if whole else basis[:0])
        self._values = np.concatenate(values) + alpha[:, None]
        self._bases = np.concatenate(bases)

    def solve(self, slope: Array) -> Array:
        """The step that reaches the minimum of the bound, [tasks, d]."""
        # Directions without any feature have no slope either.
        least = 1e-12 * self._values.max(axis=1, keepdims=True) + np.finfo(np.float64).tiny
        values = np.maximum(self._values, least)
        if not len(self._bases):
            return np.asarray(slope / values)
        turned = (self._bases.transpose(0, 2, 1) @ slope[:, :, None]) / values[:, :, None]
        return np.asarray((self._bases @ turned)[:, :, 0])
