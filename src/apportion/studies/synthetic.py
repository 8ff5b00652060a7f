"""The paper's synthetic experiment: error against the weight exponent, for several epsilons and skews.

One hundred linear regression tasks of dimension five, ten thousand users of twenty tasks each on
average, task sizes from a power law, exact counts declared public as in the paper, 80/20 split.

Ridge regression is run twice on the same data. ``"as written"`` is the paper's Algorithm 1
(``ap.presets.algorithm_1``), which has nothing against the noise of A_i. ``"ours"`` suppresses the directions
in which the noise prevails, by a rule chosen on other simulated data. Nothing is tuned on the data that is
tested; the gradient bound of descent was chosen on seeds 1000 and 1001.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from apportion.allocation import AdaptiveWeights, PublicCounts
from apportion.data import simulate_tasks
from apportion.recommend import presets
from apportion.studies.metrics import rmse, rmse_by_size
from apportion.studies.output import new_figure, style, viridis, write_figure, write_table
from apportion.tasks import MultiTaskDescent, MultiTaskRidge, Steps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPSILONS = (0.5, 1.0, 2.0, 5.0, 10.0)
EXPONENTS = tuple(step / 8 for step in range(9))
SKEWS = (1.0, 2.0)
DELTA = 1e-5
BUCKETS = 5
Version = Literal["as written", "ours"]
VERSIONS: tuple[Version, ...] = ("as written", "ours")


@dataclass(frozen=True)
class Synthetic:
    """Settings of the study.

    Args:
        epsilons, exponents, skews: the grid.
        seeds: repetitions, each with its own data, split and noise.
        users: how many to simulate.
        solver: ``"ridge"`` (Algorithm 1) or ``"descent"`` (Algorithm 2).
    """

    epsilons: Sequence[float] = EPSILONS
    exponents: Sequence[float] = EXPONENTS
    skews: Sequence[float] = SKEWS
    seeds: int = 10
    users: int = 10_000
    solver: Literal["ridge", "descent"] = "ridge"

    @property
    def fits(self) -> int:
        """The number of models to train."""
        cells = len(self.epsilons) * len(self.exponents) * len(self.skews) * self.seeds
        return len(self.versions) * cells

    @property
    def versions(self) -> tuple[Version, ...]:
        """The algorithms that are compared."""
        return VERSIONS if self.solver == "ridge" else ("ours",)

    def run(self, on_fit: Callable[[], None] = lambda: None) -> list[dict[str, Any]]:
        """One row per trained model; ``on_fit`` is called after each."""
        rows = []
        for skew, seed in product(self.skews, range(self.seeds)):
            data = simulate_tasks(users=self.users, skew=skew, seed=seed)
            train, test = data.split(test=0.2, seed=seed)
            sizes = train.graph.task_sizes()
            grid = product(self.versions, self.epsilons, self.exponents)
            for version, epsilon, exponent in grid:
                model = self.model(version, epsilon, exponent, seed).fit(train)
                errors = rmse_by_size(model, test, sizes, BUCKETS)
                rows.append(
                    {
                        "algorithm": version,
                        "skew": skew,
                        "epsilon": epsilon,
                        "exponent": exponent,
                        "seed": seed,
                        "rmse": rmse(model, test),
                        **{f"rmse_bucket_{b}": error for b, error in enumerate(errors)},
                    }
                )
                on_fit()
        return rows

    def model(
        self, version: Version, epsilon: float, exponent: float, seed: int
    ) -> MultiTaskRidge | MultiTaskDescent:
        """An untrained model of the study; the seed fixes its noise."""
        if version == "as written":
            return presets.algorithm_1(
                epsilon, DELTA, exponent=exponent, counts=PublicCounts(), noise_seed=seed
            )
        common: dict[str, Any] = {
            "epsilon": epsilon,
            "delta": DELTA,
            "allocation": AdaptiveWeights(exponent, counts=PublicCounts()),
            "noise_seed": seed,
        }
        if self.solver == "ridge":
            return MultiTaskRidge(statistics="per-task", **common)
        # Solutions and features lie in the unit ball by construction.
        return MultiTaskDescent(
            radius=1.0, gradient_bound=0.02, steps=Steps(learning_rate=0.4), **common
        )


def summarize(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per (algorithm, skew, epsilon, exponent): mean RMSE and its standard error over seeds.

    ``excess`` is the error relative to exponent 1/2 (or the nearest to it) on the same seed, so that
    what all models of a seed have in common cancels.
    """
    errors: dict[tuple[str, float, float, float], list[float]] = {}
    for row in rows:
        key = (row["algorithm"], row["skew"], row["epsilon"], row["exponent"])
        errors.setdefault(key, []).append(row["rmse"])
    reference = min({key[3] for key in errors}, key=lambda exponent: abs(exponent - 0.5))
    summary = []
    for algorithm, skew, epsilon, exponent in sorted(errors):
        here = np.array(errors[algorithm, skew, epsilon, exponent])
        ratio = here / np.array(errors[algorithm, skew, epsilon, reference]) - 1
        summary.append(
            {
                "algorithm": algorithm,
                "skew": skew,
                "epsilon": epsilon,
                "exponent": exponent,
                "rmse": float(here.mean()),
                "rmse_error": _standard_error(here),
                "excess": float(ratio.mean()),
                "excess_error": _standard_error(ratio),
            }
        )
    return summary


