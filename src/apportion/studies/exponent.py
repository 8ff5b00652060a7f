"""Quality against epsilon for several weight exponents (the paper's mu), for both private solvers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from matplotlib.colors import LinearSegmentedColormap

from apportion.studies.benchmark import (
    COLOURS,
    EPSILONS,
    Benchmark,
    Case,
    Row,
    Series,
    of_protocols,
    run_cases,
)
from apportion.studies.output import write_figure, write_table
from apportion.studies.tradeoff import NOT_PRIVATE, figure

EXPONENTS = (0.0, 0.25, 1 / 3, 0.5, 1.0)
ADAPTIVE = {"ssp": "AdaDPALS", "descent": "AdaDPSGD"}
_COLOURS = LinearSegmentedColormap.from_list(
    "exponents",
    [
        (0.0, "#e0b13c"),
        (0.25, COLOURS["adaptive"]),
        (1 / 3, "#35b0a7"),
        (0.5, "#123f4a"),
        (1.0, "#8e3b8a"),
    ],
    N=1201,  # a multiple of 12, and one: the exponents above have their colours exactly
)


@dataclass(frozen=True)
class Exponent:
    """Settings of the study: the benchmarks, the budgets, the exponents, the repetitions.

    All exponents have the settings that were chosen for the method's own.
    """

    benchmarks: Sequence[Benchmark]
    epsilons: Sequence[float] = EPSILONS
    exponents: Sequence[float] = EXPONENTS
    seeds: int = 3

    @property
    def cases(self) -> list[Case]:
        """What is trained on every split."""
        grid = product(ADAPTIVE.values(), self.epsilons, self.exponents)
        return [*(Case(name) for name in NOT_PRIVATE), *(Case(*case) for case in grid)]

    @property
    def fits(self) -> int:
        """The number of models to train."""
        return len(self.benchmarks) * self.seeds * len(self.cases)

    def run(self, on_fit: Callable[[], None] = lambda: None) -> list[Row]:
        """One row per trained model; ``on_fit`` is called after each."""
        return run_cases(self.benchmarks, self.cases, self.seeds, on_fit)


def colour(exponent: float) -> tuple[float, float, float, float]:
    """The colour of an exponent; that of 1/4, the usual one, is that of adaptive weights elsewhere."""
    return _COLOURS(exponent)


def name_of(exponent: float) -> str:
    """How an exponent is written: 1/3 rather than 0.333."""
    return {0.25: "1/4", 1 / 3: "1/3", 0.5: "1/2"}.get(exponent, f"{exponent:g}")


def write(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Write the table and a figure for each protocol; return their paths."""
    table = folder / "exponent.csv"
    write_table(table, rows)
    paths = [table]
    exponents = sorted({row["weight_exponent"] for row in rows} - {None})
    for protocol, here in of_protocols(rows).items():
        lines = {
            solver: [
                Series(
                    f"exponent {name_of(exponent)}",
                    {"method": method, "weight_exponent": exponent},
                    colour(exponent),
                )
                for exponent in exponents
            ]
            for solver, method in ADAPTIVE.items()
        }
        paths.append(folder / f"exponent-{protocol}.png")
        write_figure(paths[-1], figure(here, lines))
    return paths
