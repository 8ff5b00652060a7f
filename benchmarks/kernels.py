"""Speed of the processor engine's inner loops, as ratios to a peer in alternating rounds of the same run.

NUMBA_NUM_THREADS=2 python -m benchmarks.kernels

The fastest round counts, in CPU seconds divided by the number of threads: other processes on the machine
then matter least.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import scipy.sparse
from implicit.cpu.topk import topk
from numba import get_num_threads, njit
from threadpoolctl import threadpool_limits

import apportion as ap
from apportion.engine import CpuEngine, Session, queries
from apportion.engine.cpu.gram import TILE, add_upper, aligned
from apportion.engine.cpu.topk import top
from apportion.engine.cpu.users import _solve_exactly, solve_users
from apportion.privacy import UserBound

USERS, ITEMS, ROWS = 136_677, 20_108, 10_000_000
TOP_USERS = 10_000
SIZES = (32, 64, 128)


def fastest(*works: Callable[[], object], rounds: int = 5) -> list[float]:
    """Seconds of each, after one round to warm up."""
    best = [np.inf] * len(works)
    for number in range(rounds + 1):
        for place, work in enumerate(works):
            start = time.process_time()
            work()
            if number:
                best[place] = min(best[place], (time.process_time() - start) / get_num_threads())
    return best


@njit  # type: ignore[untyped-decorator]
def _repeat(tile: np.ndarray, total: np.ndarray, times: int) -> None:
    for _ in range(times):
        add_upper(tile, tile, len(tile), total)


def gram() -> None:
    """One thread: GFLOP/s of one triangle, and of a matrix product of NumPy's."""
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        square = rng.normal(size=(768, 768)).astype(dtype)
        for d in SIZES:
            tile, total = aligned((TILE, d), dtype), aligned((d, d), dtype)
            tile[:] = rng.normal(size=tile.shape)
            times = 10**9 // (TILE * d * (d + 1))
            work = [
                partial(_repeat, tile, total, times),
                partial(np.matmul, square, square),
            ]
            with threadpool_limits(1):
                ours, peer = fastest(*work, rounds=9)
            # CPU seconds were divided by the threads, of which there was one.
            rate = times * TILE * d * (d + 1) / ours / get_num_threads() / 1e9
            limit = 2 * len(square) ** 3 / peer / get_num_threads() / 1e9
            print(
                f"Gram, {np.dtype(dtype).name}, d = {d}: {rate:.0f} GFLOP/s (half counted), "
                f"{rate / limit:.2f} x those of NumPy's product ({limit:.0f})"
            )


def sweeps() -> None:
    """User step, statistics and moments of data of MovieLens-20M's shape."""
    data = ap.simulate_interactions(users=USERS, items=ITEMS, rows=ROWS, rating_range=None)
    rng = np.random.default_rng(0)
    start, item = data.by_user.start, data.by_user.other
    label = np.ones(len(item))
    few = np.arange(0, len(start) - 1, 50)
    for d in SIZES:
        items = rng.normal(size=(ITEMS, d)) / np.sqrt(d)
        for feedback in ("explicit", "implicit"):
            implicit = feedback == "implicit"
            ridge = np.full(len(start) - 1, 5.0) if implicit else 0.1 * np.diff(start)
            shared = 0.01 * items.T @ items if implicit else np.zeros((d, d))
            system = (start, item, label, items, ridge, shared)
            vectors = np.zeros((len(start) - 1, d))
            ours, plain = fastest(
                partial(solve_users, *system),
                partial(_solve_exactly, few, *system, vectors),
                rounds=3,
            )
            plain *= len(item) / np.diff(start)[few].sum()
            print(
                f"user step, {feedback}, d = {d}: {ours:.2f} s, {ours / plain:.3f} x plain float64"
            )
        features = rng.normal(size=(USERS, d))
        grids = UserBound(1.0, "A").grid(1.0), UserBound(1.0, "b").grid(1.0)
        session = CpuEngine().load(replace(data.rows(), features=features))
        session.weigh(ap.UniformWeights().rule(ITEMS, None, 0, lambda: data.graph))
        session.bound_features(1.0)
        right = queries.RightHandSides(1.0, 1.0)
        by_item = data.by_item
        matrix = scipy.sparse.csr_matrix(
            (np.ones(len(item)), by_item.other, by_item.start), shape=(ITEMS, USERS)
        )
        X = rng.normal(size=(2**11, d))

        def products(X: np.ndarray = X) -> None:
            with threadpool_limits(1):  # threads that wait for each other would count
                for _ in range(ROWS // len(X) // 20):
                    X.T @ X

        summed, multiplied, moments, sparse = fastest(
            partial(sums, session, queries.Statistics(right), grids),
            products,
            partial(sums, session, right, grids[1:]),
            partial(matrix.dot, features),
            rounds=3,
        )
        print(
            f"A and b, d = {d}: {summed:.2f} s, {summed / multiplied / 20:.2f} x NumPy's X'X "
            f"of as many rows that lie in order"
        )
        print(
            f"b alone, d = {d}: {moments:.3f} s, {moments / sparse:.2f} x the CPU time of SciPy's "
            f"sparse product"
        )


def sums(session: Session, query: queries.Query, grids: tuple[float, ...]) -> None:
    """All blocks, one after the other."""
    for _ in session.sums(query, grids):
        pass


def best_items() -> None:
    """The 20 best of all items for some users, less their histories."""
    rows = 70 * TOP_USERS
    data = ap.simulate_interactions(users=TOP_USERS, items=ITEMS, rows=rows, rating_range=None)
    start, item = data.by_user.start, data.by_user.other
    history = scipy.sparse.csr_matrix(
        (np.ones(len(item), np.float32), item, start), shape=(len(start) - 1, ITEMS)
    )
    rng = np.random.default_rng(0)
    for d in SIZES:
        users = rng.normal(size=(len(start) - 1, d)).astype(np.float32)
        items = rng.normal(size=(ITEMS, d)).astype(np.float32)

        def ours(users: np.ndarray = users, items: np.ndarray = items) -> None:
            for first in range(0, len(users), 800):
                scores = users[first : first + 800] @ items.T
                top(scores, 20, start[first : first + 801], item)

        def peer(users: np.ndarray = users, items: np.ndarray = items) -> None:
            topk(items, users, 20, filter_query_items=history, num_threads=get_num_threads())

        mine, its = fastest(ours, peer, rounds=3)
        print(
            f"20 best for {TOP_USERS:,} users, d = {d}: {mine:.2f} s, {mine / its:.2f} x implicit's topk"
        )


if __name__ == "__main__":
    gram()
    sweeps()
    best_items()
