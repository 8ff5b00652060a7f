"""Who spends how much: c(n) of Lemma A.4, what of the lemma is true, and what replaces it.

Let omega_i be the weights of equation 11, for which the average user spends B = sum_i (n_i / n) omega_i^2,
and let users take part in tasks at random (Assumption 4.1). The lemma says that there is a constant c such
that no user spends more than c B log n. It is false: if a task has a single user, that user spends at least
omega_i^2 = n B / m for exponent 1/2, which exceeds c B log n as soon as n > c m log n; for exponent 1/4 the
same happens if all tasks have a single user, or as n grows. Its proof bounds the variance of what a user
spends by (m / n) B^2, where (n / m) B^2 is what follows: it needs m >= n.

What is true. Let K = max_i omega_i^2 / B, the largest part that one task can have in a user's spending. What
task i adds, X_i, is omega_i^2 with probability at most n_i / n, else 0. The X_i are independent, at most K B,
their means sum to at most B and their variances to at most K B * B. Bernstein's inequality,

    Pr(sum X_i > B + sqrt(2 v L) + b L / 3) <= exp(-L)    with v = K B^2, b = K B and L = 3 log n,

holds for all n users together with probability 1 - n^-2, and says

    c(n) <= 1 + sqrt(6 K log n) + K log n,

which is of the order of log n if and only if K is bounded: no task may be so small that one user of it spends
far more than the average. For exponent 1/2, K = n / (m min n_i): the smallest task needs about n / m users.
For exponent 1/4, K = n / (m sqrt(min n_i) a), a being the mean of sqrt(n_i), which asks for less.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.allocation.theory.bounds import optimal_task_weights
from apportion.data import Graph

Floats = NDArray[np.floating[Any]]


def largest_part(sizes: Floats, exponent: float, users: float) -> float:
    """K: the most that one task adds to what a user spends, in units of what the average user spends.

    >>> round(largest_part(np.array([10.0, 100.0]), 0.5, users=1000), 9)
    50.0
    """
    return float(np.max(optimal_task_weights(sizes, exponent, users) ** 2))


def concentration_bound(sizes: Floats, exponent: float, users: float) -> float:
    """A c(n) that no user exceeds with probability 1 - n^-2 (Assumption 4.1), by Chernoff's inequality.

    The least over z > 0 of (3 log n + sum_i log(1 + n_i / n (exp(z v_i) - 1))) / z with v_i = omega_i^2 / B:
    never above Bernstein's 1 + sqrt(6 K log n) + K log n but for a grid of z that is 1 % wide.
    """
    sizes = np.asarray(sizes, dtype=np.float64)
    parts = optimal_task_weights(sizes, exponent, users) ** 2
    chance = np.minimum(sizes / users, 1.0)
    # Beyond these the bound is at least 3 log n K / 600, or one user's whole chance.
    tilts = np.geomspace(1e-3, 600, 1341) / parts.max()
    bounds = [
        (3 * math.log(users) + float(np.log1p(chance * np.expm1(tilt * parts)).sum())) / tilt
        for tilt in tilts
    ]
    return float(min(bounds))


def lemma_holds(sizes: Floats, exponent: float, users: float) -> bool:
    """Whether no user exceeds c(n) = log n, with high probability, for these sizes: Lemma A.4 with c = 1."""
    return concentration_bound(sizes, exponent, users) <= math.log(users)


def measured_concentration(graph: Graph, weights: Floats) -> float:
    """c(n) on a given graph: the largest budget that a user spends over the average one.

    Computed from the exact graph: for public or simulated graphs only. The lemma's constant c is
    this value over the log of the number of users.
    """
    spent = np.bincount(graph.user, weights=weights[graph.task] ** 2, minlength=graph.users)
    return float(spent.max() / spent.mean())


def objective(weights: Floats, sizes: Floats, gamma: float, worst: float = 1.0) -> float:
    """Equation 9, sum_i 1 / (omega_i^2 n_i^gamma), of the weights scaled down until the worst user spends 1.

    ``worst`` is what that user spends before: 1 if the weights are feasible already.
    """
    return worst * float(np.sum(1 / (weights**2 * sizes**gamma)))


def largest_spending(graph: Graph, weights: Floats) -> float:
    """max_j sum of omega_i^2 over user j's tasks; for public or simulated graphs only."""
    spent = np.bincount(graph.user, weights=weights[graph.task] ** 2, minlength=graph.users)
    return float(spent.max())
