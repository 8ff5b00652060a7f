"""Stacks of small matrices, block by block."""

from threading import Event, Thread

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from apportion.threads import in_threads, thread_count
from tests.threads import this_many_threads


@pytest.mark.parametrize("tasks", [0, 1, 2, 7])
@pytest.mark.parametrize("threads", [1, 2])
def test_blocks_come_together_again(tasks: int, threads: int) -> None:
    rng = np.random.default_rng(0)
    A, b = rng.normal(size=(tasks, 3, 3)), rng.normal(size=(tasks, 3, 1))
    with this_many_threads(threads):
        solved = in_threads(np.linalg.solve, A, b)
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


@pytest.mark.parametrize("text", ["", "0", "-1", "two", "1.5"])
def test_how_many_threads(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("APPORTION_NUM_THREADS", raising=False)
    usual = thread_count()
    assert usual >= 1
    monkeypatch.setenv("APPORTION_NUM_THREADS", text)  # which says nothing
    assert thread_count() == usual
    monkeypatch.setenv("APPORTION_NUM_THREADS", "7")
    assert thread_count() == 7


def test_blas_is_restored_after_calls_that_overlap() -> None:
    def blas() -> set[int]:
        return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}

    def start() -> tuple[Thread, Event]:
        inside, go_on = Event(), Event()

        def wait(stack: np.ndarray) -> np.ndarray:
            inside.set()
            go_on.wait(10)
            return stack

        thread = Thread(target=in_threads, args=(wait, np.zeros((1, 1))))
        thread.start()
        assert inside.wait(10)
        return thread, go_on

    two = threadpool_limits(2, "blas")  # no context: only that would keep other threads from it
    try:
        before = blas()
        # The second begins while the first is inside, and ends after it.
        for thread, go_on in [start(), start()]:
            go_on.set()
            thread.join()
        assert blas() == before
    finally:
        two.restore_original_limits()
