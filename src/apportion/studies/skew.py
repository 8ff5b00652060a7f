"""How skewed data sets are (Table 1 and Figure 8 of the paper): their statistics, and who has the rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from apportion.allocation import theory
from apportion.studies.benchmark import Benchmark, Row
from apportion.studies.output import new_figure, style, write_figure, write_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARES = (0.01, 0.1, 0.5)


@dataclass(frozen=True)
class Found:
    """What the study finds: a row of statistics per data set, and a row per item of each."""

    statistics: list[Row]
    items: list[Row]


def run(benchmarks: Sequence[Benchmark]) -> Found:
    """Users n, items m, rows |Omega|; the shares of the top 1, 10 and 50 % of the items; R_0 and R_1.

    Items and their counts are those of ``Benchmark.studied``: where users are held out, those of the
    others. n and |Omega| are of all users.
    """
    statistics, items = [], []
    for benchmark in benchmarks:
        counts = np.sort(benchmark.studied.graph.task_sizes())[::-1]
        counts = counts[counts > 0]
        so_far = np.cumsum(counts) / counts.sum()
        start = benchmark.data.by_user.start
        statistics.append(
            {
                "data": benchmark.name,
                "users": int(np.count_nonzero(np.diff(start))),
                "items": len(counts),
                "rows": int(start[-1]),
                **{f"top_{share:g}": float(so_far[_top(share, len(counts))]) for share in SHARES},
                "R_0": theory.improvement_convex(counts),
                "R_1": theory.improvement_strongly_convex(counts),
            }
        )
        for rank, (count, share) in enumerate(zip(counts, so_far, strict=True), 1):
            items.append(
                {
                    "data": benchmark.name,
                    "rank": rank,
                    "share_of_items": rank / len(counts),
                    "count": int(count),
                    "share_of_rows": float(share),
                }
            )
    return Found(statistics, items)


def _top(share: float, items: int) -> int:
    return max(0, round(share * items) - 1)


def _by_data(rows: Sequence[Row]) -> dict[str, list[Row]]:
    names = dict.fromkeys(row["data"] for row in rows)
    return {name: [row for row in rows if row["data"] == name] for name in names}


def write(found: Found, folder: Path) -> list[Path]:
    """Write the statistics, the curves and the figure; return their paths."""
    statistics, table = folder / "statistics.csv", folder / "skew.csv"
    picture = folder / "skew.png"
    write_table(statistics, found.statistics)
    write_table(table, found.items)
    write_figure(picture, figure(found.items))
    return [statistics, table, picture]


def figure(rows: Sequence[Row]) -> "Figure":
    """The cumulative share of rows on the left, the sorted counts on the right."""
    with style():
        drawing = new_figure(10, 3.8)
        left, right = drawing.subplots(1, 2)
        for name, here in _by_data(rows).items():
            items = [100 * row["share_of_items"] for row in here]
            left.plot([0, *items], [0, *(100 * row["share_of_rows"] for row in here)], label=name)
            right.plot([row["rank"] for row in here], [row["count"] for row in here], label=name)
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
