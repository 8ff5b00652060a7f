"""The best columns are the twin's, to the bit; scores are the same whoever else is asked for."""

from typing import Any

import numpy as np
import pytest

from apportion.native import kernels
from apportion.twins import topk as twin
from tests.native.test_solves import by_isa

compiled = pytest.mark.skipif(kernels is None, reason="no compiled kernels")
# Around the columns that are compared at once, and those of a panel.
COLUMNS = [1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 500]


def rows_of(columns: int, rows: int = 6, seed: int = 0) -> tuple[Any, ...]:
    """Scores with ties, NaN and infinities; and what to leave out."""
    rng = np.random.default_rng(seed)
    scores = np.round(rng.normal(size=(rows, columns)), 1).astype(np.float32)
    for odd in (np.nan, np.inf, -np.inf, 0.0, -0.0):
        scores[rng.integers(rows, size=rows), rng.integers(columns, size=rows)] = odd
    scores[-1, 0] = np.nan
    scores[-2] = -np.arange(columns)
    start = 3 + np.sort(np.append(rng.integers(0, 2 * columns, rows), 2 * columns))
    return scores, start, rng.integers(columns, size=3 + 2 * columns + 5)


@compiled
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("k", [0, 1, 2, 5, 64, 600])
def test_the_best_columns(isa: str, columns: int, k: int) -> None:
    scores, start, skip = rows_of(columns)
    for threads in (1, 3):
        for mine, reference in zip(
            kernels.top(scores, k, start, skip, threads),
            twin.top(scores, k, start, skip, 1),
            strict=True,
        ):
            np.testing.assert_array_equal(mine, reference)
            assert mine.dtype == reference.dtype


@pytest.mark.parametrize("module", [kernels, twin] if kernels else [twin], ids=lambda m: m.__name__)
def test_ties_in_order_of_columns(module: Any) -> None:
    scores = np.array([[1, 3, 3, 2, 3, np.nan]], dtype=np.float32)
    places, best = module.top(scores, 6, np.array([0, 1]), np.array([2]), 1)
    assert places.tolist() == [[1, 4, 3, 0, -1, -1]]
    assert best.tolist() == [[3, 3, 2, 1, -np.inf, -np.inf]]


def scores_of(module: Any, vectors: Any, items: Any, threads: int = 1) -> Any:
    return module.score(vectors, module.turn_items(items, threads), len(items), threads)


@compiled
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 7, 8, 9, 63, 64, 65])
@pytest.mark.parametrize("columns", [1, 31, 32, 33, 100])
@pytest.mark.parametrize("d", [1, 2, 16, 33])
def test_scores(rows: int, columns: int, d: int) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(rows, d)).astype(np.float32)
    items = rng.normal(size=(columns, d)).astype(np.float32)
    each = by_isa(lambda: scores_of(kernels, vectors, items))
    for scores in each:
        np.testing.assert_array_equal(scores, each[0])
    np.testing.assert_allclose(each[0], scores_of(twin, vectors, items), atol=1e-4)
    # The definition: one chain of sums, each rounded once.
    chain = np.zeros((rows, columns))
    for k in range(d):
        exact = vectors[:, [k]].astype(np.longdouble) * items[:, k] + chain
        chain = exact.astype(np.float32).astype(np.longdouble)
    np.testing.assert_array_equal(each[0], chain.astype(np.float32))


@pytest.mark.parametrize("module", [kernels, twin] if kernels else [twin], ids=lambda m: m.__name__)
@pytest.mark.parametrize("d", [1, 3, 64, 65])
def test_a_user_alone_has_the_same_scores(module: Any, d: int) -> None:
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(70, d)).astype(np.float32)
    items = rng.normal(size=(300, d)).astype(np.float32)
    together = scores_of(module, vectors, items, 3)
    for row in range(70):
        np.testing.assert_array_equal(scores_of(module, vectors[[row]], items)[0], together[row])
    np.testing.assert_array_equal(scores_of(module, vectors, items[200:]), together[:, 200:])


@compiled
def test_wrong_calls_are_refused() -> None:
    scores, start, skip = rows_of(20)
    start[0], skip[10], skip[11] = 3, 0, 19
    panels = kernels.turn_items(scores, 1)  # 32 columns, of which one has 20
    for call in (
        lambda: kernels.top(scores, -1, start, skip, 1),
        lambda: kernels.top(scores, 2**62, start, skip, 1),
        lambda: kernels.top(scores, 1, start[1:], skip, 1),
        lambda: kernels.top(scores, 1, start - 4, skip, 1),
        lambda: kernels.top(scores, 1, start + 99, skip, 1),
        lambda: kernels.top(scores, 1, start[::-1].copy(), skip, 1),
        lambda: kernels.top(scores, 1, start, skip - 1, 1),
        lambda: kernels.top(scores, 1, start, skip + 1, 1),
        lambda: kernels.top(scores.T, 1, start, skip, 1),
        lambda: kernels.score(scores, panels[:, 1:].copy(), 20, 1),
        lambda: kernels.score(scores, panels, 33, 1),
        lambda: kernels.score(scores, panels, 0, 1),
        lambda: kernels.score(scores, panels, -1, 1),
        lambda: kernels.score(scores, panels, 20, 0),
        lambda: kernels.turn_items(scores, 0),
    ):  # fmt: skip
        with pytest.raises((ValueError, MemoryError)):
            call()
    with pytest.raises(TypeError):
        kernels.score(scores.astype(np.float64), panels, 20, 1)
