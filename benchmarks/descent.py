"""One full-batch step of gradient descent against reading the features once, in the same run.

python -m benchmarks.descent
"""

import argparse
import itertools
from typing import get_args

import numpy as np

import apportion as ap
from apportion.data.rows import Rows
from apportion.engine import CpuEngine, queries
from apportion.privacy import UserBound
from apportion.tasks.losses import LOSSES
from benchmarks.timing import seconds

GRID = UserBound(1.0, "a gradient").grid(1.0)


def main(rows: int, dimension: int, tasks: int, per_user: int) -> None:
    rng = np.random.default_rng(0)
    share = 1 / (np.arange(tasks) + 20.0)  # long-tailed task sizes
    task = rng.choice(tasks, rows, p=share / share.sum())
    user = np.arange(rows) // per_user
    features = rng.standard_normal((rows, dimension))
    label = rng.choice([-1.0, 1.0], rows)
    vector, coef = rng.normal(size=dimension), 0.1 * rng.normal(size=(tasks, dimension))
    read = seconds(lambda: features @ vector, repeat=5)
    print(f"{rows:,} rows of {dimension}: reading the features once (BLAS gemv) {read:.3f} s")

    by_user = np.lexsort((task, user))
    start = np.searchsorted(user, np.arange(user[-1] + 2))
    data = Rows(
        start, task[by_user], np.arange(tasks), np.arange(len(start) - 1, dtype=np.uint64), label,
        features, np.arange(rows),
    )  # fmt: skip
    session = CpuEngine().load(data)
    session.weigh(ap.UniformWeights().rule(tasks, None, 0, lambda: data.graph()[0]))
    session.bound_features(1.0, whole=False)
    for clip, loss in itertools.product(get_args(queries.Clip), ("squared", "logistic")):
        query = queries.Gradients(coef, LOSSES[loss](), 1.0, 1.0, clip=clip)
        time = seconds(lambda: list(session.sums(query, (GRID,))), repeat=5)  # noqa: B023
        print(f"  {clip}s clipped, {loss}: {time:.3f} s, {time / read:.2f} x reading")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--dimension", type=int, default=32)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--per-user", type=int, default=50)
    main(**vars(parser.parse_args()))
