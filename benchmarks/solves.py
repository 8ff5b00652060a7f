"""What follows the sums of per-item statistics: noise, projection, solution; in alternating rounds.

APPORTION_NUM_THREADS=2 python -m benchmarks.solves
APPORTION_NUM_THREADS=2 python -m benchmarks.solves --dimension 128 --systems 20108 --rounds 3
"""

import argparse
import resource
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from apportion.data.rows import Rows
from apportion.engine import queries
from apportion.engine.base import Block
from apportion.engine.reference import TwinKernels
from apportion.engine.session import LocalSession
from apportion.engine.solves import solve_filtered, solve_positive
from apportion.privacy import (
    Curator,
    NoiseSource,
    Part,
    PrivacyTarget,
    UserBound,
    packed_width,
)
from apportion.privacy.discrete import Scales
from apportion.tasks.penalty import Penalty
from apportion.tasks.statistics import solve_exact, solve_released
from apportion.threads import in_threads, thread_count
from apportion.twins import solves as twin

Array = np.ndarray[Any, np.dtype[np.float64]]


def main(dimensions: list[int], systems: int, rounds: int) -> None:
    for d in dimensions:
        print(f"{systems:,} systems of dimension {d}, {thread_count()} threads")
        item_step(d, systems, rounds)  # first, as the other's temporaries would hide its memory
        compare_solvers(d, min(systems, 2**25 // d**2), rounds, systems)


def compare_solvers(d: int, sample: int, rounds: int, systems: int) -> None:
    """On some of the systems, so that NumPy's temporaries fit; seconds are for all of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(sample, d // 2, d))
    gram = X.transpose(0, 2, 1) @ X
    packed = np.ascontiguousarray(gram[:, *np.triu_indices(d)])
    noise = 3 * np.sqrt(d)
    noisy, radius = packed + noise * rng.normal(size=packed.shape), noise * np.sqrt(2 * d)
    b, alpha = rng.normal(size=(sample, d)), np.ones(sample)
    regular = gram + np.eye(d)
    fastest(
        "  noisy",
        {
            "lanes": lambda: solve_filtered(noisy, b, alpha, radius),
            "lanes in float64": lambda: solve_filtered(noisy, b, alpha, 1e-3 * radius),
            "LAPACK": lambda: in_threads(partial(_by_lapack, ridge=radius), noisy, b, alpha),
        },
        rounds,
        systems / sample,
    )
    fastest(
        "  exact",
        {
            "lanes": lambda: solve_positive(packed, b, alpha),
            "LAPACK": lambda: in_threads(np.linalg.solve, regular, b[:, :, None]),
        },
        rounds,
        systems / sample,
    )


def item_step(d: int, systems: int, rounds: int) -> None:
    """Everything but the sums, which are there already."""
    session = _Sums(d, systems)
    query = queries.Statistics(queries.RightHandSides(1.0, 1.0))
    penalty = Penalty(np.ones(systems), np.ones(systems), np.eye(d))
    bound = UserBound(1.0, "a benchmark")
    parts = [Part("A", "", bound, width=d, symmetric=True), Part("b", "", bound, width=d)]
    numbers = systems * (packed_width(d) + d) / 1e6

    def step(epsilon: float) -> None:
        curator = Curator(PrivacyTarget(epsilon, 1e-6))
        release = curator.open("sweep", parts, systems, curator.ledger.affordable_mu())
        solve_released(session, query, release, penalty, 1.0)

    noise = NoiseSource()
    before = _peak()
    times = fastest(
        "  item step",
        {
            "epsilon 1": lambda: step(1.0),
            "no noise": lambda: solve_exact(session, penalty),
            "noise, 1 thread": lambda: _draw(noise, d, systems),
        },
        rounds,
    )
    print(
        f"    peak memory {_peak() - before:.0f} MB beyond what was used before; "
        f"{numbers / times['noise, 1 thread']:.0f} M draws a second in one thread"
    )


def fastest(
    title: str, works: dict[str, Callable[[], object]], rounds: int, scale: float = 1.0
) -> dict[str, float]:
    """Least wall seconds, and CPU seconds per thread, of alternating rounds."""
    best = dict.fromkeys(works, (np.inf, np.inf))
    for turn in range(rounds + 1):
        for name, work in works.items():
            start, cpu = time.perf_counter(), time.process_time()
            work()
            spent = time.perf_counter() - start, time.process_time() - cpu
            if turn:  # the first warms up
                best[name] = (min(best[name][0], spent[0]), min(best[name][1], spent[1]))
    first = next(iter(best.values()))
    for name, (wall, cpu) in best.items():
        print(
            f"{title}, {name}: {scale * wall:.3f} s ({scale * cpu / thread_count():.3f} CPU s a "
            f"thread), {wall / first[0]:.2f} x"
        )
    return {name: wall for name, (wall, _) in best.items()}


class _Sums(LocalSession):
    """Sums that cost nothing but the memory."""

    def __init__(self, dimension: int, systems: int) -> None:
        nobody = np.zeros(0, dtype=np.int64)
        super().__init__(
            Rows(np.zeros(1, np.int64), nobody, np.arange(systems), nobody.view(np.uint64)),
            TwinKernels(),
        )
        self._width = dimension

    def sums(self, query: queries.Query, grids: tuple[float, ...]) -> Iterator[Block]:
        del query
        return self._zeros(np.int64 if grids else np.float64)

    def exact_sums(self, query: queries.Query) -> Iterator[Block]:
        return self.sums(query, ())

    def _zeros(self, dtype: type) -> Iterator[Block]:
        block = max(256, 64 * 2**20 // (16 * packed_width(self._width)) // 256 * 256)
        for first in range(0, self.tasks, block):
            tasks = min(block, self.tasks - first)
            widths = packed_width(self._width), self._width
            yield first, tuple(np.zeros((tasks, width), dtype) for width in widths)


def _draw(noise: NoiseSource, d: int, systems: int) -> None:
    scales = Scales.of(np.full(packed_width(d) + d, 2.0**55))
    for first in range(0, systems, 256):
        for _ in noise.discrete_gaussian("A", 0, first, min(256, systems - first), scales):
            pass


def _by_lapack(packed: Array, b: Array, alpha: Array, ridge: float) -> Array:
    return twin.solve_filtered(packed, b, alpha, ridge, None, None)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dimension", type=int, nargs="+", default=[32, 64, 128])
    parser.add_argument("--systems", type=int, default=20_108)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    main(given.dimension, given.systems, given.rounds)
