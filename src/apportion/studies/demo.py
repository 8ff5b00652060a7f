"""A small comparison for newcomers: two recommenders of the same epsilon, by popularity."""

from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from apportion.accounts import PrivacyReport
from apportion.allocation import AdaptiveWeights, UniformWeights
from apportion.data import simulate_interactions
from apportion.data.buckets import task_buckets
from apportion.recommend import Bounds, GradientDescent, MatrixFactorization, Offsets
from apportion.recommend.metrics import RatingMetrics, rating_metrics
from apportion.studies.output import STYLE

BUCKETS = 5
ALLOCATIONS = {"uniform": UniformWeights(), "adaptive": AdaptiveWeights(0.5)}


@dataclass(frozen=True)
class DemoResult:
    """Users per item, errors of each allocation, and the guarantee of the adaptive model."""

    sizes: NDArray[np.float64]
    errors: dict[str, RatingMetrics]
    report: PrivacyReport

    @property
    def bucket_sizes(self) -> list[float]:
        """The mean number of users per item in each bucket, tail first."""
        bucket = task_buckets(self.sizes, BUCKETS)
        return [float(self.sizes[bucket == b].mean()) for b in range(BUCKETS)]


def run(
    epsilon: float = 1.0, delta: float = 1e-5, users: int = 40_000, seed: int = 0
) -> DemoResult:
    """Train one private recommender with each allocation on simulated ratings: 50 per user."""
    data = simulate_interactions(
        users=users, items=500, rows=50 * users, rank=4, popular_tenth=0.35, seed=seed
    )
    train, test = data.split((0.8, 0.2), seed)
    models = {
        name: MatrixFactorization(
            factors=8,
            sweeps=3,
            epsilon=epsilon,
            delta=delta,
            allocation=allocation,
            solver=GradientDescent(steps=10, gradient_bound=0.5),
            regularization=0.05,
            bounds=Bounds(feature=0.5, label=2.0),
            offsets=Offsets(intercept_share=0.0),
        ).fit(train)
        for name, allocation in ALLOCATIONS.items()
    }
    sizes = train.graph.task_sizes()
    return DemoResult(
        sizes=sizes,
        errors={
            name: rating_metrics(model, train, test, sizes, BUCKETS)
            for name, model in models.items()
        },
        report=models["adaptive"].privacy,
    )


def figure(result: DemoResult) -> Figure:
    """Users per item on the left, errors by popularity on the right."""
    with matplotlib.rc_context(STYLE):
        drawing = Figure(figsize=(10, 3.8))
        left, right = drawing.subplots(1, 2)
        _draw_sizes(left, result)
        positions = np.arange(BUCKETS)
        colors = {"uniform": "#b0b7c3", "adaptive": "#2a7f62"}
        for offset, (name, errors) in zip((-0.2, 0.2), result.errors.items(), strict=True):
            bars = right.bar(
                positions + offset,
                errors.rmse_by_bucket,
                width=0.38,
                label=name,
                color=colors[name],
            )
            right.bar_label(bars, fmt="%.2f", fontsize=8, padding=1)
        labels = [f"{size:,.0f}" for size in result.bucket_sizes]
        labels[0] += "\n(tail)"
        labels[-1] += "\n(head)"
        right.set_xticks(positions, labels)
        right.set_xlabel("mean users per item, one fifth of the items each")
        right.set_ylabel("test RMSE, ratings from 1 to 5")
        right.set_title(f"error at epsilon = {result.report.epsilon:.3g}: lower is better")
        right.grid(axis="x", visible=False)
        right.margins(y=0.12)
        right.legend(frameon=False)
        drawing.tight_layout()
    return drawing


def _draw_sizes(axes: Axes, result: DemoResult) -> None:
    axes.fill_between(np.arange(len(result.sizes)), np.sort(result.sizes)[::-1], color="#d7dce3")
    axes.set_xlabel("item, by popularity")
    axes.set_ylabel("users")
    axes.set_title("items are of very different popularity")
    axes.set_yscale("log")
