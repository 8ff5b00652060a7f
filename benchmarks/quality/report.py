"""The table and the figure, from the results alone."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from scipy.stats import t

from benchmarks.quality.results import Results
from benchmarks.quality.sets import DataSet

BASELINES = ("constant", "user mean", "bias", "popularity")
OTHERS = ("AdaDPALS", "AdaDPSGD", "oracle")
_CONFIDENCE = 0.95


def mean_and_width(values: Iterable[float]) -> tuple[float, float]:
    """The mean, and half the width of its 95 % interval (Student's t); nan for a single value."""
    found = np.array(list(values))
    if len(found) < 2:
        return float(found.mean()), math.nan
    error = found.std(ddof=1) / math.sqrt(len(found))
    return float(found.mean()), float(error * t.ppf((1 + _CONFIDENCE) / 2, len(found) - 1))


def regret(
    results: Results, data_set: DataSet, epsilon: float, against: str
) -> tuple[float, float]:
    """How much worse the default is, seed by seed, relative to the other, and half the interval's width."""
    mine = {row["seed"]: row["test"] for row in results.of(data_set.name, epsilon, "default")}
    other = {row["seed"]: row["test"] for row in results.of(data_set.name, epsilon, against)}
    both = sorted(mine.keys() & other.keys())
    if not both:
        return math.nan, math.nan
    sign = 1 if data_set.feedback == "explicit" else -1
    return mean_and_width(sign * (mine[seed] - other[seed]) / other[seed] for seed in both)


def table(results: Results, sets: Mapping[str, DataSet]) -> str:
    """Markdown: test scores by set and epsilon, and the regret."""
    methods = ("default", *BASELINES, *OTHERS)
    lines = []
    for unseen in (False, True):
        cells = _cells(results, sets, unseen)
        if not cells:
            continue
        title = "Never looked at while deciding" if unseen else "Looked at while deciding"
        lines += ["", f"{title}:", ""]
        lines.append("| data | epsilon | " + " | ".join(methods) + " | regret |")
        lines.append("|---|---|" + "---|" * (len(methods) + 1))
        for data_set, epsilon in cells:
            scores = [_mean(results, data_set.name, epsilon, method) for method in methods]
            by, width = regret(results, data_set, epsilon, "oracle")
            lost = "" if math.isnan(by) else f"{by:+.1%}"
            lost += "" if math.isnan(width) else f" ± {width:.1%}"
            cells_of_row = ["" if math.isnan(score) else f"{score:.3f}" for score in scores]
            lines.append(
                f"| {data_set.name} | {epsilon:g} | " + " | ".join([*cells_of_row, lost]) + " |"
            )
    return "\n".join(lines).lstrip()


def _cells(
    results: Results, sets: Mapping[str, DataSet], unseen: bool
) -> list[tuple[DataSet, float]]:
    found = {(row["set"], float(row["epsilon"])) for row in results if row["method"] == "default"}
    order = list(sets)
    return [
        (sets[name], epsilon)
        for name, epsilon in sorted(found, key=lambda cell: (order.index(cell[0]), cell[1]))
        if sets[name].unseen == unseen
    ]


def _mean(results: Results, name: str, epsilon: float, method: str) -> float:
    rows = results.of(name, epsilon, method)
    return float(np.mean([row["test"] for row in rows])) if rows else math.nan


def figure(results: Results, sets: Mapping[str, DataSet], path: Path) -> None:
    """By set and epsilon, the error of the default and of the others relative to the best baseline's."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    cells = {
        feedback: [
            cell
            for unseen in (False, True)
            for cell in _cells(results, sets, unseen)
            if cell[0].feedback == feedback
        ]
        for feedback in ("explicit", "implicit")
    }
    panels = [feedback for feedback in cells if cells[feedback]]
    drawing, axes = plt.subplots(
        1, len(panels), figsize=(7 * len(panels), 0.28 * max(map(len, cells.values())) + 1.6)
    )
    colors = {"default": "#2a7f62", "oracle": "#c46210", "AdaDPALS": "#3b6fb6"}
    for axis, feedback in zip(np.atleast_1d(axes), panels, strict=True):
        names = [f"{each.name}, {epsilon:g}" for each, epsilon in cells[feedback]]
        for method, color in colors.items():
            places, values = [], []
            for place, (data_set, epsilon) in enumerate(cells[feedback]):
                scores = [_mean(results, data_set.name, epsilon, each) for each in BASELINES]
                best = np.nanmin(scores) if feedback == "explicit" else np.nanmax(scores)
                value = _mean(results, data_set.name, epsilon, method) / best
                if not math.isnan(value):
                    places.append(place)
                    values.append(value)
            if places:  # it was run
                axis.plot(values, places, "o", color=color, label=method)
        axis.axvline(1.0, color="#8b94a3", linewidth=1)
        axis.set_yticks(range(len(names)), names)
        axis.margins(y=0.02)
        axis.invert_yaxis()
        what = "RMSE" if feedback == "explicit" else "Recall@20"
        better = "left" if feedback == "explicit" else "right"
        axis.set_xlabel(f"{what} over that of the best private baseline ({better} is better)")
        axis.legend()
    drawing.tight_layout()
    drawing.savefig(path, bbox_inches="tight")
    plt.close(drawing)
