"""Models from sufficient statistics: A_i = sum of w x x' and b_i = sum of w y x of every task."""

import math

import numpy as np
from numpy.typing import NDArray

from apportion.engine import Session, queries
from apportion.engine.feed import released_blocks
from apportion.engine.solves import solve_filtered, solve_positive
from apportion.packing import pack
from apportion.privacy import OpenRelease
from apportion.tasks.penalty import Penalty

Array = NDArray[np.float64]


def solve_released(
    session: Session,
    query: queries.Statistics,
    release: OpenRelease,
    penalty: Penalty,
    noise_ridge: float,
) -> Array:
    """Sum, release and solve block by block; the models of all tasks, [tasks, d].

    The noise of A_i is symmetric with spectral radius about r = noise * sqrt(2 d): noise_ridge * r
    suppresses directions in which A_i is smaller.
    """
    d = release.records[1].shape[1]
    radius = release.records[0].noise_scale * math.sqrt(2 * d)
    coef = np.empty((session.tasks, d))
    for tasks, (A, b) in released_blocks(session, query, release):
        coef[tasks] = solve_filtered(
            A, b, penalty.ridge[tasks], noise_ridge * radius, *_common(penalty, tasks)
        )
    return coef


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
