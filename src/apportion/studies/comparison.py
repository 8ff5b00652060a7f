"""What the studies that compare methods share: training all of them, tables, a figure per protocol."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.studies.benchmark import EPSILONS, METRICS, Benchmark, Case, Row
from apportion.studies.output import write_figure, write_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Comparison(ABC):
    """Settings of a study: the benchmarks, the budgets, the repetitions."""

    benchmarks: Sequence[Benchmark]
    epsilons: Sequence[float] = EPSILONS
    seeds: int = 3

    @property
    @abstractmethod
    def cases(self) -> list[Case]:
        """What is trained on every split."""

    @property
    def fits(self) -> int:
        """The number of models to train."""
        return len(self.benchmarks) * self.seeds * len(self.cases)

    def run(self, on_fit: Callable[[], None] = lambda: None) -> list[Row]:
        """One row per trained model; ``on_fit`` is called after each."""
        rows = []
        for benchmark in self.benchmarks:
            for seed in range(self.seeds):
                split = benchmark.split(seed)
                for case in self.cases:
                    model = benchmark.model(case, seed).fit(split.train)
                    where = {"data": benchmark.name, "protocol": benchmark.protocol}
                    scores = {"metric": METRICS[benchmark.protocol], **split.scores(model)}
                    rows.append({**where, **vars(case), "seed": seed, **scores})
                    on_fit()
        return rows


def write_comparison(
    name: str, rows: Sequence[Row], folder: Path, figure: "Callable[[Sequence[Row]], Figure]"
) -> list[Path]:
    """Write the table and a figure for each protocol; return their paths."""
    paths = [folder / f"{name}.csv"]
    write_table(paths[0], rows)
    for protocol, here in of_protocols(rows).items():
        paths.append(folder / f"{name}-{protocol}.png")
        write_figure(paths[-1], figure(here))
    return paths


@dataclass(frozen=True)
class Series:
    """A line or the bars of one color in a figure: what it is called, and which rows it shows."""

    label: str
    where: Row
    color: Any


def mean_and_error(
    rows: Sequence[Row], column: str = "test", **where: object
) -> tuple[float, float]:
    """Mean over seeds and its standard error, of the rows that match."""
    matching = [row for row in rows if all(row[name] == value for name, value in where.items())]
    values = np.array([row[column] for row in matching])
    spread = values.std(ddof=1) if len(values) > 1 else 0.0
    return float(values.mean()), float(spread / len(values) ** 0.5)


def of_protocols(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each protocol, in order of appearance."""
    protocols = dict.fromkeys(row["protocol"] for row in rows)
    return {name: [row for row in rows if row["protocol"] == name] for name in protocols}


def private_epsilons(rows: Sequence[Row]) -> list[float]:
    """The finite epsilons of the rows, ascending."""
    return sorted({row["epsilon"] for row in rows if math.isfinite(row["epsilon"])})
