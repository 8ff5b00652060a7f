"""Quality against epsilon, for all methods of the paper's table of algorithms."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from apportion.studies.benchmark import COLORS, METHODS, Case, Row
from apportion.studies.comparison import (
    Comparison,
    Series,
    mean_and_error,
    private_epsilons,
    write_comparison,
)
from apportion.studies.output import new_figure, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOT_PRIVATE = {"ALS": "ssp", "SGD": "descent"}
_ASIDE = 1.12


@dataclass(frozen=True)
class Tradeoff(Comparison):
    """Settings of the study: the benchmarks, the budgets, the repetitions."""

    @property
    def cases(self) -> list[Case]:
        """What is trained on every split."""
        private = [name for name in METHODS if name not in NOT_PRIVATE]
        return [
            *(Case(name) for name in NOT_PRIVATE),
            *(Case(name, epsilon) for epsilon, name in product(self.epsilons, private)),
        ]


def write(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Write the table and a figure for each protocol; return their paths."""
    return write_comparison("tradeoff", rows, folder, draw)


def draw(rows: Sequence[Row]) -> "Figure":
    """The figure of one protocol."""
    lines = {
        solver: [
            Series(name, {"method": name}, COLORS[method.budget])
            for name, method in METHODS.items()
            if method.solver == solver and name not in NOT_PRIVATE
        ]
        for solver, baseline in (("ssp", "ALS"), ("descent", "SGD"))
        if any(row["method"] == baseline for row in rows)
    }
    return figure(rows, lines)


def figure(rows: Sequence[Row], lines: dict[str, list[Series]]) -> "Figure":
    """The metric against epsilon, a panel per solver, with the not private model in each."""
    titles = {"ssp": "alternating least squares", "descent": "gradient descent"}
    epsilons = private_epsilons(rows)
    with style():
        drawing = new_figure(5.5 * len(lines), 4)
        panels = drawing.subplots(1, len(lines), sharey=True, squeeze=False)[0]
        for axes, (solver, drawn) in zip(panels, lines.items(), strict=True):
            for number, line in enumerate(drawn):
                points = [mean_and_error(rows, **line.where, epsilon=e) for e in epsilons]
                mean, error = zip(*points, strict=True)
                look = {"marker": "o", "ms": 4, "capsize": 2, "color": line.color}
                # Points of a single epsilon stand side by side, or some would be hidden.
                aside = _ASIDE ** (number - (len(drawn) - 1) / 2) if len(epsilons) == 1 else 1.0
                places = [aside * epsilon for epsilon in epsilons]
                axes.errorbar(places, mean, error, **look, label=line.label)
            [baseline] = [name for name, kind in NOT_PRIVATE.items() if kind == solver]
            floor, _ = mean_and_error(rows, method=baseline, epsilon=math.inf)
            axes.axhline(floor, color="black", lw=1.2, ls=":", label=f"{baseline}, not private")
            axes.set_xscale("log")
            axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
            axes.minorticks_off()
            if len(epsilons) == 1:
                axes.set_xlim(epsilons[0] / 2, epsilons[0] * 2)
            axes.set_xlabel("epsilon")
            axes.set_title(f"{rows[0]['data']}, {titles[solver]}")
            handles, labels = axes.get_legend_handles_labels()
            order = [*range(1, len(labels)), 0]  # the not private line comes first by itself
            axes.legend(
                [handles[place] for place in order],
                [labels[place] for place in order],
                frameon=False,
                loc="upper center",
                bbox_to_anchor=(0.5, -0.15),
                ncols=2 if len(labels) < 5 else 3,
                columnspacing=1.0,
                handlelength=1.3,
            )
        better = "lower" if rows[0]["metric"] == "RMSE" else "higher"
        panels[0].set_ylabel(f"test {rows[0]['metric']} ({better} is better)")
        drawing.subplots_adjust(wspace=0.1)
    return drawing
