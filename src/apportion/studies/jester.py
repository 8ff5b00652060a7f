"""Real ratings: predicting how people like a joke from how they liked ten others.

Jester's jokes are the tasks; a user's features are its ratings of the ten gauge jokes, which nearly
everybody has rated. Nearly everybody has rated everything else too, so the task sizes are skewed on
purpose, by keeping each joke's ratings with a probability drawn from a power law. Task counts are
private and paid for, ridge regression is the paper's, settings are the estimators' defaults.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.allocation import AdaptiveWeights, Allocation, UniformWeights
from apportion.data import TaskData
from apportion.errors import DataError
from apportion.studies import comparison
from apportion.studies.metrics import rmse, rmse_by_size
from apportion.studies.output import new_figure, style, write_figure, write_table
from apportion.tasks import MultiTaskDescent, MultiTaskRidge

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPSILONS = (0.5, 1.0, 2.0, 5.0, 10.0)
GAUGE = (4, 6, 7, 12, 14, 15, 16, 17, 18, 19)  # numbers from 0 on
JOKES = 100
RANGE = 10.0  # ratings go from -10 to 10
DELTA = 1e-5
BUCKETS = 5
ALLOCATIONS: dict[str, Allocation] = {"uniform": UniformWeights(), "adaptive": AdaptiveWeights(0.5)}
SOLVERS: dict[str, Any] = {
    "ridge": partial(MultiTaskRidge, statistics="per-task"),
    "descent": MultiTaskDescent,
}
# The baseline without privacy: a mild penalty, so that tasks of a handful of ratings do not overfit.
NOT_PRIVATE = MultiTaskRidge(epsilon=np.inf, regularization=5.0)


def read(path: Path, skew: float = 0.5, seed: int = 0) -> TaskData:
    """Read arrays ``user``, ``item`` and ``rating`` of an npz file; skew the sizes of the tasks."""
    try:
        with np.load(path, allow_pickle=False) as file:
            user, item, rating = (file[name] for name in ("user", "item", "rating"))
    except (KeyError, ValueError) as error:
        raise DataError(f"{path} is not an npz file with arrays user, item and rating") from error
    if item.max(initial=0) >= JOKES or np.abs(rating).max(initial=0.0) > RANGE:
        raise DataError(f"{path} does not hold ratings from -10 to 10 of {JOKES} jokes")
    rng = np.random.default_rng(seed)
    gauge = np.full(JOKES, -1)
    gauge[list(GAUGE)] = np.arange(len(GAUGE))
    jokes = np.flatnonzero(gauge < 0)
    task = np.full(JOKES, -1)
    task[jokes] = np.arange(len(jokes))
    chance = np.zeros(JOKES)
    chance[jokes] = rng.power(skew, len(jokes))
    known = gauge[item] >= 0
    # Ratings over sqrt(10) times their range: a vector of at most one; half as much for the constant.
    features = np.zeros((int(user.max(initial=-1)) + 1, len(GAUGE) + 1))
    features[user[known], gauge[item[known]]] = rating[known] / (RANGE * len(GAUGE) ** 0.5)
    features[:, -1] = 0.5
    kept = rng.random(len(user)) < chance[item] / chance.max()
    labels = rating[kept].astype(np.float64) / RANGE
    return TaskData(user[kept], task[item[kept]], features, labels, tasks=len(jokes), per_user=True)


@dataclass(frozen=True)
class Jester:
    """Settings of the study: the file, the budgets, the repetitions."""

    path: Path
    epsilons: Sequence[float] = EPSILONS
    seeds: int = 5

    @property
    def fits(self) -> int:
        """The number of models to train."""
        return self.seeds * (len(self.epsilons) * len(SOLVERS) * len(ALLOCATIONS) + 1)

    def run(self, on_fit: Callable[[], None] = lambda: None) -> list[dict[str, Any]]:
        """One row per trained model, errors in units of the ratings; ``on_fit`` after each."""
        rows = []
        for seed in range(self.seeds):
            train, test = read(self.path, seed=seed).split(test=0.2, seed=seed)
            sizes = train.graph.task_sizes()

            def add(model: Any, epsilon: float, solver: str, allocation: str, seed: int) -> None:
                model.fit(train)  # noqa: B023
                errors = rmse_by_size(model, test, sizes, BUCKETS)  # noqa: B023
                rows.append(
                    {
                        "epsilon": epsilon,
                        "solver": solver,
                        "allocation": allocation,
                        "seed": seed,
                        "rmse": RANGE * rmse(model, test),  # noqa: B023
                        **{f"rmse_bucket_{b}": RANGE * error for b, error in enumerate(errors)},
                    }
                )
                on_fit()

            add(NOT_PRIVATE, np.inf, "ridge", "not private", seed)
            for epsilon, solver, allocation in product(self.epsilons, SOLVERS, ALLOCATIONS):
                budget = {"epsilon": epsilon, "delta": DELTA, "noise_seed": seed}
                model = SOLVERS[solver](allocation=ALLOCATIONS[allocation], **budget)
                add(model, epsilon, solver, allocation, seed)
        return rows


def write(rows: Sequence[dict[str, Any]], folder: Path) -> list[Path]:
    """Write the table and the figure; return their paths."""
    table, picture = folder / "jester.csv", folder / "jester.png"
    write_table(table, rows)
    write_figure(picture, figure(rows))
    return [table, picture]


def mean_and_error(
    rows: Sequence[dict[str, Any]], column: str, above_not_private: bool = False, **where: object
) -> tuple[float, float]:
    """Mean over seeds and its standard error, of the rows that match.

    ``above_not_private`` subtracts the error of the model without privacy on the same split.
    """
    floor = {r["seed"]: r[column] for r in rows if r["allocation"] == "not private"}
    if above_not_private:
        rows = [{**row, column: row[column] - floor[row["seed"]]} for row in rows]
    return comparison.mean_and_error(rows, column, **where)


def figure(rows: Sequence[dict[str, Any]]) -> "Figure":
    """Error above that without privacy, against epsilon: all ratings, and the smallest tasks."""
    epsilons = sorted({row["epsilon"] for row in rows if np.isfinite(row["epsilon"])})
    columns = {"all test ratings": "rmse", "smallest fifth of the tasks": "rmse_bucket_0"}
    colors = {"uniform": "#8b94a3", "adaptive": "#2a7f62"}
    with style():
        drawing = new_figure(10, 4)
        for axes, (title, column) in zip(drawing.subplots(1, 2), columns.items(), strict=True):
            for solver, allocation in product(SOLVERS, ALLOCATIONS):
                where = {"solver": solver, "allocation": allocation}
                points = [mean_and_error(rows, column, True, epsilon=e, **where) for e in epsilons]
                mean, error = np.array(points).T
                axes.errorbar(
                    epsilons,
                    mean,
                    error,
                    marker="o" if solver == "ridge" else "s",
                    ls="-" if solver == "ridge" else "--",
                    ms=4,
                    capsize=2,
                    color=colors[allocation],
                    label=f"{solver}, {allocation}",
                )
            axes.axhline(0, color="black", lw=1, ls=":", label="not private")
            axes.set_xscale("log")
            axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
            axes.minorticks_off()
            axes.set_xlabel("epsilon")
            axes.set_title(title)
        drawing.axes[0].set_ylabel("test RMSE above not private")
        drawing.axes[-1].legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return drawing
