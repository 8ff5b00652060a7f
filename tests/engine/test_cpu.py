"""The processor engine, against plain NumPy."""

import numpy as np

from apportion.engine import CpuEngine, TaskRows
from apportion.privacy import unpack

RNG = np.random.default_rng(0)
TASKS, ROWS, D = 9, 300, 4
FEATURES = RNG.normal(size=(50, D))
FEATURE_ROW = RNG.integers(0, 50, ROWS)
LABEL, WEIGHT = RNG.normal(size=ROWS), RNG.random(ROWS)
TASK = RNG.integers(0, TASKS - 1, ROWS)  # the last task is empty
WEIGHT[::7] = 0.0
SORTED = TaskRows.sort(FEATURES, FEATURE_ROW, LABEL, WEIGHT, TASK, TASKS)


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
