"""The best columns and scores, compiled and in NumPy, from any number of threads."""

from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import pytest

from apportion.engine import topk
from apportion.native import kernels
from tests.machines import nothing_compiled
from tests.threads import this_many_threads


@pytest.fixture(params=["compiled", "twin"], autouse=True)
def kind(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "compiled" and kernels is None:
        pytest.skip("no compiled kernels")
    with nothing_compiled() if request.param == "twin" else nullcontext():
        yield


RNG = np.random.default_rng(5)
SCORES = RNG.normal(size=(7, 40)).astype(np.float32)
START = np.array([0, 0, 3, 6, 6, 46, 50, 51])  # the fifth user has seen everything
SKIP = np.concatenate([RNG.integers(0, 40, 6), np.arange(40), RNG.integers(0, 40, 5)])


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("k", [1, 5, 40])
def test_the_best_that_are_not_skipped(k: int, threads: int) -> None:
    with this_many_threads(threads):
        places, best = topk.top(SCORES, k, START, SKIP)
    assert places.shape == best.shape == (7, k)
    for row in range(7):
        left = np.setdiff1d(np.arange(40), SKIP[START[row] : START[row + 1]])
        expected = left[np.argsort(-SCORES[row, left], kind="stable")][:k]
        np.testing.assert_array_equal(places[row, : len(expected)], expected)
        np.testing.assert_array_equal(best[row, : len(expected)], SCORES[row, expected])
        assert (places[row, len(expected) :] == -1).all()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_scores_are_products_and_the_same_for_a_user_alone(threads: int) -> None:
    vectors, items = RNG.normal(size=(9, 17)), RNG.normal(size=(30, 17))
    with this_many_threads(threads):
        scores = topk.ItemScores(items)  # of any type
        found = scores.of(vectors)
        alone = [scores.of(vector[None])[0] for vector in vectors]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, vectors @ items.T, atol=1e-4)
    np.testing.assert_array_equal(found, alone)


def test_any_layout() -> None:
    expected = topk.top(SCORES, 3, START, SKIP)
    wide = np.repeat(SCORES.astype(np.float64), 2, axis=1)[:, ::2]
    found = topk.top(np.asfortranarray(wide), 3, START.astype(np.int32), SKIP.astype(np.int32))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
