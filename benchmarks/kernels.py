"""Speed of the processor engine's inner loops, as ratios to a peer in alternating rounds of the same run.

APPORTION_NUM_THREADS=2 python -m benchmarks.kernels

The fastest round counts, in CPU seconds divided by the number of threads: other processes on the machine
then matter least.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from implicit.cpu.topk import topk
from threadpoolctl import threadpool_limits

import apportion as ap
from apportion.engine import CpuEngine, Session, queries
from apportion.engine.topk import top
from apportion.engine.users import UserSolver
from apportion.privacy import UserBound
from apportion.threads import thread_count
from apportion.twins import users as twin


@dataclass(frozen=True)
class Scale:
    """How much is computed; by default of MovieLens-20M's shape."""

    users: int = 136_677
    items: int = 20_108
    rows: int = 10_000_000
    top_users: int = 10_000
    sizes: tuple[int, ...] = (32, 64, 128)


FULL = Scale()


def fastest(*works: Callable[[], object], rounds: int = 5) -> list[float]:
    """Seconds of each, after one round to warm up."""
    best = [np.inf] * len(works)
    for number in range(rounds + 1):
        for place, work in enumerate(works):
            start = time.process_time()
            work()
            if number:
                best[place] = min(best[place], (time.process_time() - start) / thread_count())
    return best


def solve(start: Any, item: Any, label: Any, items: Any, ridge: Any, shared: Any) -> None:
    UserSolver(items, shared).solve(start, item, label, ridge)


def sweeps(scale: Scale = FULL) -> None:
    """User step, statistics and moments."""
    users, catalog, rows = scale.users, scale.items, scale.rows
    data = ap.simulate_interactions(users=users, items=catalog, rows=rows, rating_range=None)
    rng = np.random.default_rng(0)
    start, item = data.by_user.start, data.by_user.other
    label = np.ones(len(item))
    few = np.arange(0, len(start) - 1, 500)  # NumPy takes the time of many
    some = np.concatenate([[0], np.cumsum(np.diff(start)[few])])
    own = np.concatenate([np.arange(start[user], start[user + 1]) for user in few])
    for d in scale.sizes:
        items = rng.normal(size=(catalog, d)) / np.sqrt(d)
        for feedback in ("explicit", "implicit"):
            implicit = feedback == "implicit"
            ridge = np.full(len(start) - 1, 5.0) if implicit else 0.1 * np.diff(start)
            shared = 0.01 * items.T @ items if implicit else np.zeros((d, d))
            system = (start, item, label, items, ridge, shared)
            slowly = (some, item[own], label[own], items, ridge[few], shared)
            ours, plain = fastest(
                partial(solve, *system),
                partial(in_one_thread, twin.solve_users, *slowly),
                rounds=3,
            )
            plain *= len(item) / np.diff(start)[few].sum()
            print(f"user step, {feedback}, d = {d}: {ours:.2f} s, {ours / plain:.3f} x NumPy's")
        features = rng.normal(size=(users, d))
        grids = UserBound(1.0, "A").grid(1.0), UserBound(1.0, "b").grid(1.0)
        session = CpuEngine().load(replace(data.rows(), features=features))
        session.weigh(ap.UniformWeights().rule(catalog, None, 0, lambda: data.graph))
        session.bound_features(1.0)
        right = queries.RightHandSides(1.0, 1.0)
        by_item = data.by_item
        matrix = scipy.sparse.csr_matrix(
            (np.ones(len(item)), by_item.other, by_item.start), shape=(catalog, users)
        )
        X = rng.normal(size=(2**11, d))

        def products(X: np.ndarray = X) -> None:
            with threadpool_limits(1):  # threads that wait for each other would count
                for _ in range(rows // len(X) // 20):
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


def in_one_thread(work: Callable[..., object], *arguments: object) -> None:
    """Threads that wait for each other would count."""
    with threadpool_limits(1):
        work(*arguments)


def sums(session: Session, query: queries.Query, grids: tuple[float, ...]) -> None:
    """All blocks, one after the other."""
    for _ in session.sums(query, grids):
        pass


def best_items(scale: Scale = FULL) -> None:
    """The 20 best of all items for some users, less their histories."""
    people, catalog = scale.top_users, scale.items
    data = ap.simulate_interactions(
        users=people, items=catalog, rows=70 * people, rating_range=None
    )
    start, item = data.by_user.start, data.by_user.other
    history = scipy.sparse.csr_matrix(
        (np.ones(len(item), np.float32), item, start), shape=(len(start) - 1, catalog)
    )
    rng = np.random.default_rng(0)
    for d in scale.sizes:
        users = rng.normal(size=(len(start) - 1, d)).astype(np.float32)
        items = rng.normal(size=(catalog, d)).astype(np.float32)

        def ours(users: np.ndarray = users, items: np.ndarray = items) -> None:
            for first in range(0, len(users), 800):
                scores = users[first : first + 800] @ items.T
                top(scores, 20, start[first : first + 801], item)

        def peer(users: np.ndarray = users, items: np.ndarray = items) -> None:
            topk(items, users, 20, filter_query_items=history, num_threads=thread_count())

        mine, its = fastest(ours, peer, rounds=3)
        print(
            f"20 best for {people:,} users, d = {d}: {mine:.2f} s, {mine / its:.2f} x implicit's topk"
        )


if __name__ == "__main__":
    sweeps()
    best_items()
