"""A small comparison for newcomers: the shipped default against what can be had otherwise, by popularity."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from apportion.accounts import PrivacyReport
from apportion.allocation import UniformWeights
from apportion.data import Interactions, TaskData, simulate_interactions
from apportion.data.buckets import task_buckets
from apportion.recommend import ItemModel, MatrixFactorization, Recommender
from apportion.recommend.fold_in import FoldIn
from apportion.recommend.metrics import RatingMetrics, rating_metrics
from apportion.studies.output import new_figure, style
from apportion.tasks import MultiTaskRidge

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FIRST = (
    "Amber", "Brave", "Crimson", "Distant", "Electric", "Frozen", "Golden",
    "Hidden", "Iron", "Jade", "Kindred", "Lonely", "Midnight", "Northern",
    "Orchid", "Paper", "Quiet", "Restless", "Silver", "Thirteen", "Velvet",
    "Wandering", "Yellow", "Second", "Last",
)  # fmt: skip
_SECOND = (
    "Harbor", "Lantern", "Orchard", "Winter", "Compass", "Garden", "Letters",
    "Machine", "River", "Summer", "Station", "Shadows", "Carnival", "Island",
    "Mirror", "Horizon", "Kitchen", "Railway", "Symphony", "Tower",
)  # fmt: skip
BUCKETS, RANGE = 5, (1.0, 5.0)
AVERAGES, EQUAL, DEFAULT, EXACT = "noisy averages", "equal budgets", "apportion", "not private"
COLORS = {AVERAGES: "#d7dce3", EQUAL: "#9aa5b4", DEFAULT: "#2a7f62", EXACT: "#e8c468"}


@dataclass(frozen=True)
class DemoResult:
    """What came out.

    Attributes
        sizes: users per item, [items].
        errors: of each method, by its name.
        model: the default model.
        report: its guarantee.
        history: the most and least liked items of a user who was not trained on, with the ratings.
        recommended: items for this history and the ratings to expect.
    """

    sizes: NDArray[np.float64]
    errors: dict[str, RatingMetrics]
    model: Recommender
    report: PrivacyReport
    history: dict[int, float]
    recommended: tuple[tuple[int, float], ...]

    @cached_property
    def bucket_sizes(self) -> list[float]:
        """The mean number of users per item in each bucket, tail first."""
        bucket = task_buckets(self.sizes, BUCKETS)
        return [float(self.sizes[bucket == b].mean()) for b in range(BUCKETS)]

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain values."""
        return {
            "epsilon": self.report.epsilon,
            "delta": self.report.ledger.target.delta,
            "users_by_popularity": self.bucket_sizes,
            "errors": {
                name: {"rmse": each.rmse, "rmse_by_popularity": list(each.rmse_by_bucket)}
                for name, each in self.errors.items()
            },
            "history": [{"item": item, "rating": rating} for item, rating in self.history.items()],
            "recommended": [{"item": item, "rating": rating} for item, rating in self.recommended],
            "conclusion": self.conclusion(),
        }

    def conclusion(self) -> list[str]:
        """What the figures say, in plain words."""
        averages, equal, default, exact = (self.errors[name] for name in COLORS)
        possible = averages.rmse - exact.rmse
        reached = (averages.rmse - default.rmse) / possible
        tail, of_equal = default.rmse_by_bucket[0], equal.rmse_by_bucket[0]
        return [
            f"At epsilon = {self.report.ledger.target.epsilon:g} the default's error is {default.rmse:.3f}: "
            f"{_than(default.rmse, averages.rmse)} that of averages with noise. That is {reached:.0%} of "
            f"what a model without privacy would gain ({exact.rmse:.3f}).",
            f"Apportioning alone: {_than(tail, of_equal)} equal budgets on the rarest fifth, "
            f"{_than(default.rmse, equal.rmse)} on all ratings.",
            f"What it costs: items of about {self.bucket_sizes[0]:,.0f} users are predicted with an error of "
            f"{tail:.3f}, against {exact.rmse_by_bucket[0]:.3f} without privacy. More users or a larger "
            "epsilon narrow that gap.",
        ]


def titles(items: int) -> dict[int, str]:
    """Invented titles for so many items: up to 500 of them are all different.

    >>> titles(2)
    {0: 'Amber Harbor', 1: 'Brave Lantern'}
    """
    pairs = [divmod(item, len(_FIRST)) for item in range(items)]
    return {
        item: f"{_FIRST[first]} {_SECOND[(turn + first) % len(_SECOND)]}"
        for item, (turn, first) in enumerate(pairs)
    }


def _than(one: float, other: float) -> str:
    change = one / other - 1
    return f"{abs(change):.0%} {'below' if change <= 0 else 'above'}"


