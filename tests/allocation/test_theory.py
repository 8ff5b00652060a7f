"""The theorems as functions: consistency between them, the paper's special cases, measured truth."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import minimize

import apportion as ap
from apportion.allocation import theory

SIZES = np.array([5.0, 20.0, 100.0, 900.0])
USERS, DIMENSION, LAMBDA, BUDGET = 1000, 7, 0.3, 0.8


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_the_closed_form_minimizes_the_bound(gamma: float) -> None:
    best = theory.optimal_task_weights(SIZES, (1 + gamma) / 4, USERS, BUDGET)
    assert np.sum(SIZES / USERS * best**2) == pytest.approx(BUDGET)

    def cost(log_squares: np.ndarray) -> float:
        squares = np.exp(log_squares)
        squares *= BUDGET / np.sum(SIZES / USERS * squares)
        return float(np.log(np.sum(1 / (squares * SIZES**gamma))))

    found = minimize(cost, np.zeros(4), tol=1e-12)
    assert math.exp(found.fun) == pytest.approx(np.sum(1 / (best**2 * SIZES**gamma)), rel=1e-6)


def test_optimal_weights_turn_the_general_bounds_into_the_adaptive_ones() -> None:
    strong = theory.optimal_task_weights(SIZES, 0.5, USERS, BUDGET)
    convex = theory.optimal_task_weights(SIZES, 0.25, USERS, BUDGET)
    common = {"dimension": DIMENSION, "strong_convexity": LAMBDA}
    size = {"tasks": len(SIZES), "users": USERS, "budget": BUDGET}
    assert theory.ssp_bound(
        strong, SIZES, feature_bound=2, solution_bound=3, **common
    ) == pytest.approx(
        theory.adaptive_bound_ssp(feature_bound=2, solution_bound=3, **common, **size)
    )
    assert theory.descent_bound_strongly_convex(
        strong, SIZES, gradient_bound=2, **common
    ) == pytest.approx(theory.adaptive_bound_strongly_convex(gradient_bound=2, **common, **size))
    assert theory.descent_bound_convex(
        convex, dimension=7, gradient_bound=2, diameter=3
    ) == pytest.approx(
        theory.adaptive_bound_convex(
            SIZES, users=USERS, dimension=7, budget=BUDGET, gradient_bound=2, diameter=3
        )
    )


def test_the_improvements_are_ratios_of_bounds() -> None:
    uniform = theory.optimal_task_weights(SIZES, 0.0, USERS, BUDGET)
    strong = theory.optimal_task_weights(SIZES, 0.5, USERS, BUDGET)
    convex = theory.optimal_task_weights(SIZES, 0.25, USERS, BUDGET)
    common = {"dimension": DIMENSION, "strong_convexity": LAMBDA}
    assert theory.improvement_strongly_convex(SIZES) == pytest.approx(
        theory.ssp_bound(uniform, SIZES, **common) / theory.ssp_bound(strong, SIZES, **common)
    )
    assert theory.improvement_convex(SIZES) == pytest.approx(
        theory.descent_bound_convex(uniform, dimension=7)
        / theory.descent_bound_convex(convex, dimension=7)
    )


@given(hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(1.0, 1e6)))
def test_adapting_never_hurts(sizes: np.ndarray) -> None:
    assert theory.improvement_convex(sizes) >= 1 - 1e-9
    assert theory.improvement_strongly_convex(sizes) >= 1 - 1e-9


def test_the_extreme_case_of_the_paper() -> None:
    # One task of m^(1 + nu) users, the others of one: R_0 ~ m^(nu / 2), R_1 ~ m^nu.
    tasks, nu = 10**6, 0.5
    sizes = np.ones(tasks)
    sizes[0] = tasks ** (1 + nu)
    assert theory.improvement_convex(sizes) == pytest.approx(tasks ** (nu / 2), rel=0.05)
    assert theory.improvement_strongly_convex(sizes) == pytest.approx(tasks**nu, rel=0.05)


def test_a_single_task_recovers_the_usual_bound() -> None:
    weights, sizes = np.array([math.sqrt(BUDGET)]), np.array([float(USERS)])
    per_example = (
        theory.descent_bound_strongly_convex(
            weights, sizes, dimension=DIMENSION, strong_convexity=LAMBDA
        )
        / USERS
    )
    assert per_example == pytest.approx(DIMENSION / (LAMBDA * USERS**2 * BUDGET))


def test_steps_equate_the_two_parts_of_the_error() -> None:
    weights = theory.optimal_task_weights(SIZES, 0.25, USERS)
    T = theory.descent_steps_convex(weights, SIZES, dimension=DIMENSION)
    assert np.sum(SIZES**2) / T == pytest.approx(DIMENSION / 2 * np.sum(1 / weights**2))
    T = theory.descent_steps_strongly_convex(weights, SIZES, dimension=DIMENSION)
    assert np.sum(SIZES) / T == pytest.approx(DIMENSION / 2 * np.sum(1 / (weights**2 * SIZES)))


def test_rates() -> None:
    weights = np.array([0.5, 1.0])
    sizes = np.array([10.0, 4.0])
    convex = theory.descent_rates_convex(
        weights, sizes, steps=6, step=4, dimension=3, gradient_bound=2, diameter=5
    )
    np.testing.assert_allclose(convex, 5 / (2 * np.sqrt([25 + 9, 16 + 9]) * 2))
    strong = theory.descent_rates_strongly_convex(weights, sizes, step=4, strong_convexity=0.1)
    np.testing.assert_allclose(strong, [1 / (5 * 0.4), 1 / (4 * 0.4)])


def test_approximate_counts_cost_their_relative_error() -> None:
    common = {"users": USERS, "dimension": DIMENSION, "strong_convexity": LAMBDA}
    exact = theory.adaptive_bound_ssp(tasks=len(SIZES), **common)
    assert theory.approximate_bound_ssp(SIZES, SIZES, 0.0, **common) == pytest.approx(exact)
    estimates, accuracy = SIZES + 2.0, 2.0
    ratio = theory.approximate_bound_ssp(estimates, SIZES, accuracy, **common) / exact
    assert ratio == pytest.approx(1 + np.mean(2 * accuracy / SIZES))


def test_concentration_is_a_small_multiple_of_the_log_under_the_paper_s_assumption() -> None:
    graph = ap.simulate_tasks(users=5000, tasks=200, tasks_per_user=20).graph
    weights = theory.optimal_task_weights(np.maximum(graph.task_sizes(), 1), 0.5, graph.users)
    measured = theory.measured_concentration(graph, weights)
    spent = np.bincount(graph.user, weights=weights[graph.task] ** 2)
    assert measured == pytest.approx(spent.max() / spent.mean())
    assert 1 < measured < math.log(graph.users)
