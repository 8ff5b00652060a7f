"""Work on all cores: many small matrices in NumPy, blocks of many rows."""

import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from apportion.limits import processors

Array = NDArray[np.float64]
Result = TypeVar("Result")

# Fewer rows than this are not worth a thread, nor is less arithmetic.
_ROWS = 2**16
_OPERATIONS = 2**21


def thread_count() -> int:
    """How many threads work is shared out to: processors that this process, and its container, may use.

    ``APPORTION_NUM_THREADS`` sets another number.
    """
    asked = os.environ.get("APPORTION_NUM_THREADS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    own = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        own = len(os.sched_getaffinity(0))
    return max(1, min(own, _allowed() or own))


def in_threads(function: Callable[..., Array], *stacks: Array) -> Array:
    """``function(*stacks)``, for blocks of the first axis side by side, concatenated.

    NumPy works through a stack of matrices one by one, and BLAS would share out each of them among
    threads, which for small ones takes many times longer than the work itself. So BLAS gets one thread,
    and the blocks of the stack get one each.
    """
    threads = min(thread_count(), len(stacks[0]))
    with _ONE_BLAS_THREAD:
        if threads < 2:
            return function(*stacks)
        edges = np.linspace(0, len(stacks[0]), threads + 1).astype(int)
        blocks: list[Any] = [
            [stack[first:stop] for stack in stacks] for first, stop in itertools.pairwise(edges)
        ]
        with ThreadPoolExecutor(threads) as pool:
            return np.concatenate(list(pool.map(lambda block: function(*block), blocks)))


def threads_for(operations: float) -> int:
    """How many threads are worth their while."""
    return int(max(1, min(thread_count(), operations // _OPERATIONS)))


def row_blocks(rows: int) -> list[slice]:
    """The rows in as many blocks as there are threads; at least one block, which may be empty."""
    blocks = max(1, min(thread_count(), rows // _ROWS))
    edges = [rows * block // blocks for block in range(blocks + 1)]
    return [slice(first, stop) for first, stop in itertools.pairwise(edges)]


def side_by_side(function: Callable[..., Result], *arguments: Iterable[Any]) -> list[Result]:
    """``list(map(function, *arguments))``, in threads; for functions that release Python's lock."""
    calls = list(zip(*arguments, strict=True))
    if len(calls) == 1:
        return [function(*calls[0])]
    with ThreadPoolExecutor(thread_count()) as pool:
        return list(pool.map(lambda call: function(*call), calls))


def share_out(function: Callable[..., Result], *arguments: Sequence[Any]) -> list[Result]:
    """As ``side_by_side``, for many short calls: each thread does several. Results in any order."""
    threads = max(1, min(thread_count(), len(arguments[0])))
    some = [[each[first::threads] for each in arguments] for first in range(threads)]
    found = side_by_side(lambda own: [function(*call) for call in zip(*own, strict=True)], some)
    return [result for results in found for result in results]


def extremes(pieces: Sequence[NDArray[Any]]) -> tuple[Any, Any]:
    """The least and the greatest of the numbers in some arrays; NaN if there is one."""
    found = np.array(
        share_out(lambda piece: (piece.min(), piece.max()), [each for each in pieces if len(each)])
    )
    return found[:, 0].min(), found[:, 1].max()


class _OneBlasThread:
    """While anybody is inside, BLAS has one thread; the last one out restores what was before.

    Each caller restoring what it had found would leave one thread for good: the second finds the first's.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.restore_original_limits()


_ONE_BLAS_THREAD = _OneBlasThread()


@cache
def _allowed() -> int | None:
    return processors()


@cache
def _controller() -> ThreadpoolController:
    # Finding the libraries takes milliseconds, so once is enough.
    return ThreadpoolController()
