"""Quality by popularity: who gains and who loses when budgets move to the tail."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from apportion.studies.benchmark import BUCKETS, COLORS, Case, Row
from apportion.studies.comparison import (
    Comparison,
    Series,
    mean_and_error,
    private_epsilons,
    write_comparison,
)
from apportion.studies.exponent import color, name_of
from apportion.studies.output import new_figure, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXPONENTS = (0.25, 0.5, 1.0)
# The methods that are compared, and their weight exponents.
COMPARED: tuple[tuple[str, float | None], ...] = (
    ("DPALS uniform", None),
    ("DPALS tail", None),
    *(("AdaDPALS", exponent) for exponent in EXPONENTS),
)


@dataclass(frozen=True)
class Slices(Comparison):
    """Settings of the study: the benchmarks, the budgets, the repetitions."""

    @property
    def cases(self) -> list[Case]:
        """What is trained on every split."""
        grid = product(self.epsilons, COMPARED)
        return [Case("ALS"), *(Case(name, epsilon, mu) for epsilon, (name, mu) in grid)]


def write(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Write the table and a figure for each protocol; return their paths."""
    return write_comparison("slices", rows, folder, figure)


def figure(rows: Sequence[Row]) -> "Figure":
    """The metric by bucket: a panel per epsilon, bars by method, lines where nothing is private."""
    bars = [
        Series("DPALS uniform", {"method": "DPALS uniform"}, COLORS["uniform"]),
        Series("DPALS tail", {"method": "DPALS tail"}, COLORS["tail"]),
    ]
    for mu in EXPONENTS:
        where = {"method": "AdaDPALS", "weight_exponent": mu}
        bars.append(Series(f"AdaDPALS, exponent {name_of(mu)}", where, color(mu)))
    metric = rows[0]["metric"]
    label = "test RMSE (lower is better)"
    if metric != "RMSE":
        label = "test Recall@k, k = 100, 80, 60, 40, 20\n(higher is better)"
    drawing = bar_figure(rows, bars, label, floor={"method": "ALS", "epsilon": math.inf})
    if metric == "RMSE":  # bars from zero would all look alike
        values = [row[f"bucket_{b}"] for row in rows for b in range(BUCKETS)]
        drawing.axes[0].set_ylim(bottom=math.floor(10 * np.nanmin(values) - 0.5) / 10)
    return drawing


def bar_figure(
    rows: Sequence[Row], bars: Sequence[Series], label: str, floor: Row | None = None
) -> "Figure":
    """Grouped bars by bucket, a panel per epsilon; dotted where the rows of ``floor`` are."""
    epsilons = private_epsilons(rows)
    width = 0.84 / len(bars)
    with style():
        drawing = new_figure(max(5.5, 4.6 * len(epsilons)), 3.8)
        panels = drawing.subplots(1, len(epsilons), sharey=True, squeeze=False)[0]
        for axes, epsilon in zip(panels, epsilons, strict=True):
            for number, drawn in enumerate(bars):
                where = {**drawn.where, "epsilon": epsilon}
                points = [mean_and_error(rows, f"bucket_{b}", **where) for b in range(BUCKETS)]
                mean, error = np.array(points).T
                place = np.arange(BUCKETS) + width * (number - (len(bars) - 1) / 2)
                look = {"error_kw": {"lw": 0.8}, "color": drawn.color, "label": drawn.label}
                axes.bar(place, mean, 0.94 * width, yerr=error, **look)
            if floor is not None:
                levels = [mean_and_error(rows, f"bucket_{b}", **floor)[0] for b in range(BUCKETS)]
                left = np.arange(BUCKETS) - 0.46
                look = {
                    "colors": "black",
                    "linestyles": ":",
                    "lw": 1.4,
                    "label": "ALS, not private",
                }
                axes.hlines(levels, left, left + 0.92, **look)
            axes.set_xticks(range(BUCKETS), ["0\n(tail)", "1", "2", "3", "4\n(head)"])
            axes.set_xlabel("popularity, one fifth of the items each")
            axes.set_title(f"{rows[0]['data']}, epsilon = {epsilon:g}")
            axes.grid(axis="x", visible=False)
        panels[0].set_ylabel(label)
        drawing.subplots_adjust(wspace=0.06)
        handles, labels = panels[0].get_legend_handles_labels()
        drawing.legend(
            handles, labels, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.06),
            ncols=3 if len(epsilons) > 1 else 2,
        )  # fmt: skip
    return drawing
