"""How skewed data sets are: what share of the rows the most popular items have."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from apportion.studies.benchmark import Benchmark, Row
from apportion.studies.output import STYLE, write_figure, write_table

SHARES = (0.01, 0.1, 0.5)


def run(benchmarks: Sequence[Benchmark]) -> list[Row]:
    """One row per item of each data set, from the most popular on."""
    rows = []
    for benchmark in benchmarks:
        counts = np.sort(benchmark.data.graph.task_sizes())[::-1]
        total = counts.sum()
        items = np.arange(1, len(counts) + 1)
        for rank, count, so_far in zip(items, counts, np.cumsum(counts), strict=True):
            rows.append(
                {
                    "data": benchmark.name,
                    "rank": int(rank),
                    "share_of_items": float(rank / len(counts)),
                    "count": int(count),
                    "share_of_rows": float(so_far / total),
                }
            )
    return rows


def summarize(rows: Sequence[Row]) -> list[Row]:
    """One row per data set: its size, and the share of rows of the top 1, 10 and 50 % of its items."""
    summary = []
    for name, here in _by_data(rows).items():
        tops = {share: here[max(0, round(share * len(here)) - 1)] for share in SHARES}
        summary.append(
            {
                "data": name,
                "items": len(here),
                "rows": sum(row["count"] for row in here),
                **{f"top_{share:g}": row["share_of_rows"] for share, row in tops.items()},
            }
        )
    return summary


def _by_data(rows: Sequence[Row]) -> dict[str, list[Row]]:
    names = dict.fromkeys(row["data"] for row in rows)
    return {name: [row for row in rows if row["data"] == name] for name in names}


def write(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Write the curves and the figure; return their paths."""
    table, picture = folder / "skew.csv", folder / "skew.png"
    write_table(table, rows)
    write_figure(picture, figure(rows))
    return [table, picture]


def figure(rows: Sequence[Row]) -> Figure:
    """The cumulative share of rows on the left, the sorted counts on the right."""
    with matplotlib.rc_context(STYLE):
        drawing = Figure(figsize=(10, 3.8))
        left, right = drawing.subplots(1, 2)
        for name, here in _by_data(rows).items():
            items = [100 * row["share_of_items"] for row in here]
            left.plot([0, *items], [0, *(100 * row["share_of_rows"] for row in here)], label=name)
            # Items without rows have no place on a logarithmic scale.
            taken = [row for row in here if row["count"] > 0]
            right.plot([row["rank"] for row in taken], [row["count"] for row in taken], label=name)
        left.plot([0, 100], [0, 100], color="black", lw=1, ls=":", label="no skew")
        left.set_xlabel("items, from the most popular on, %")
        left.set_ylabel("rows, %")
        left.legend(frameon=False, loc="lower right")
        right.set_xlabel("item, by popularity")
        right.set_ylabel("users")
        right.set_yscale("log")
        if len(_by_data(rows)) > 1:
            right.legend(frameon=False)
        drawing.tight_layout()
    return drawing
