"""One full-batch step of gradient descent against reading the features once, in the same run.

python -m benchmarks.descent
"""

import argparse
from typing import Any

import numpy as np

from apportion.engine import CpuEngine, TaskRows, UserRows
from apportion.privacy.bounds import row_norms
from apportion.tasks.losses import LOSSES
from benchmarks.timing import seconds

GRID = 2.0**-40  # what every part of a sum is a multiple of, as in a release


def main(rows: int, dimension: int, tasks: int, per_user: int) -> None:
    rng = np.random.default_rng(0)
    share = 1 / (np.arange(tasks) + 20.0)  # long-tailed task sizes
    task = rng.choice(tasks, rows, p=share / share.sum())
    user = np.arange(rows) // per_user
    features = rng.standard_normal((rows, dimension))
    label, weight = rng.choice([-1.0, 1.0], rows), rng.random(rows)
    vector, coef = rng.normal(size=dimension), 0.1 * rng.normal(size=(tasks, dimension))
    read = seconds(lambda: features @ vector, repeat=5)
    print(f"{rows:,} rows of {dimension}: reading the features once (BLAS gemv) {read:.3f} s")

    by_task = np.argsort(task, kind="stable")
    orders: dict[str, tuple[str, Any, Any]] = {
        "rows clipped": ("row_clipped_gradient", TaskRows, by_task),
        "users clipped": ("user_clipped_gradient", UserRows, np.lexsort((task, user))),
    }
    for name, (method, kind, order) in orders.items():
        # The examples lie in memory in the order in which they are used, as the pass over them does.
        example = (features[order], np.arange(rows), label[order], weight[order])
        sorted_rows = kind.sort(*example, user[order], task[order], tasks)
        norms = row_norms(example[0])
        del example
        for loss in ("squared", "logistic"):
            derivative = LOSSES[loss]().compiled
            step = getattr(CpuEngine(), method)
            time = seconds(lambda: step(sorted_rows, norms, coef, derivative, 1.0, GRID), repeat=5)  # noqa: B023
            print(f"  {name}, {loss}: {time:.3f} s, {time / read:.2f} x reading")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--dimension", type=int, default=32)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--per-user", type=int, default=50)
    main(**vars(parser.parse_args()))
