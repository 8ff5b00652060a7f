"""Speed of the foundation, each as a ratio to a peer measured in the same run.

python benchmarks/foundation.py
"""

import numpy as np

import apportion as ap
from apportion.allocation.optimal import solve_task_weights
from apportion.engine import CpuEngine, TaskRows
from apportion.privacy import NoiseSource
from benchmarks.timing import seconds


def noise() -> None:
    tasks, width = 20_000, 528
    source, plain = NoiseSource(), np.random.default_rng(0)
    ours = seconds(lambda: source.standard_normal("sums", 0, 0, tasks, width))
    peer = seconds(lambda: plain.standard_normal((tasks, width)))
    rate = tasks * width / ours / 1e6
    print(
        f"keyed noise: {rate:.0f} million a second, {ours / peer:.2f} x the time of NumPy's PCG64"
    )


def statistics() -> None:
    rng = np.random.default_rng(0)
    rows, tasks, d = 2_000_000, 2000, 32
    features = rng.normal(size=(50_000, d))
    row, task = rng.integers(0, 50_000, rows), rng.integers(0, tasks, rows)
    sorted_rows = TaskRows.sort(features, row, rng.random(rows), rng.random(rows), row, task, tasks)

    def numpy_loop() -> None:
        for first, stop in zip(sorted_rows.start, sorted_rows.start[1:], strict=False):
            X = features[sorted_rows.feature_row[first:stop]]
            weighted = sorted_rows.weight[first:stop, None] * X
            X.T @ weighted, weighted.T @ sorted_rows.label[first:stop]

    ours = seconds(lambda: CpuEngine().statistics(sorted_rows, 0, tasks))
    peer = seconds(numpy_loop)
    print(
        f"A and b of 2 million rows, d = 32: {ours:.2f} s, {ours / peer:.2f} x a NumPy loop over tasks"
    )


def optimal_weights() -> None:
    graph = ap.simulate_tasks(users=100_000, tasks=1000, tasks_per_user=10).graph
    ours = seconds(lambda: solve_task_weights(graph, tolerance=1e-3), repeat=1)
    one_pass = seconds(lambda: np.bincount(graph.task, weights=np.ones(len(graph.task))))
    print(
        f"optimal weights of {len(graph.task):,} edges to 0.1 %: {ours:.2f} s, "
        f"as much as {ours / one_pass:.0f} passes of np.bincount over the edges"
    )


if __name__ == "__main__":
    noise()
    statistics()
    optimal_weights()
