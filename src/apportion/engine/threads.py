"""Many small matrices in NumPy, on all cores."""

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

Array = NDArray[np.float64]


def in_threads(function: Callable[..., Array], *stacks: Array) -> Array:
    """``function(*stacks)``, for blocks of the first axis side by side, concatenated.

    NumPy works through a stack of matrices one by one, and BLAS would share out each of them among
    threads, which for small ones takes many times longer than the work itself. So BLAS gets one thread,
    and the blocks of the stack get one each.
    """
    threads = min(get_num_threads(), len(stacks[0]))
    with _controller().limit(limits=1, user_api="blas"):
        if threads < 2:
            return function(*stacks)
        edges = np.linspace(0, len(stacks[0]), threads + 1).astype(int)
        blocks: list[Any] = [
            [stack[first:stop] for stack in stacks] for first, stop in itertools.pairwise(edges)
        ]
        with ThreadPoolExecutor(threads) as pool:
            return np.concatenate(list(pool.map(lambda block: function(*block), blocks)))


@cache
def _controller() -> ThreadpoolController:
    # Finding the libraries takes milliseconds, so once is enough.
    return ThreadpoolController()
