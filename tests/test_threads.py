"""Stacks of small matrices, block by block."""

import numba
import numpy as np
import pytest
from threadpoolctl import threadpool_info

from apportion.threads import in_threads


@pytest.mark.parametrize("tasks", [0, 1, 2, 7])
@pytest.mark.parametrize("threads", [1, 2])
def test_blocks_come_together_again(tasks: int, threads: int) -> None:
    rng = np.random.default_rng(0)
    A, b = rng.normal(size=(tasks, 3, 3)), rng.normal(size=(tasks, 3, 1))
    before = numba.get_num_threads()
    numba.set_num_threads(min(threads, before))
    try:
        solved = in_threads(np.linalg.solve, A, b)
    finally:
        numba.set_num_threads(before)
    np.testing.assert_array_equal(solved, np.linalg.solve(A, b))


def test_blas_is_limited_inside_and_not_after() -> None:
    def threads() -> set[int]:
        return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}

    before, inside = threads(), []

    def look(stack: np.ndarray) -> np.ndarray:
        inside.append(threads())
        return stack

    in_threads(look, np.zeros((4, 1)))
    assert set().union(*inside) == {1}
    assert threads() == before


def test_errors_come_through() -> None:
    with pytest.raises(np.linalg.LinAlgError):
        in_threads(np.linalg.solve, np.zeros((4, 2, 2)), np.zeros((4, 2, 1)))
