"""The best task weights for a public graph: the paper's convex program, solved.

    minimize  sum_i c_i / v_i   subject to   sum_{i in Omega^j} v_i <= beta  for every user j,

with v_i = omega_i^2 and c_i = n_i^-gamma. Its dual is to maximize f(p) = sum_i sqrt(c_i z_i) over
probabilities p of users, z_i being the total p of task i's users; then v_i is proportional to
sqrt(c_i / z_i). By Jensen's inequality

    sqrt(z_i) >= sum_j sqrt(p_j p'_j / z'_i)    with equality at p = p',

the right side summed over i is maximal at p_j ~ p'_j s_j^2, where s_j = sum_{i in Omega^j} v_i is what user j
spends. Repeating this step never decreases f and needs two sparse products. The weights scaled to the
largest s_j are feasible, and f bounds the optimum from below, so the distance to it is known.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.allocation.base import Allocation, Rule
from apportion.allocation.scaling import normalized
from apportion.checks import number
from apportion.data import Graph
from apportion.privacy import UserWeights


@dataclass(frozen=True, eq=False)
class OptimalTaskWeights:
    """The solution: ``values`` omega_i [tasks], its ``objective`` and the relative ``gap`` to the best."""

    values: NDArray[np.float64]
    objective: float
    gap: float


def solve_task_weights(
    graph: Graph,
    *,
    gamma: float = 1.0,
    budget: float = 1.0,
    tolerance: float = 1e-3,
    max_iterations: int = 10_000,
) -> OptimalTaskWeights:
    """Minimize sum_i 1 / (omega_i^2 n_i^gamma) such that no user's sum of omega_i^2 passes ``budget``.

    ``gamma`` is 1 for strongly convex and 0 for convex losses. Tasks without users constrain nobody
    and get the whole budget.
    """
    from scipy.sparse import csr_array  # slow to load

    gamma = number("gamma", gamma, at_least=0, at_most=1)
    budget = number("budget", budget, above=0, at_most=1e100)
    tolerance = number("tolerance", tolerance, above=0)
    members, task = np.unique(graph.task, return_inverse=True)
    users, user = np.unique(graph.user, return_inverse=True)
    values = np.full(graph.tasks, np.sqrt(budget))
    if len(members) == 0:
        return OptimalTaskWeights(values, 0.0, 0.0)
    incidence = csr_array((np.ones(len(task)), (user, task)), shape=(len(users), len(members)))
    transposed = incidence.T.tocsr()
    cost = graph.task_sizes()[members] ** -gamma
    chance = np.full(len(users), 1 / len(users))
    for _ in range(max_iterations):
        load = transposed @ chance
        squares = np.sqrt(cost / load)
        spent = incidence @ squares
        objective = float(np.sum(cost / squares) * spent.max() / budget)
        gap = objective * budget / float(np.sum(np.sqrt(cost * load))) ** 2 - 1
        if gap <= tolerance:
            break
        chance *= spent**2
        chance /= chance.sum()
    values[members] = np.sqrt(budget * squares / spent.max())
    return OptimalTaskWeights(values, objective, gap)


@dataclass(frozen=True)
class OptimalWeights(Allocation):
    """Weights of the convex program, for a graph that is public: only features and labels are not.

    Args:
        gamma: 1 for strongly convex losses, 0 for convex ones.
    """

    gamma: float = 1.0

    def weigh(self, graph: Graph, sizes: NDArray[np.float64], key: int) -> UserWeights:
        """Task weights, given as sizes here, scaled up to the whole budget of every user."""
        del key
        return normalized(graph.user, graph.task, sizes[graph.task])

    def rule(
        self,
        tasks: int,
        sizes: NDArray[np.float64] | None,
        key: int,
        public_graph: Callable[[], Graph],
    ) -> Rule:
        """Solve for the whole graph, which is public."""
        del tasks, sizes
        return Rule(self, solve_task_weights(public_graph(), gamma=self.gamma).values, key)

    def __post_init__(self) -> None:
        number("gamma", self.gamma, at_least=0, at_most=1)

    def neighboring(self) -> str:
        """The graph is the same in both."""
        return "give or withhold one user's features and labels, the graph being public and fixed"

    def public_inputs(self) -> dict[str, Any]:
        """The graph."""
        return {**super().public_inputs(), "graph of users and tasks": "declared public"}

    def warnings(self) -> tuple[str, ...]:
        """What is not covered."""
        return (
            "the graph was declared public: who takes part in what is not covered by the guarantee,"
            " only features and labels are",
        )
