"""Adaptive and uniform weights: the budget for any graph, the paper's formula, what small tasks get."""

import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import apportion as ap
from apportion.allocation.scaling import emphasized
from apportion.data import Graph
from apportion.privacy import UserWeights

TASKS = 8


def graph_of(rows: list[tuple[int, int]], tasks: int = TASKS) -> Graph:
    array = np.array(rows, dtype=np.int64).reshape(len(rows), 2)
    users = int(array[:, 0].max()) + 1 if len(rows) else 0
    keys = np.arange(users, dtype=np.uint64)
    return Graph.from_rows(array[:, 0], array[:, 1], keys, tasks)[0]


rows = st.lists(st.tuples(st.integers(0, 5), st.integers(0, TASKS - 1)), max_size=60)
sizes = hnp.arrays(np.float64, TASKS, elements=st.floats(1.0, 1e9))
exponents = st.floats(0.0, 1.0)


@st.composite
def allocations(draw: st.DrawFn) -> ap.Allocation:
    return draw(
        st.one_of(
            st.just(ap.UniformWeights()),
            st.builds(ap.AdaptiveWeights, exponents),
            st.builds(
                ap.AdaptiveWeights,
                exponents,
                mode=st.just("clip"),
                users=st.integers(2, 1000),
                concentration=st.floats(1e-3, 1e3),
            ),
            st.builds(ap.UniformSampling, st.integers(1, 10)),
            st.builds(ap.TailSampling, st.integers(1, 10)),
        )
    )


def spent(weights: UserWeights) -> dict[int, Fraction]:
    total: dict[int, Fraction] = defaultdict(Fraction)
    for user, value in zip(weights.user, weights.values, strict=True):
        total[int(user)] += Fraction(float(value)) ** 2
    return total


@given(rows, sizes, allocations(), st.integers(0, 2**64 - 1))
def test_no_user_ever_passes_its_budget(
    rows: list[tuple[int, int]],
    sizes: np.ndarray,
    allocation: ap.Allocation,
    key: int,
) -> None:
    # Rows repeat pairs; a user may be in one task or in all of them; tasks may be empty.
    weights = allocation.weigh(graph_of(rows), sizes, key)
    assert all(total <= 1 for total in spent(weights).values())


@given(rows, sizes, exponents)
def test_normalized_weights_are_proportional_to_a_power_of_size(
    rows: list[tuple[int, int]],
    sizes: np.ndarray,
    exponent: float,
) -> None:
    graph = graph_of(rows)
    weights = ap.AdaptiveWeights(exponent).weigh(graph, sizes, 0)
    for total in spent(weights).values():
        assert float(total) == pytest.approx(1.0, rel=1e-8)
    scale = weights.values * sizes[graph.task] ** exponent
    for user in np.unique(graph.user):
        np.testing.assert_allclose(
            scale[graph.user == user], scale[graph.user == user][0], rtol=1e-9
        )


def test_exponent_zero_is_uniform() -> None:
    graph = graph_of([(0, 0), (0, 1), (0, 2), (1, 3)])
    adaptive = ap.AdaptiveWeights(0.0).weigh(graph, np.arange(1.0, TASKS + 1), 0)
    uniform = ap.UniformWeights().weigh(graph, np.ones(TASKS), 0)
    np.testing.assert_allclose(adaptive.values, uniform.values)
    np.testing.assert_allclose(uniform.values, [1 / math.sqrt(3)] * 3 + [1.0], rtol=1e-8)


def test_clip_is_the_paper_s_formula() -> None:
    graph = graph_of([(0, 0), (1, 0), (1, 1), (1, 2), (2, 2)], tasks=3)
    sizes = graph.task_sizes()
    allocation = ap.AdaptiveWeights(0.5, mode="clip", users=3, concentration=2.0)
    omega = sizes**-0.5 / math.sqrt(np.sum(sizes**0.0) / (3 * 0.5))
    total = np.bincount(graph.user, weights=omega[graph.task] ** 2)
    expected = omega[graph.task] * np.minimum(1, 1 / np.sqrt(total))[graph.user]
    np.testing.assert_allclose(allocation.weigh(graph, sizes, 0).values, expected, rtol=1e-8)


def test_clip_uses_the_log_of_users_by_default() -> None:
    graph = graph_of([(0, 0), (1, 1)], tasks=2)
    by_default = ap.AdaptiveWeights(0.5, mode="clip", users=50).weigh(graph, np.ones(2), 0)
    given = ap.AdaptiveWeights(0.5, mode="clip", users=50, concentration=math.log(50))
    np.testing.assert_array_equal(by_default.values, given.weigh(graph, np.ones(2), 0).values)


def test_named_exponents() -> None:
    assert ap.AdaptiveWeights.for_convex().exponent == 0.25
    assert ap.AdaptiveWeights.for_strongly_convex().exponent == 0.5


def test_confidence_moves_a_user_s_weights_and_keeps_their_norm() -> None:
    user, task = np.array([0, 0, 2, 2, 2]), np.array([0, 3, 0, 1, 2])
    before = UserWeights(user, task, np.array([0.6, 0.8, 0.1, 0.2, 0.2]))
    confidence = np.array([1.0, 0.5, 0.25, 1.0, 0.5])
    after = emphasized(before, confidence)
    raised = before.values * confidence
    for one, norm in ((0, 1.0), (2, 0.3)):
        own = user == one
        expected = norm * raised[own] / np.linalg.norm(raised[own])
        np.testing.assert_allclose(after.values[own], expected, rtol=1e-8)
    np.testing.assert_array_equal(after.user, user)
    np.testing.assert_array_equal(after.task, task)
    assert np.bincount(user, after.values**2).max() <= 1


@pytest.mark.parametrize(
    "settings",
    [
        {"exponent": -0.1},
        {"exponent": 1.1},
        {"exponent": math.nan},
        {"mode": "other"},
        {"mode": "clip"},
        {"mode": "clip", "users": 1},
        {"concentration": 0.0},
    ],
)
def test_bad_settings(settings: dict[str, object]) -> None:
    with pytest.raises(ap.ParameterError):
        ap.AdaptiveWeights(**settings)
