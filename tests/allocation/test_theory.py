"""The theorems as functions: consistency between them, the paper's special cases, measured truth."""

import math
import warnings
from dataclasses import replace

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld, rdp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import minimize

import apportion as ap
from apportion.allocation import theory
from apportion.data import Graph

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


@pytest.mark.parametrize("nu", [1.5, 2.0, 3.0])
def test_the_gain_for_convex_losses_never_passes_the_root_of_the_number_of_tasks(nu: float) -> None:
    # The paper's R_0 ~ m^(nu / 2) is right for nu < 1 only: sum sqrt(n_i) >= sqrt(sum n_i).
    tasks = 10**6
    sizes = np.ones(tasks)
    sizes[0] = float(tasks) ** (1 + nu)
    gain = theory.improvement_convex(sizes)
    assert 0.9 * math.sqrt(tasks) < gain < math.sqrt(tasks) < 0.1 * tasks ** (nu / 2)
    assert theory.improvement_strongly_convex(sizes) == pytest.approx(tasks**nu, rel=0.05)


def test_every_bound_is_the_paper_s_formula() -> None:
    """Two tasks of 4 and 16 users, by hand: sum 1 / (omega^2 n) = 1 / (.25 * 4) + 1 / (.04 * 16) = 2.5625."""
    weights, sizes = np.array([0.5, 0.2]), np.array([4.0, 16.0])
    d, strong = {"dimension": 3}, {"dimension": 3, "strong_convexity": 0.5}
    squared = 1 / 0.25 + 1 / 0.04
    for found, expected in (
        (
            theory.ssp_bound(weights, sizes, feature_bound=2, solution_bound=5, **strong),
            2**4 * 5**2 * 3 / 0.5 * 2.5625,
        ),
        (
            theory.descent_bound_convex(weights, gradient_bound=2, diameter=5, **d),
            5 * 2 * math.sqrt(2 * 3 * squared),
        ),
        (
            theory.descent_bound_strongly_convex(weights, sizes, gradient_bound=2, **strong),
            2**2 * 3 / 0.5 * 2.5625,
        ),
        (theory.descent_steps_convex(weights, sizes, **d), 2 / 3 * (16 + 256) / squared),
        (theory.descent_steps_strongly_convex(weights, sizes, **d), 2 / 3 * 20 / 2.5625),
        (theory.improvement_convex(sizes), math.sqrt(2 * 20) / (2 + 4)),
        (theory.improvement_strongly_convex(sizes), (1 / 4 + 1 / 16) * 20 / 4),
        (
            theory.approximate_bound_ssp(
                np.array([5.0, 15.0]), sizes, 1.0, users=40, budget=0.1, feature_bound=2,
                solution_bound=5, **strong,
            ),
            2**4 * 5**2 * 3 * 2 / (40 * 0.5 * 0.1) * (6 / 4 + 16 / 16),
        ),
    ):  # fmt: skip
        assert found == pytest.approx(expected)
    omega = theory.optimal_task_weights(sizes, 0.25, 40, 0.1)  # equation 11, gamma 0
    np.testing.assert_allclose(omega, sizes**-0.25 / math.sqrt((2 + 4) / (40 * 0.1)))
    omega = theory.optimal_task_weights(sizes, 0.5, 40, 0.1)  # gamma 1
    np.testing.assert_allclose(omega, sizes**-0.5 / math.sqrt(2 / (40 * 0.1)))


def test_a_complete_graph_is_one_task_of_dimension_m_d() -> None:
    tasks, sizes = 6, np.full(6, float(USERS))
    weights = np.full(tasks, math.sqrt(BUDGET / tasks))
    strong = {"strong_convexity": LAMBDA}
    one = np.array([math.sqrt(BUDGET)]), sizes[:1]
    many = theory.descent_bound_strongly_convex(weights, sizes, dimension=DIMENSION, **strong)
    single = theory.descent_bound_strongly_convex(*one, dimension=tasks * DIMENSION, **strong)
    assert many / tasks == pytest.approx(single)
    many = theory.descent_bound_convex(weights, dimension=DIMENSION)
    assert many / tasks == pytest.approx(
        theory.descent_bound_convex(one[0], dimension=tasks * DIMENSION)
    )


def test_a_single_task_recovers_the_usual_bound() -> None:
    weights, sizes = np.array([math.sqrt(BUDGET)]), np.array([float(USERS)])
    convex = theory.descent_bound_convex(weights, dimension=DIMENSION) / USERS
    assert convex == pytest.approx(math.sqrt(DIMENSION) / (USERS * math.sqrt(BUDGET)))
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


def one_small_task(users: int, tasks: int = 100) -> ap.TaskData:
    """Every user is in about a fifth of the tasks; the first task has a single user."""
    rng = np.random.default_rng(users)
    member = rng.random((users, tasks)) < 0.2
    member[:, 0] = False
    member[7, 0] = True
    user, task = np.nonzero(member)
    return ap.TaskData(user, task, np.ones((len(user), 1)), np.zeros(len(user)), tasks=tasks)


@pytest.mark.parametrize("users", [1_000, 10_000])
def test_lemma_a4_is_false_where_a_task_is_small(users: int) -> None:
    graph = one_small_task(users).graph
    sizes = graph.task_sizes()
    weights = theory.optimal_task_weights(sizes, 0.5, users)
    measured = theory.measured_concentration(graph, weights)
    # The user of the small task spends n / m times what the average user spends: no c makes it c log n.
    assert measured >= users / len(sizes)
    assert not theory.lemma_holds(sizes, 0.5, users)
    assert measured <= theory.concentration_bound(sizes, 0.5, users)


