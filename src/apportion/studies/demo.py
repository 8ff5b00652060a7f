"""A small comparison for newcomers: uniform against adaptive budgets at the same epsilon."""

from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from apportion.allocation import AdaptiveWeights, UniformWeights
from apportion.data import simulate_tasks
from apportion.data.buckets import task_buckets
from apportion.privacy import PrivacyReport
from apportion.studies.metrics import rmse, rmse_by_size
from apportion.studies.output import STYLE
from apportion.tasks import MultiTaskRidge

BUCKETS = 5
ALLOCATIONS = {"uniform": UniformWeights(), "adaptive": AdaptiveWeights.for_strongly_convex()}


@dataclass(frozen=True)
class DemoResult:
    """Errors of each allocation: overall, and by task size from the smallest tasks to the largest."""

    sizes: NDArray[np.float64]
    overall: dict[str, float]
    by_size: dict[str, list[float]]
    report: PrivacyReport

    @property
    def bucket_sizes(self) -> list[float]:
        """The mean number of users per task in each bucket."""
        bucket = task_buckets(self.sizes, BUCKETS)
        return [float(self.sizes[bucket == b].mean()) for b in range(BUCKETS)]


def run(epsilon: float = 1.0, delta: float = 1e-5, seed: int = 0) -> DemoResult:
    """Train one private model with each allocation on simulated data."""
    train, test = simulate_tasks(skew=1.0, seed=seed).split(test=0.2, seed=seed)
    sizes = train.graph.task_sizes()
    models = {
        name: MultiTaskRidge(epsilon=epsilon, delta=delta, allocation=allocation).fit(train)
        for name, allocation in ALLOCATIONS.items()
    }
    return DemoResult(
        sizes=sizes,
        overall={name: rmse(model, test) for name, model in models.items()},
        by_size={n: rmse_by_size(model, test, sizes, BUCKETS) for n, model in models.items()},
        report=models["adaptive"].privacy,
    )


def figure(result: DemoResult) -> Figure:
    """Task sizes on the left, errors by task size on the right."""
    with matplotlib.rc_context(STYLE):
        drawing = Figure(figsize=(10, 3.8))
        left, right = drawing.subplots(1, 2)
        _draw_sizes(left, result)
        positions = np.arange(BUCKETS)
        colours = {"uniform": "#b0b7c3", "adaptive": "#2a7f62"}
        for offset, (name, errors) in zip((-0.2, 0.2), result.by_size.items(), strict=True):
            bars = right.bar(
                positions + offset, errors, width=0.38, label=name, color=colours[name]
            )
            right.bar_label(bars, fmt="%.2f", fontsize=8, padding=1)
        labels = [f"{size:,.0f}" for size in result.bucket_sizes]
        labels[0] += "\n(tail)"
        labels[-1] += "\n(head)"
        right.set_xticks(positions, labels)
        right.set_xlabel("mean users per task, one fifth of the tasks each")
        right.set_ylabel("test RMSE")
        right.set_title(f"error at epsilon = {result.report.epsilon:.3g}: lower is better")
        right.grid(axis="x", visible=False)
        right.margins(y=0.12)
        right.legend(frameon=False)
        drawing.tight_layout()
    return drawing


def _draw_sizes(axes: Any, result: DemoResult) -> None:
    axes.fill_between(np.arange(len(result.sizes)), np.sort(result.sizes)[::-1], color="#d7dce3")
    axes.set_xlabel("task, by size")
    axes.set_ylabel("users")
    axes.set_title("tasks are of very different sizes")
    axes.set_yscale("log")
