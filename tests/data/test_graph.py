"""The graph's sampling: uniform, stable, each user by itself."""

import numpy as np

from tests.allocation.test_weights import graph_of

GRAPH = graph_of([(0, 3), (0, 1), (0, 1), (2, 0), (2, 2), (2, 7)])


def test_pairs_are_sorted_and_distinct() -> None:
    assert list(zip(GRAPH.user.tolist(), GRAPH.task.tolist(), strict=True)) == [
        (0, 1), (0, 3), (2, 0), (2, 2), (2, 7),
    ]  # fmt: skip
    assert GRAPH.users == 3


def test_rank_within_user() -> None:
    values = np.array([5.0, 4.0, 9.0, 7.0, 8.0])
    np.testing.assert_array_equal(GRAPH.rank_within_user(values), [1, 0, 2, 0, 1])
    ties = np.array([1.0, 1.0, 2.0, 2.0, 1.0])
    np.testing.assert_array_equal(GRAPH.rank_within_user(ties, values), [1, 0, 2, 1, 0])


def test_scores_are_spread_evenly_over_keys() -> None:
    scores = np.array([GRAPH.scores(key) for key in range(4000)]) / 2.0**64
    np.testing.assert_allclose(scores.mean(axis=0), 0.5, atol=5.5 * np.sqrt(1 / 12 / 4000))
    correlation = np.corrcoef(scores.T)[np.triu_indices(5, 1)]
    assert np.abs(correlation).max() < 5.5 / np.sqrt(4000)
