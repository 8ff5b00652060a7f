"""Quality against epsilon for several weight exponents (the paper's mu), for both private solvers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from apportion.studies.benchmark import COLORS, Case, Row
from apportion.studies.comparison import Comparison, Series, write_comparison
from apportion.studies.tradeoff import NOT_PRIVATE, figure

if TYPE_CHECKING:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

EXPONENTS = (0.0, 0.25, 1 / 3, 0.5, 1.0)
ADAPTIVE = {"ssp": "AdaDPALS", "descent": "AdaDPSGD"}
_COLORS = (
    (0.0, "#e0b13c"),
    (0.25, COLORS["adaptive"]),
    (1 / 3, "#35b0a7"),
    (0.5, "#123f4a"),
    (1.0, "#8e3b8a"),
)


@dataclass(frozen=True)
class Exponent(Comparison):
    """Settings of the study: the benchmarks, the budgets, the exponents, the repetitions.

    All exponents have the settings that were chosen for the method's own.
    """

    exponents: Sequence[float] = EXPONENTS

    @property
    def cases(self) -> list[Case]:
        """What is trained on every split."""
        grid = product(ADAPTIVE.values(), self.epsilons, self.exponents)
        return [*(Case(name) for name in NOT_PRIVATE), *(Case(*case) for case in grid)]


def color(exponent: float) -> tuple[float, float, float, float]:
    """The color of an exponent; that of 1/4, the usual one, is that of adaptive weights elsewhere."""
    return _scale()(exponent)


@cache
def _scale() -> "LinearSegmentedColormap":
    from matplotlib.colors import LinearSegmentedColormap

    # A multiple of 12, and one: the exponents above have their colors exactly.
    return LinearSegmentedColormap.from_list("exponents", _COLORS, N=1201)


def name_of(exponent: float) -> str:
    """How an exponent is written: 1/3 rather than 0.333."""
    return {0.25: "1/4", 1 / 3: "1/3", 0.5: "1/2"}.get(exponent, f"{exponent:g}")


def write(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Write the table and a figure for each protocol; return their paths."""
    return write_comparison("exponent", rows, folder, draw)


def draw(rows: Sequence[Row]) -> "Figure":
    """The figure of one protocol."""
    lines = {
        solver: [
            Series(
                f"exponent {name_of(exponent)}",
                {"method": method, "weight_exponent": exponent},
                color(exponent),
            )
            for exponent in sorted({row["weight_exponent"] for row in rows} - {None})
        ]
        for solver, method in ADAPTIVE.items()
    }
    return figure(rows, lines)