def run(
    epsilon: float = 1.0, delta: float = 1e-5, users: int = 40_000, seed: int = 0
) -> DemoResult:
    """Train on simulated ratings, 50 per user: the default model, and what it is compared with.

    A careful user who has none of this would release each item's average with noise, every user's budget
    shared equally among its items, and predict the user's own mean and the item's deviation. The next step is
    a factorization with equal budgets. Both cost the same epsilon.
    """
    data = simulate_interactions(
        users=users, items=500, rows=50 * users, rank=4, popular_tenth=0.35, seed=seed
    )
    data, guest = data.hold_out_users(1, at_least=20, seed=seed)
    train, test = data.split((0.8, 0.2), seed)
    model = MatrixFactorization(epsilon=epsilon, delta=delta).fit(train)
    equal = MatrixFactorization(epsilon=epsilon, delta=delta, allocation=UniformWeights())
    models = {
        AVERAGES: averages(train, epsilon, delta),
        EQUAL: equal.fit(train),
        DEFAULT: model,
        EXACT: MatrixFactorization(epsilon=math.inf).fit(train),
    }
    sizes = train.graph.task_sizes()
    history = _history(guest.history)
    items, scores = model.recommend(history, k=5)
    return DemoResult(
        sizes=sizes,
        errors={
            name: rating_metrics(each, train, test, sizes, BUCKETS) for name, each in models.items()
        },
        model=model,
        report=model.privacy,
        history=history,
        recommended=tuple(zip(items.tolist(), scores.tolist(), strict=True)),
    )


def averages(train: Interactions, epsilon: float, delta: float) -> Recommender:
    """Every item's mean deviation from its users' means, with noise; budgets are shared equally."""
    rows, user = train.by_user, train.user_of_row
    assert rows.rating is not None
    step = FoldIn("explicit", 1.0, 0.0, mean=float(np.mean(RANGE)), rating_range=RANGE)
    deviation = rows.rating - step.centers(rows.start, rows.rating)[user]
    pairs = TaskData(user, rows.other, np.ones((len(user), 1)), deviation, tasks=train.items)
    half = (RANGE[1] - RANGE[0]) / 2
    released = MultiTaskRidge(
        epsilon, delta, label_bound=half, statistics="per-task", allocation=UniformWeights()
    ).fit(pairs)
    return Recommender(
        ItemModel(
            items=np.zeros((train.items, 1), np.float32),
            item_ids=train.item_ids,
            counts=None,
            titles=None,
            fold_in=step,
            privacy=released.privacy,
            intercepts=released.coef_[:, 0].astype(np.float32),
        )
    )


def _history(rows: Interactions) -> dict[int, float]:
    """The three items that a user liked best, and the two that it liked least."""
    rating = rows.by_user.rating
    assert rating is not None
    order = np.argsort(-rating, kind="stable")
    some = np.concatenate([order[:3], order[-2:]])
    items = rows.item_ids[rows.by_user.other[some]]
    return dict(zip(items.tolist(), rating[some].tolist(), strict=True))


def figure(result: DemoResult) -> "Figure":
    """Users per item on the left, errors by popularity on the right."""
    with style():
        drawing = new_figure(10, 3.8)
        left, right = drawing.subplots(1, 2, width_ratios=(1, 1.9))
        _draw_sizes(left, result)
        positions = np.arange(BUCKETS)
        for place, (name, errors) in enumerate(result.errors.items()):
            bars = right.bar(
                positions + 0.21 * (place - 1.5),
                errors.rmse_by_bucket,
                width=0.2,
                label=name,
                color=COLORS[name],
            )
            right.bar_label(bars, fmt="%.2f", fontsize=6, padding=1)
        labels = [f"{size:,.0f}" for size in result.bucket_sizes]
        labels[0] += "\n(tail)"
        labels[-1] += "\n(head)"
        right.set_xticks(positions, labels)
        right.set_xlabel("mean users per item, one fifth of the items each")
        right.set_ylabel("test RMSE, ratings from 1 to 5")
        target = result.report.ledger.target
        right.set_title(f"error at epsilon = {target.epsilon:g}: lower is better")
        right.grid(axis="x", visible=False)
        right.margins(y=0.22)
        right.legend(frameon=False, ncols=4, fontsize=8, loc="upper right")
        drawing.tight_layout()
    return drawing


def _draw_sizes(axes: "Axes", result: DemoResult) -> None:
    axes.fill_between(np.arange(len(result.sizes)), np.sort(result.sizes)[::-1], color="#d7dce3")
    axes.set_xlabel("item, by popularity")
    axes.set_ylabel("users")
    axes.set_title("items are of very different popularity")
    axes.set_yscale("log")
