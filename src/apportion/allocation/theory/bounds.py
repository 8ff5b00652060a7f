"""The paper's utility theorems as functions: what a choice of weights is predicted to cost.

Bounds are stated up to a constant (and logarithms), so their ratios carry the meaning. Notation, once:
``weights`` omega_i [tasks], ``sizes`` n_i [tasks], ``users`` n, ``dimension`` d, ``budget`` beta,
``strong_convexity`` lambda, ``feature_bound`` Gamma_x, ``solution_bound`` Gamma_*, ``gradient_bound``
Gamma, ``diameter`` |C|; gamma is 0 for convex and 1 for strongly convex losses.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]


def optimal_task_weights(
    sizes: Floats, exponent: float, users: float, budget: float = 1.0
) -> NDArray[np.float64]:
    """omega_i = n_i^-exponent / sqrt(sum n_i^(1 - 2 exponent) / (n beta)), [tasks] (equation 11).

    The average user spends exactly ``budget``: sum_i (n_i / n) omega_i^2 = budget. Among all such
    weights, exponent (1 + gamma) / 4 minimizes sum_i 1 / (omega_i^2 n_i^gamma).

    >>> weights = optimal_task_weights(np.array([100.0, 400.0]), 0.5, users=1000)
    >>> round(float(np.sum(np.array([100.0, 400.0]) / 1000 * weights**2)), 9)
    1.0
    """
    sizes = np.asarray(sizes, dtype=np.float64)
    scale = np.sum(sizes ** (1 - 2 * exponent)) / (users * budget)
    return np.asarray(sizes**-exponent / math.sqrt(scale), dtype=np.float64)


def ssp_bound(
    weights: Floats,
    sizes: Floats,
    *,
    dimension: int,
    strong_convexity: float,
    feature_bound: float = 1.0,
    solution_bound: float = 1.0,
) -> float:
    """Excess risk of Algorithm 1, Theorem 3.8: Gx^4 G*^2 d / lambda * sum 1/(omega^2 n)."""
    scale = feature_bound**4 * solution_bound**2 * dimension / strong_convexity
    return scale * _sum(1 / (weights**2 * sizes))


def descent_bound_convex(
    weights: Floats, *, dimension: int, gradient_bound: float = 1.0, diameter: float = 1.0
) -> float:
    """Excess risk of Algorithm 2, Theorem 3.12 (a): |C| G sqrt(m d) sqrt(sum 1/omega^2)."""
    scale = diameter * gradient_bound * math.sqrt(len(weights) * dimension)
    return scale * math.sqrt(_sum(1 / weights**2))


def descent_bound_strongly_convex(
    weights: Floats,
    sizes: Floats,
    *,
    dimension: int,
    strong_convexity: float,
    gradient_bound: float = 1.0,
) -> float:
    """Excess risk of Algorithm 2, Theorem 3.12 (b): G^2 d / lambda * sum 1/(omega^2 n)."""
    return gradient_bound**2 * dimension / strong_convexity * _sum(1 / (weights**2 * sizes))


def descent_steps_convex(weights: Floats, sizes: Floats, *, dimension: int) -> float:
    """T of Theorem 3.12 (a): 2/d * sum n^2 / sum 1/omega^2."""
    return 2 / dimension * _sum(sizes**2) / _sum(1 / weights**2)


def descent_steps_strongly_convex(weights: Floats, sizes: Floats, *, dimension: int) -> float:
    """T of Theorem 3.12 (b): 2/d * |Omega| / sum 1/(omega^2 n)."""
    return 2 / dimension * _sum(sizes) / _sum(1 / (weights**2 * sizes))


def descent_rates_convex(
    weights: Floats,
    sizes: Floats,
    *,
    steps: float,
    step: int,
    dimension: int,
    gradient_bound: float = 1.0,
    diameter: float = 1.0,
) -> NDArray[np.float64]:
    """eta_i at a step, Theorem 3.12 (a): |C| / (G sqrt(omega^2 n^2 + T d/2) sqrt(t)), [tasks]."""
    scale = gradient_bound * np.sqrt(weights**2 * sizes**2 + steps * dimension / 2)
    return np.asarray(diameter / (scale * math.sqrt(step)), dtype=np.float64)


def descent_rates_strongly_convex(
    weights: Floats, sizes: Floats, *, step: int, strong_convexity: float
) -> NDArray[np.float64]:
    """eta_i at a step, Theorem 3.12 (b): 1 / (omega n lambda t), [tasks].

    The theorem prints omega^2; its proof (the objective omega_i L_i is omega_i n_i lambda strongly
    convex) uses omega, and so do we.
    """
    return np.asarray(1 / (weights * sizes * strong_convexity * step), dtype=np.float64)


def adaptive_bound_ssp(
    *,
    tasks: int,
    users: int,
    dimension: int,
    strong_convexity: float,
    budget: float = 1.0,
    feature_bound: float = 1.0,
    solution_bound: float = 1.0,
) -> float:
    """Algorithm 1 under the optimal weights, Theorem 4.2 (a): Gx^4 G*^2 d m^2 / (n lambda beta)."""
    scale = feature_bound**4 * solution_bound**2 * dimension
    return scale * tasks**2 / (users * strong_convexity * budget)


def adaptive_bound_convex(
    sizes: Floats,
    *,
    users: int,
    dimension: int,
    budget: float = 1.0,
    gradient_bound: float = 1.0,
    diameter: float = 1.0,
) -> float:
    """Algorithm 2 under the optimal weights, Theorem 4.2 (b): |C| G sqrt(m d/(n beta)) sum sqrt(n_i)."""
    scale = diameter * gradient_bound * math.sqrt(len(sizes) * dimension / (users * budget))
    return scale * _sum(np.sqrt(sizes))


def adaptive_bound_strongly_convex(
    *,
    tasks: int,
    users: int,
    dimension: int,
    strong_convexity: float,
    budget: float = 1.0,
    gradient_bound: float = 1.0,
) -> float:
    """Algorithm 2 under the optimal weights, Theorem 4.2 (c): G^2 d m^2 / (n lambda beta)."""
    return gradient_bound**2 * dimension * tasks**2 / (users * strong_convexity * budget)


def approximate_bound_ssp(
    estimates: Floats,
    sizes: Floats,
    accuracy: float,
    *,
    users: int,
    dimension: int,
    strong_convexity: float,
    budget: float = 1.0,
    feature_bound: float = 1.0,
    solution_bound: float = 1.0,
) -> float:
    """Algorithm 1 with counts that are off by at most s = ``accuracy``, Theorem B.2."""
    exact = adaptive_bound_ssp(
        tasks=len(sizes),
        users=users,
        dimension=dimension,
        strong_convexity=strong_convexity,
        budget=budget,
        feature_bound=feature_bound,
        solution_bound=solution_bound,
    )
    return exact * _sum((estimates + accuracy) / sizes) / len(sizes)


def improvement_convex(sizes: Floats) -> float:
    """R_0: the bound under uniform weights over the bound under optimal weights, convex case.

    >>> improvement_convex(np.array([50.0, 50.0]))
    1.0
    """
    return math.sqrt(len(sizes) * _sum(sizes)) / _sum(np.sqrt(sizes))


def improvement_strongly_convex(sizes: Floats) -> float:
    """R_1: the bound under uniform weights over the bound under optimal weights, strongly convex.

    >>> improvement_strongly_convex(np.array([50.0, 50.0]))
    1.0
    """
    return _sum(1 / sizes) * _sum(sizes) / len(sizes) ** 2


def _sum(values: Floats) -> float:
    return float(np.sum(values))
