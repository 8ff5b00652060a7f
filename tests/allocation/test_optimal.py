"""The convex program: against a general solver, its certificate, its size."""

import cvxpy
import numpy as np
import pytest

import apportion as ap
from apportion.allocation.optimal import solve_task_weights
from apportion.data import Graph
from tests.allocation.test_weights import graph_of


def random_graph(users: int, tasks: int, per_user: float, seed: int) -> Graph:
    return ap.simulate_tasks(users=users, tasks=tasks, tasks_per_user=per_user, seed=seed).graph


def objective(graph: Graph, weights: np.ndarray, gamma: float) -> float:
    sizes = graph.task_sizes()
    return float(np.sum(1 / (weights[sizes > 0] ** 2 * sizes[sizes > 0] ** gamma)))


def oracle(graph: Graph, gamma: float, budget: float) -> float:
    sizes = graph.task_sizes()
    squares = cvxpy.Variable(graph.tasks, pos=True)
    incidence = np.zeros((graph.users, graph.tasks))
    incidence[graph.user, graph.task] = 1
    used = sizes > 0
    cost = cvxpy.sum(
        cvxpy.multiply(sizes[used] ** -gamma, cvxpy.inv_pos(squares[np.flatnonzero(used)]))
    )
    problem = cvxpy.Problem(
        cvxpy.Minimize(cost), [incidence @ squares <= budget, squares <= budget]
    )
    return float(problem.solve(solver="CLARABEL"))


@pytest.mark.parametrize("gamma", [0.0, 1.0])
@pytest.mark.parametrize(
    ("users", "tasks", "per_user", "budget"), [(40, 10, 3, 1.0), (200, 30, 6, 0.2)]
)
def test_agrees_with_a_general_solver(
    users: int, tasks: int, per_user: float, budget: float, gamma: float
) -> None:
    graph = random_graph(users, tasks, per_user, seed=1)
    solved = solve_task_weights(graph, gamma=gamma, budget=budget, tolerance=1e-4)
    best = oracle(graph, gamma, budget)
    assert solved.gap <= 1e-4
    assert solved.objective == pytest.approx(best, rel=2e-4)
    assert objective(graph, solved.values, gamma) == pytest.approx(solved.objective)


def test_the_solution_is_feasible_and_the_gap_is_honest() -> None:
    graph = random_graph(2000, 100, 20, seed=2)
    rough = solve_task_weights(graph, tolerance=0.2)
    fine = solve_task_weights(graph, tolerance=1e-3)
    for solved in (rough, fine):
        spent = np.bincount(graph.user, weights=solved.values[graph.task] ** 2)
        assert spent.max() <= 1 + 1e-12
    assert rough.objective / (1 + rough.gap) <= fine.objective <= rough.objective


def test_better_than_the_closed_form_for_random_graphs() -> None:
    graph = random_graph(2000, 100, 20, seed=3)
    sizes = graph.task_sizes()
    closed = sizes**-0.5
    closed = closed / np.sqrt(np.bincount(graph.user, weights=closed[graph.task] ** 2).max())
    assert solve_task_weights(graph).objective < objective(graph, closed, 1.0)


def test_one_user_per_task_gets_everything() -> None:
    solved = solve_task_weights(graph_of([(0, 0), (1, 1)], tasks=3), budget=0.25)
    np.testing.assert_allclose(solved.values, 0.5)


def test_a_complete_graph_is_split_evenly() -> None:
    graph = graph_of([(u, t) for u in range(5) for t in range(4)], tasks=4)
    np.testing.assert_allclose(solve_task_weights(graph).values, 0.5)


def test_no_rows_at_all() -> None:
    np.testing.assert_array_equal(solve_task_weights(graph_of([], tasks=2)).values, [1.0, 1.0])


def test_a_million_edges() -> None:
    graph = random_graph(100_000, 1000, 10, seed=4)
    assert len(graph.task) == pytest.approx(1_000_000, rel=0.02)
    assert solve_task_weights(graph, tolerance=1e-3).gap <= 1e-3


def test_as_an_allocation_it_declares_the_graph_public() -> None:
    data = ap.simulate_tasks(users=300, tasks=10, tasks_per_user=3)
    report = ap.MultiTaskRidge(allocation=ap.OptimalWeights()).fit(data).privacy
    assert any("graph was declared public" in warning for warning in report.warnings)
    assert "graph of users and tasks" in report.public_inputs


def test_bad_settings() -> None:
    with pytest.raises(ap.ParameterError):
        solve_task_weights(graph_of([(0, 0)]), budget=0.0)