@pytest.mark.parametrize("exponent", [0.25, 0.5])
def test_lemma_a4_is_false_for_both_exponents_where_all_tasks_have_one_user(
    exponent: float,
) -> None:
    # m <= n tasks of one user each: that user spends n / m times what the average user spends.
    tasks = 50
    for users in (1_000, 100_000):
        graph = Graph(np.arange(tasks), np.arange(tasks), np.arange(users, dtype=np.uint64), tasks)
        sizes = graph.task_sizes()
        weights = theory.optimal_task_weights(sizes, exponent, users)
        assert theory.measured_concentration(graph, weights) == pytest.approx(users / tasks)
        assert theory.largest_part(sizes, exponent, users) == pytest.approx(users / tasks)
        assert not theory.lemma_holds(sizes, exponent, users)


def test_the_exponent_of_convex_losses_asks_less_of_the_smallest_task() -> None:
    sizes = np.array([4.0, 100.0, 100.0])
    assert theory.largest_part(sizes, 0.5, 1_000) == pytest.approx(1_000 / (3 * 4))
    mean_of_roots = (2 + 10 + 10) / 3
    assert theory.largest_part(sizes, 0.25, 1_000) == pytest.approx(1_000 / (3 * 2 * mean_of_roots))


@given(
    hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(1.0, 1e5)),
    st.sampled_from([0.25, 0.5]),
)
def test_the_bound_is_never_above_bernstein_s(sizes: np.ndarray, exponent: float) -> None:
    users = 100_000
    part, log = theory.largest_part(sizes, exponent, users), math.log(users)
    bernstein = 1 + math.sqrt(6 * part * log) + part * log
    assert theory.concentration_bound(sizes, exponent, users) <= 1.01 * bernstein


@pytest.mark.parametrize("exponent", [0.25, 0.5])
def test_no_user_exceeds_the_bound_under_the_paper_s_assumption(exponent: float) -> None:
    for seed in range(5):
        graph = ap.simulate_tasks(users=2000, tasks=60, tasks_per_user=6, seed=seed).graph
        sizes = np.maximum(graph.task_sizes(), 1)
        weights = theory.optimal_task_weights(sizes, exponent, 2000)
        # Fails with probability 1 / 2000^2 for each of ten.
        assert theory.measured_concentration(graph, weights) <= theory.concentration_bound(
            sizes, exponent, 2000
        )


def test_scaled_to_the_worst_user_the_closed_form_may_lose_to_uniform_weights() -> None:
    graph = one_small_task(5_000).graph
    sizes = graph.task_sizes()
    values = {}
    for exponent in (0.0, 0.5):
        weights = theory.optimal_task_weights(sizes, exponent, 5_000)
        values[exponent] = theory.objective(
            weights, sizes, 1.0, theory.largest_spending(graph, weights)
        )
    best = theory.solve_task_weights(graph, gamma=1.0).objective
    assert best < values[0.0] < values[0.5]


def test_clipping_weights_warn_where_the_lemma_does_not_hold() -> None:
    small = one_small_task(3_000)
    clip = ap.AdaptiveWeights(0.5, mode="clip", users=3_000, counts=ap.PublicCounts())
    with pytest.warns(UserWarning, match="too small for c"):
        ap.MultiTaskRidge(allocation=clip).fit(small)
    even = ap.simulate_tasks(users=3_000, tasks=20, tasks_per_user=5, skew=8.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ap.MultiTaskRidge(allocation=clip).fit(even)
        given = replace(clip, concentration=50.0)
        ap.MultiTaskRidge(allocation=given).fit(small)


def test_renyi_beside_the_exact_accounting() -> None:
    mu = ap.mu_from_epsilon(1.0, 1e-5)
    assert theory.rdp_budget(mu) == pytest.approx(0.0359, abs=1e-4)
    assert theory.sufficient_budget(1.0, 1e-5) == pytest.approx(0.0109, abs=1e-4)
    # What the paper's condition allows is private, and less than what is allowed.
    for epsilon in (0.1, 1.0, 5.0, 11.0):
        beta = theory.sufficient_budget(epsilon, 1e-5)
        assert theory.epsilon_from_rdp(beta, 1e-5) <= epsilon
        assert ap.epsilon_from_mu(math.sqrt(2 * beta), 1e-5) < epsilon
    with pytest.raises(ap.ParameterError, match="epsilon <= log"):
        theory.sufficient_budget(20.0, 1e-5)
    assert theory.rdp_curve(0.02, 3.0) == pytest.approx(0.06)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 5.0, 20.0])
def test_dp_accounting_checks_both(epsilon: float) -> None:
    delta, mu = 1e-5, ap.mu_from_epsilon(epsilon, 1e-5)
    event = dp_accounting.GaussianDpEvent(1 / mu)
    orders = 1 + np.geomspace(1e-2, 1e3, 2000)
    renyi = rdp.RdpAccountant(orders).compose(event)
    beta = theory.rdp_budget(mu)
    ours = theory.epsilon_from_rdp(beta, delta)  # by Mironov's conversion; theirs is tighter
    converted = beta * orders + math.log(1 / delta) / (orders - 1)
    assert ours == pytest.approx(converted.min(), rel=1e-4)
    assert epsilon < renyi.get_epsilon(delta) < ours < 1.5 * epsilon
    exact = pld.PLDAccountant(value_discretization_interval=1e-3).compose(event)
    assert exact.get_epsilon(delta) == pytest.approx(epsilon, rel=5e-3)
