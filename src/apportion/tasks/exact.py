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


def minimize_smooth(gradient: Gradient, start: Array, curvature: Array, steps: int) -> Array:
    """Accelerated descent until nothing moves by more than 1e-10, [tasks, d].

    ``curvature`` is the largest second derivative of each task's objective, [tasks].
    """
    step_size = 1 / np.maximum(curvature, np.finfo(np.float64).tiny)[:, None]
    coef = ahead = start
    age = np.ones((len(start), 1))
    for _ in range(steps):
        slope = gradient(ahead)
        moved = ahead - step_size * slope
        # Nesterov's momentum, restarted for a task whenever it points uphill.
        uphill = np.sum(slope * (moved - coef), axis=1, keepdims=True) > 0
        age = np.where(uphill, 1.0, age)
        older = (1 + np.sqrt(1 + 4 * age**2)) / 2
        ahead = moved + (age - 1) / older * (moved - coef) * ~uphill
        change = np.abs(moved - coef).max(initial=0.0)
        coef, age = moved, older
        if change <= 1e-10 * (1 + np.abs(coef).max(initial=0.0)):
            break
    return coef


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
    everything = queries.Statistics(queries.RightHandSides(math.inf, math.inf))
    found = []
    for _, (packed, right) in session.exact_sums(everything):
        found.append(np.linalg.eigvalsh(unpack(packed, right.shape[1]))[:, -1])
    return np.concatenate(found)
