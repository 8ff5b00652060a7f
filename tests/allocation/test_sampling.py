"""Uniform and tail sampling."""

import numpy as np
import pytest

import apportion as ap
from tests.allocation.test_weights import graph_of

GRAPH = graph_of([(user, task) for user in range(400) for task in range(8)] + [(400, 3)])
SIZES = np.array([50.0, 10, 40, 20, 30, 5, 60, 15])


@pytest.mark.parametrize("allocation", [ap.UniformSampling(3), ap.TailSampling(3)])
def test_k_tasks_of_every_user_get_one_over_root_k(allocation: ap.Allocation) -> None:
    weights = allocation.weigh(GRAPH, SIZES, key=1)
    chosen = weights.values > 0
    np.testing.assert_array_equal(np.bincount(GRAPH.user[chosen]), [3] * 400 + [1])
    np.testing.assert_allclose(weights.values[chosen], 1 / np.sqrt(3), rtol=1e-8)


def test_uniform_sampling_is_uniform_and_follows_its_key() -> None:
    first, second = (ap.UniformSampling(2).weigh(GRAPH, SIZES, key).values for key in (1, 2))
    assert not np.array_equal(first, second)
    picked = np.bincount(GRAPH.task[(first > 0) & (GRAPH.user < 400)], minlength=8)
    # Hypergeometric draws: 100 of 400 users per task, deviation sqrt(400 * 1/4 * 3/4) = 8.7.
    assert np.abs(picked - 100).max() < 5 * 8.7


def test_tail_sampling_takes_the_smallest_tasks() -> None:
    weights = ap.TailSampling(3).weigh(GRAPH, SIZES, key=1)
    kept = GRAPH.task[(weights.values > 0) & (GRAPH.user == 0)]
    assert set(kept) == {5, 1, 7}


def test_ties_are_broken_at_random_for_each_user() -> None:
    weights = ap.TailSampling(1).weigh(GRAPH, np.ones(8), key=1)
    picked = np.bincount(GRAPH.task[(weights.values > 0) & (GRAPH.user < 400)], minlength=8)
    assert picked.min() > 10


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "2"])
@pytest.mark.parametrize("kind", [ap.UniformSampling, ap.TailSampling])
def test_bad_k(kind: type[ap.UniformSampling], k: int) -> None:
    with pytest.raises(ap.ParameterError, match="k must be"):
        kind(k)