def _standard_error(values: NDArray[np.float64]) -> float:
    return float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else 0.0


def write(rows: Sequence[dict[str, Any]], study: Synthetic, folder: Path) -> list[Path]:
    """Write the table and the figures; return their paths."""
    name = "synthetic" if study.solver == "ridge" else f"synthetic-{study.solver}"
    table = folder / f"{name}.csv"
    errors = folder / f"{name}.png"
    sizes = folder / "task-sizes.png"
    write_table(table, rows)
    write_figure(errors, error_figure(rows))
    write_figure(sizes, size_figure(study))
    return [table, errors, sizes]


def error_figure(rows: Sequence[dict[str, Any]]) -> "Figure":
    """RMSE against the exponent, a row per algorithm; below ours relative to exponent 1/2."""
    summary = summarize(rows)
    skews = sorted({row["skew"] for row in rows})
    versions = [each for each in VERSIONS if any(row["algorithm"] == each for row in rows)]
    with style():
        figure = new_figure(5 * len(skews), 3.5 * (len(versions) + 1))
        panels = figure.subplots(
            len(versions) + 1, len(skews), sharex=True, sharey="row", squeeze=False
        )
        for column, skew in zip(panels.T, skews, strict=True):
            here = [entry for entry in summary if entry["skew"] == skew]
            for axes, version in zip(column, versions, strict=False):
                shown = [entry for entry in here if entry["algorithm"] == version]
                _draw_lines(axes, shown, "rmse", 1.0)
                axes.set_yscale("log")
            _draw_lines(column[-1], shown, "excess", 100.0)
            column[0].set_title(f"skew a = {skew:g}")
            column[-1].set_xlabel("weight exponent (0 = uniform)")
        for axes, version in zip(panels[:, 0], versions, strict=False):
            name = f", {version}" if len(versions) > 1 else ""
            axes.set_ylabel(f"test RMSE{name}")
        panels[-1, 0].set_ylabel(f"{versions[-1]}, above exponent 1/2, %")
        panels[0, -1].legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _draw_lines(axes: Any, summary: Sequence[dict[str, Any]], column: str, scale: float) -> None:
    epsilons = sorted({entry["epsilon"] for entry in summary})
    for number, epsilon in enumerate(epsilons):
        points = [entry for entry in summary if entry["epsilon"] == epsilon]
        axes.errorbar(
            [entry["exponent"] for entry in points],
            [scale * entry[column] for entry in points],
            [scale * entry[f"{column}_error"] for entry in points],
            marker="o",
            ms=4,
            capsize=2,
            color=viridis(0.9 * number / max(1, len(epsilons) - 1)),
            label=f"epsilon = {epsilon:g}",
        )
    axes.axvline(0.5, color="gray", lw=1, ls=":", zorder=0)


def size_figure(study: Synthetic) -> "Figure":
    """The task sizes of each skew, sorted."""
    with style():
        figure = new_figure(5, 3.5)
        axes = figure.subplots()
        for skew in study.skews:
            sizes = simulate_tasks(users=study.users, skew=skew, seed=0).graph.task_sizes()
            axes.plot(np.sort(sizes)[::-1], label=f"a = {skew:g}", drawstyle="steps-mid")
        axes.set_yscale("log")
        axes.set_xlabel("task, by size")
        axes.set_ylabel("users")
        axes.legend(frameon=False)
    return figure
