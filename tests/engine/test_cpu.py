"""The processor engine, against plain NumPy."""

import numpy as np
import pytest

from apportion.engine import CpuEngine, TaskRows, UserRows
from apportion.privacy import unpack
from apportion.privacy.bounds import row_norms
from apportion.tasks.losses import logistic
from tests.threads import this_many_threads

RNG = np.random.default_rng(0)
TASKS, ROWS, D = 9, 300, 4
FEATURES = RNG.normal(size=(50, D))
FEATURE_ROW = RNG.integers(0, 50, ROWS)
LABEL, WEIGHT = RNG.normal(size=ROWS), RNG.random(ROWS)
TASK = RNG.integers(0, TASKS - 1, ROWS)  # the last task is empty
WEIGHT[::7] = 0.0
USER = RNG.integers(0, 60, ROWS)
SORTED = TaskRows.sort(FEATURES, FEATURE_ROW, LABEL, WEIGHT, USER, TASK, TASKS)


def test_statistics_of_a_block() -> None:
    second, first = CpuEngine().statistics(SORTED, 2, TASKS)
    for task in range(2, TASKS):
        mine = task == TASK
        X = FEATURES[FEATURE_ROW[mine]]
        np.testing.assert_allclose(
            unpack(second, D)[task - 2], X.T @ (WEIGHT[mine, None] * X), atol=1e-12
        )
        np.testing.assert_allclose(first[task - 2], X.T @ (WEIGHT[mine] * LABEL[mine]), atol=1e-12)


def test_rows_of_weight_zero_are_dropped() -> None:
    assert len(SORTED.weight) == np.count_nonzero(WEIGHT)
    assert SORTED.tasks == TASKS


def test_results_do_not_depend_on_blocks() -> None:
    whole = CpuEngine().statistics(SORTED, 0, TASKS)
    parts = [CpuEngine().statistics(SORTED, task, task + 1) for task in range(TASKS)]
    for number in range(2):
        np.testing.assert_array_equal(
            np.concatenate([part[number] for part in parts]), whole[number]
        )


COEF = RNG.normal(size=(TASKS, D))
LOSS = logistic()
NORMS = row_norms(FEATURES)


def gradients() -> np.ndarray:
    """Each row's unweighted gradient, [rows, d]."""
    X = FEATURES[FEATURE_ROW]
    slope = [
        LOSS.derivative(z, y) for z, y in zip((X * COEF[TASK]).sum(axis=1), LABEL, strict=True)
    ]
    return np.array(slope)[:, None] * X


def test_row_clipped_gradient() -> None:
    g = gradients()
    bound = float(np.median(np.linalg.norm(g, axis=1)))
    g *= np.minimum(1, bound / np.linalg.norm(g, axis=1))[:, None]
    expected = np.zeros((TASKS, D))
    np.add.at(expected, TASK, WEIGHT[:, None] * g)
    found = CpuEngine().row_clipped_gradient(SORTED, NORMS, COEF, LOSS.compiled, bound, 0.0)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_user_clipped_gradient() -> None:
    rows = UserRows.sort(FEATURES, FEATURE_ROW, LABEL, WEIGHT, USER, TASK, TASKS)
    g = WEIGHT[:, None] * gradients()
    in_task = np.zeros((60, TASKS))
    np.add.at(in_task, (USER, TASK), np.linalg.norm(g, axis=1))
    norm = np.linalg.norm(in_task, axis=1)
    bound = float(np.median(norm))
    g *= np.minimum(1, bound / np.maximum(norm, 1e-300))[USER, None]
    expected = np.zeros((TASKS, D))
    np.add.at(expected, TASK, g)
    found = CpuEngine().user_clipped_gradient(rows, NORMS, COEF, LOSS.compiled, bound, 0.0)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_user_s_rows_stay_together_even_across_threads() -> None:
    rows = UserRows.sort(FEATURES, FEATURE_ROW, LABEL, WEIGHT, np.zeros(ROWS, int), TASK, TASKS)
    with this_many_threads(3):
        found = CpuEngine().user_clipped_gradient(rows, NORMS, COEF, LOSS.compiled, 1e-3, 0.0)
    assert np.linalg.norm(found) <= 1e-3 * (1 + 1e-12)


def test_gradients_and_the_best_are_the_same_from_any_number_of_threads() -> None:
    grid, rng = 2.0**-20, np.random.default_rng(5)
    by_user = UserRows.sort(FEATURES, FEATURE_ROW, LABEL, WEIGHT, USER, TASK, TASKS)
    scores = rng.normal(size=(7, 40)).astype(np.float32)
    start, skip = np.arange(8) * 3, rng.integers(0, 40, 21)

    def found() -> list[np.ndarray]:
        engine, settings = CpuEngine(), (NORMS, COEF, LOSS.compiled, 0.3, grid)
        return [
            engine.row_clipped_gradient(SORTED, *settings),
            engine.user_clipped_gradient(by_user, *settings),
            *engine.top(scores, 5, start, skip),
        ]

    usual = found()
    for threads in (2, 5):
        with this_many_threads(threads):
            for one, expected in zip(found(), usual, strict=True):
                np.testing.assert_array_equal(one, expected)


@pytest.mark.parametrize("grid", [2.0**-10, 2.0**-30])
def test_gradients_on_a_grid(grid: float) -> None:
    # Every row's part is rounded towards zero by itself; sums of such parts are exact.
    g = gradients()
    bound = float(np.median(np.linalg.norm(g, axis=1))) * (1 - 1e-9)
    g *= np.minimum(1, bound / np.linalg.norm(g, axis=1))[:, None]
    expected = np.zeros((TASKS, D))
    np.add.at(expected, TASK, np.trunc(WEIGHT[:, None] * g / grid) * grid)
    found = CpuEngine().row_clipped_gradient(SORTED, NORMS, COEF, LOSS.compiled, bound, grid)
    # A number next to a multiple may go to either side of it.
    assert (np.abs(found - expected) > grid / 2).mean() < 0.1
    np.testing.assert_allclose(found, expected, atol=2 * grid)
    np.testing.assert_array_equal(np.rint(found / grid), found / grid)
    rows = UserRows.sort(FEATURES, FEATURE_ROW, LABEL, WEIGHT, USER, TASK, TASKS)
    exact = CpuEngine().user_clipped_gradient(rows, NORMS, COEF, LOSS.compiled, bound, 0.0)
    found = CpuEngine().user_clipped_gradient(rows, NORMS, COEF, LOSS.compiled, bound, grid)
    np.testing.assert_array_equal(np.rint(found / grid), found / grid)
    np.testing.assert_allclose(found, exact, atol=ROWS * grid)
    assert (found != exact).any()
