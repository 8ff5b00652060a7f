"""Private counts: close to the truth, floored, over-estimated, paid for."""

import math

import numpy as np
import pytest
from scipy import stats

import apportion as ap
from apportion.allocation.counts import COUNTS
from apportion.data import Graph
from apportion.data.rows import Rows
from apportion.engine import Session, find_engine
from apportion.privacy import Curator, NoiseSource, PrivacyTarget
from tests.allocation.test_weights import graph_of


def everyone(users: int, tasks: int) -> Graph:
    return graph_of([(user, task) for user in range(users) for task in range(tasks)], tasks)


def session_of(graph: Graph) -> Session:
    """A session of users who have one row for each of these pairs."""
    start = np.concatenate([[0], np.cumsum(np.bincount(graph.user, minlength=graph.users))])
    rows = Rows(start, graph.task, np.arange(graph.tasks), graph.user_key)
    return find_engine("auto").load(rows)


def estimate(
    counts: ap.PrivateCounts, graph: Graph, epsilon: float = 1.0, seed: int = 0
) -> tuple[np.ndarray, Curator]:
    curator = Curator(PrivacyTarget(epsilon, 1e-5), NoiseSource.from_seed(seed))
    noisy = counts.release(session_of(graph), curator)
    return counts.for_weights(noisy, curator.ledger.noise_of(COUNTS)), curator


def test_cost_is_the_share() -> None:
    _, curator = estimate(ap.PrivateCounts(share=0.2, cap=9), everyone(10, 4))
    (record,) = curator.ledger
    assert record.mu**2 == pytest.approx(0.2 * curator.target.mu**2)
    assert record.sensitivity == pytest.approx(3.0)


@pytest.mark.parametrize("method", ["scale", "sample"])
def test_users_below_the_cap_are_counted_fully(method: str) -> None:
    counts = ap.PrivateCounts(share=0.99, cap=4, method=method)
    found, _ = estimate(counts, everyone(500, 4), epsilon=60.0)
    np.testing.assert_allclose(found, 500, atol=2)


def test_users_above_the_cap_are_scaled_or_sampled() -> None:
    scaled, _ = estimate(ap.PrivateCounts(share=0.99, cap=1), everyone(1000, 4), epsilon=60.0)
    np.testing.assert_allclose(scaled, 1000 * math.sqrt(1 / 4), atol=2)
    sampled, _ = estimate(
        ap.PrivateCounts(share=0.99, cap=1, method="sample"), everyone(1000, 4), epsilon=60.0
    )
    assert sampled.sum() == pytest.approx(1000, abs=4)
    # Each of four tasks is a binomial of mean 250 and deviation 14.
    np.testing.assert_allclose(sampled, 250, atol=5.5 * 14)


def test_small_counts_are_raised_to_the_noise_level() -> None:
    empty = Graph(np.zeros(0, int), np.zeros(0, int), np.zeros(0, np.uint64), 5000)
    found, curator = estimate(ap.PrivateCounts(floor=2.0), empty)
    (record,) = curator.ledger
    assert found.min() == pytest.approx(2 * record.noise_scale)
    assert (found == found.min()).mean() == pytest.approx(stats.norm.cdf(2), abs=0.02)
    unfloored, _ = estimate(ap.PrivateCounts(floor=0.0), empty)
    assert unfloored.min() == 1.0


def test_over_estimates_are_above_the_truth_together() -> None:
    graph = everyone(3, 40)
    for seed in range(30):
        found, _ = estimate(ap.PrivateCounts(over_estimate=True, floor=0.0), graph, seed=seed)
        plain, _ = estimate(ap.PrivateCounts(floor=0.0), graph, seed=seed)
        assert (found >= 3).all()
        assert (found >= plain).all()


def test_public_counts_are_free_and_checked() -> None:
    graph = everyone(7, 3)
    curator = Curator(PrivacyTarget(1.0, 1e-5), NoiseSource())
    np.testing.assert_array_equal(ap.PublicCounts().release(session_of(graph), curator), [7.0] * 3)
    np.testing.assert_array_equal(
        ap.PublicCounts([0, 5, 9]).release(session_of(graph), curator), [1.0, 5.0, 9.0]
    )
    assert len(curator.ledger) == 0
    with pytest.raises(ap.ParameterError, match="one per task"):
        ap.PublicCounts([1.0, 2.0]).release(session_of(graph), curator)
    for bad in ([1.0, math.nan], [-1.0], ["a"], 3, "abc"):
        with pytest.raises(ap.ParameterError, match="public count"):
            ap.PublicCounts(bad)


@pytest.mark.parametrize(
    "settings",
    [
        {"share": 0.0},
        {"share": 1.0},
        {"share": math.nan},
        {"cap": 0},
        {"method": "x"},
        {"floor": -1.0},
    ],
)
def test_bad_settings(settings: dict[str, object]) -> None:
    with pytest.raises(ap.ParameterError):
        ap.PrivateCounts(**settings)
