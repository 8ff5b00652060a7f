"""Do R_0 and R_1 predict what happens? Promised gains of adaptive weights beside measured ones, by skew.

The tasks are those of the synthetic study, all rows in training. The gain is the excess empirical risk with
uniform weights over that with adaptive weights: exponent 1/2 for ridge regression (R_1), 1/4 for gradient
descent (R_0). Counts are exact and declared public.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from apportion.allocation import theory
from apportion.data import TaskData, simulate_tasks
from apportion.studies.output import new_figure, style, viridis, write_figure, write_table
from apportion.studies.synthetic import Synthetic, Version
from apportion.studies.theory import normalized_weights
from apportion.tasks import MultiTaskRidge
from apportion.tasks.base import MultiTaskLinear

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]

EPSILONS = (1.0, 5.0, 20.0, 60.0)
SKEWS = (0.5, 0.7, 1.0, 1.5, 2.0, 4.0)


@dataclass(frozen=True)
class Kind:
    """What is trained, and which bound is about it: ``gamma`` 1 for R_1, 0 for R_0."""

    study: Synthetic
    version: Version
    gamma: float

    @property
    def exponent(self) -> float:
        """Of the weights that minimize the bound."""
        return (1 + self.gamma) / 4

    def bound(self, weights: NDArray[np.float64], sizes: NDArray[np.float64]) -> float:
        """Up to what is the same for all weights."""
        value = theory.objective(weights, sizes, self.gamma)
        return value if self.gamma else math.sqrt(value)


_RIDGE, _DESCENT = Synthetic(), Synthetic(solver="descent")
KINDS = {
    "Algorithm 1, as written": Kind(_RIDGE, "as written", 1.0),
    "Algorithm 1, ours": Kind(_RIDGE, "ours", 1.0),
    "Algorithm 2, ours": Kind(_DESCENT, "ours", 0.0),
}


@dataclass(frozen=True)
class Gains:
    """Settings of the study.

    Args:
        epsilons, skews: the grid.
        seeds: repetitions, each with its own data and noise.
        users: how many to simulate.
    """

    epsilons: Sequence[float] = EPSILONS
    skews: Sequence[float] = SKEWS
    seeds: int = 5
    users: int = 10_000

    @property
    def fits(self) -> int:
        """The number of pairs of models to train."""
        return len(KINDS) * len(self.epsilons) * len(self.skews) * self.seeds

    def run(self, on_fit: Callable[[], None] = lambda: None) -> list[Row]:
        """One row per pair of models; ``on_fit`` is called after each."""
        rows = []
        for skew, seed in product(self.skews, range(self.seeds)):
            data = simulate_tasks(users=self.users, skew=skew, seed=seed)
            sizes = data.graph.task_sizes()
            least = _loss(MultiTaskRidge(math.inf).fit(data), data)
            for (name, kind), epsilon in product(KINDS.items(), self.epsilons):
                uniform, adaptive = (
                    _loss(kind.study.model(kind.version, epsilon, exponent, seed).fit(data), data)
                    - least
                    for exponent in (0.0, kind.exponent)
                )
                rows.append(
                    {
                        "algorithm": name,
                        "skew": skew,
                        "epsilon": epsilon,
                        "seed": seed,
                        **_promised(kind, data, sizes),
                        "excess_uniform": uniform,
                        "excess_adaptive": adaptive,
                        "gain": uniform / adaptive,
                    }
                )
                on_fit()
        return rows


def _loss(model: MultiTaskLinear, data: TaskData) -> float:
    return 0.5 * float(np.sum((model.predict(data) - data.labels) ** 2))


def _promised(kind: Kind, data: TaskData, sizes: NDArray[np.float64]) -> Row:
    """R by its closed form, and the ratio of the bounds where every user spends its own whole budget."""
    there = sizes > 0
    known = sizes[there]
    ratio = (
        theory.improvement_strongly_convex if kind.gamma else theory.improvement_convex
    )(known)  # fmt: skip
    bounds = [
        kind.bound(normalized_weights(data.graph, np.maximum(sizes, 1), exponent)[there], known)
        for exponent in (0.0, kind.exponent)
    ]
    return {"promised": ratio, "promised_per_user": bounds[0] / bounds[1]}


def summarize(rows: Sequence[Row]) -> list[Row]:
    """One row per (algorithm, skew, epsilon): geometric means over seeds, and the error of the gain."""
    found = []
    for key in dict.fromkeys((row["algorithm"], row["skew"], row["epsilon"]) for row in rows):
        here = [row for row in rows if (row["algorithm"], row["skew"], row["epsilon"]) == key]
        logs = np.log([row["gain"] for row in here])
        error = float(logs.std(ddof=1) / len(logs) ** 0.5) if len(logs) > 1 else 0.0
        means = {
            name: float(np.exp(np.mean(np.log([row[name] for row in here]))))
            for name in ("promised", "promised_per_user", "gain")
        }
        found.append(
            {"algorithm": key[0], "skew": key[1], "epsilon": key[2], **means, "error": error}
        )
    return found


def write(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Write the table and the figure; return their paths."""
    table, picture = folder / "gains.csv", folder / "gains.png"
    write_table(table, rows)
    write_figure(picture, figure(rows))
    return [table, picture]


def figure(rows: Sequence[Row]) -> "Figure":
    """Promised and measured gains against the skew, a panel per algorithm."""
    summary = summarize(rows)
    with style():
        drawing = new_figure(4 * len(KINDS), 3.8)
        panels = drawing.subplots(1, len(KINDS), squeeze=False)[0]
        for axes, (name, kind) in zip(panels, KINDS.items(), strict=True):
            _draw(axes, [entry for entry in summary if entry["algorithm"] == name])
            axes.set_title(f"{name} (R_{kind.gamma:g})")
        panels[0].set_ylabel("excess risk, uniform over adaptive weights")
        panels[-1].legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
        drawing.tight_layout()
    return drawing


def _draw(axes: Any, summary: Sequence[Row]) -> None:
    from matplotlib.ticker import LogLocator

    epsilons = sorted({entry["epsilon"] for entry in summary})
    for number, epsilon in enumerate(epsilons):
        points = [entry for entry in summary if entry["epsilon"] == epsilon]
        skews, gains = ([entry[key] for entry in points] for key in ("skew", "gain"))
        spread = [
            [gain * abs(math.expm1(sign * entry["error"])) for gain, entry in zip(gains, points, strict=True)]
            for sign in (-1, 1)
        ]  # fmt: skip
        color = viridis(0.9 * number / max(1, len(epsilons) - 1))
        axes.errorbar(skews, gains, spread, color=color, marker="o", ms=4, capsize=2,
                      label=f"measured, epsilon = {epsilon:g}")  # fmt: skip
    for column, line, label in (
        ("promised", "-", "promised (R)"),
        ("promised_per_user", "--", "promised, every user's\nown budget spent"),
    ):
        values = [entry[column] for entry in points]
        axes.plot(skews, values, color="black", ls=line, lw=1.2, label=label)
    axes.axhline(1, color="gray", lw=1, ls=":", zorder=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xticks(skews, [f"{skew:g}" for skew in skews])
    axes.minorticks_off()
    axes.set_xlabel("a (smaller is more skewed)")
