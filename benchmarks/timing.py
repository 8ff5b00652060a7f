"""Timing for the benchmarks: the fastest of a few runs, after one to warm up."""

import time
from collections.abc import Callable


def seconds(work: Callable[[], object], repeat: int = 3) -> float:
    work()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
