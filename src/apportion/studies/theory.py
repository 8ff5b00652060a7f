"""What the paper's theorems say of given task sizes: weights, bounds, steps, gains, who would overspend."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from apportion.allocation import theory
from apportion.data import Graph
from apportion.data.files import read_columns
from apportion.data.numeric import read_numbers
from apportion.data.simulate import simulate_graph
from apportion.errors import DataError, ParameterError
from apportion.privacy import mu_from_epsilon
from apportion.studies.output import new_figure, style, viridis, write_figure, write_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Row = dict[str, Any]

EXPONENTS = (0.0, 0.25, 0.5)
# A graph of more pairs is not drawn to measure c(n), and equation 9 is not solved for one.
_MOST_PAIRS = 20_000_000
_MOST_SOLVED = 2_000_000


def power_law(users: int, tasks: int, rows: int, power: float) -> Array:
    """Task sizes in proportion to rank^-power, at least one and at most all users each, [tasks].

    They add up to ``rows``, but for rounding: what a task cannot have goes to the others.
    """
    if not tasks <= rows <= users * tasks:
        raise ParameterError(
            f"rows must be from {tasks:,} (one for each task) to {users * tasks:,} (all users in all tasks), "
            f"got {rows:,}"
        )
    share = np.arange(1, tasks + 1, dtype=np.float64) ** -power

    def sizes(scale: float) -> Array:
        return np.asarray(np.clip(scale * share, 1, users), dtype=np.float64)

    low, high = 0.0, users / share[-1]
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if sizes(middle).sum() < rows else (low, middle)
    return np.round(sizes(high))


def read_sizes(path: str | Path, column: str) -> Array:
    """Task sizes from a column of a CSV or Parquet file, those of zero left out, [tasks]."""
    values = read_numbers("counts", read_columns(path, [], [column])[column], np.float64)
    if not len(values) or not np.isfinite(values).all() or values.min() < 0 or values.max() <= 0:
        raise DataError(f"{column} of {path} must hold numbers of users, none of them negative")
    return np.asarray(values[values > 0], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Setting:
    """What the theorems are asked about.

    Attributes
        sizes: n_i, at least one each, [tasks].
        users: n.
        epsilon, delta: of the whole training; beta = mu^2 / 2 follows.
        dimension: d.
        strong_convexity: lambda.
        graph: who takes part in what, if it is public; else users are drawn as in Assumption 4.1.
    """

    sizes: Array
    users: int
    epsilon: float = 1.0
    delta: float = 1e-5
    dimension: int = 32
    strong_convexity: float = 0.1
    graph: Graph | None = None

    @property
    def beta(self) -> float:
        """The user's RDP budget (Remark 3.4)."""
        return theory.rdp_budget(mu_from_epsilon(self.epsilon, self.delta))

    def weights(self, exponent: float) -> Array:
        """Equation 11."""
        return theory.optimal_task_weights(self.sizes, exponent, self.users, self.beta)

    def measured(self) -> Graph | None:
        """The graph, or one that is drawn; None if it would be too large."""
        if self.graph is not None:
            return self.graph
        if self.sizes.sum() > _MOST_PAIRS:
            return None
        return simulate_graph(self.sizes, self.users)


def gains(setting: Setting) -> Row:
    """n, m, |Omega|, and what adaptive weights are promised to gain."""
    sizes = setting.sizes
    return {
        "users n": setting.users,
        "tasks m": len(sizes),
        "pairs |Omega|": int(sizes.sum()),
        "smallest task": float(sizes.min()),
        "largest task": float(sizes.max()),
        "beta (Remark 3.4), exact": setting.beta,
        "beta that suffices (below Theorem 3.3)": theory.sufficient_budget(
            setting.epsilon, setting.delta
        ),
        "epsilon of the exact beta by Renyi's conversion": theory.epsilon_from_rdp(
            setting.beta, setting.delta
        ),
        "R_0, convex": theory.improvement_convex(sizes),
        "R_1, strongly convex": theory.improvement_strongly_convex(sizes),
    }


def weights(setting: Setting) -> list[Row]:
    """Equation 11 for every task, from the largest on."""
    sizes = np.sort(setting.sizes)[::-1]
    by_exponent = {
        f"omega, exponent {exponent:g}": theory.optimal_task_weights(
            sizes, exponent, setting.users, setting.beta
        )
        for exponent in EXPONENTS
    }
    return [
        {"users n_i": float(size), **{name: float(w[i]) for name, w in by_exponent.items()}}
        for i, size in enumerate(sizes)
    ]


def bounds(setting: Setting) -> list[Row]:
    """The bounds of all theorems (up to constants and logarithms), a column per exponent."""
    sizes, d, strong = setting.sizes, setting.dimension, setting.strong_convexity
    convex: dict[str, Any] = {"dimension": d}
    strongly: dict[str, Any] = {"dimension": d, "strong_convexity": strong}
    rows: dict[str, list[float]] = {}
    for exponent in EXPONENTS:
        weights = setting.weights(exponent)
        for name, value in (
            ("Theorem 3.8, Algorithm 1", theory.ssp_bound(weights, sizes, **strongly)),
            ("Theorem 3.12 (a), convex", theory.descent_bound_convex(weights, **convex)),
            (
                "Theorem 3.12 (b), strongly convex",
                theory.descent_bound_strongly_convex(weights, sizes, **strongly),
            ),
            ("T of (a)", theory.descent_steps_convex(weights, sizes, **convex)),
            ("T of (b)", theory.descent_steps_strongly_convex(weights, sizes, **convex)),
        ):
            rows.setdefault(name, []).append(value)
    return [
        {"": name, **{f"exponent {e:g}": v for e, v in zip(EXPONENTS, values, strict=True)}}
        for name, values in rows.items()
    ]


def adaptive_bounds(setting: Setting) -> Row:
    """The closed forms of Theorem 4.2, and Theorem B.2 with counts that are wrong by ten users."""
    sizes = setting.sizes
    strong: dict[str, Any] = {"strong_convexity": setting.strong_convexity}
    common: dict[str, Any] = {
        "users": setting.users,
        "dimension": setting.dimension,
        "budget": setting.beta,
    }
    exact = theory.adaptive_bound_ssp(tasks=len(sizes), **common, **strong)
    rough = theory.approximate_bound_ssp(sizes, sizes, 10.0, **common, **strong)
    return {
        "Theorem 4.2 (a)": exact,
        "Theorem 4.2 (b)": theory.adaptive_bound_convex(sizes, **common),
        "Theorem 4.2 (c)": theory.adaptive_bound_strongly_convex(
            tasks=len(sizes), **common, **strong
        ),
        "Theorem B.2, counts off by at most 10": rough,
    }


def spending(setting: Setting) -> list[Row]:
    """c(n) and equation 9 by exponent: what the closed form loses to the user that spends most."""
    graph, rows = setting.measured(), []
    log = math.log(setting.users)
    for exponent in EXPONENTS:
        weights = theory.optimal_task_weights(setting.sizes, exponent, setting.users)
        row: Row = {
            "exponent": exponent,
            "K": theory.largest_part(setting.sizes, exponent, setting.users),
            "log n": log,
            "c(n) at most": theory.concentration_bound(setting.sizes, exponent, setting.users),
        }
        if graph is not None:
            worst = theory.largest_spending(graph, weights)
            row["c(n)"] = theory.measured_concentration(graph, weights)
            for gamma in (0.0, 1.0):
                row[f"equation 9, gamma {gamma:g}"] = theory.objective(
                    weights, setting.sizes, gamma, worst
                )
        rows.append(row)
    return rows


def per_user(setting: Setting) -> Row | None:
    """Equation 9 of weights that every user scales to its own whole budget, by the users' mean weights."""
    graph = setting.measured()
    if graph is None:
        return None
    found: Row = {}
    for exponent in EXPONENTS:
        mean = normalized_weights(graph, setting.sizes, exponent)
        found[f"exponent {exponent:g}"] = theory.objective(mean, setting.sizes, 1.0)
    return found


def solved(setting: Setting) -> Row | None:
    """Equation 9 at its optimum, for each gamma; None if the graph is too large."""
    graph = setting.measured()
    if graph is None or len(graph.task) > _MOST_SOLVED:
        return None
    return {
        f"gamma {gamma:g}": theory.solve_task_weights(graph, gamma=gamma).objective
        for gamma in (0.0, 1.0)
    }


def normalized_weights(graph: Graph, sizes: Array, exponent: float) -> Array:
    """The mean weight of each task's users, if each scales n_i^-exponent to its own budget, [tasks]."""
    raw = sizes[graph.task] ** -exponent
    spent = np.bincount(graph.user, weights=raw**2, minlength=graph.users)
    own = raw / np.sqrt(spent[graph.user])
    return np.asarray(np.bincount(graph.task, weights=own, minlength=graph.tasks) / sizes)


def write(setting: Setting, folder: Path) -> list[Path]:
    """Write the tables and the figure; return their paths."""
    tables = {
        "weights": weights(setting),
        "bounds": bounds(setting),
        "spending": spending(setting),
    }
    paths = []
    for name, rows in tables.items():
        paths.append(folder / f"theory-{name}.csv")
        write_table(paths[-1], rows)
    paths.append(folder / "theory.png")
    write_figure(paths[-1], figure(setting))
    return paths


def figure(setting: Setting, exponents: Sequence[float] = EXPONENTS) -> "Figure":
    """Task sizes on the left; on the right the weights, against the size."""
    sizes = np.sort(setting.sizes)[::-1]
    with style():
        drawing = new_figure(10, 3.8)
        left, right = drawing.subplots(1, 2)
        left.plot(np.arange(1, len(sizes) + 1), sizes, drawstyle="steps-mid")
        left.set_xlabel("task, by size")
        left.set_ylabel("users n_i")
        left.set_yscale("log")
        for number, exponent in enumerate(exponents):
            weights = theory.optimal_task_weights(sizes, exponent, setting.users, setting.beta)
            color = viridis(0.45 * number)
            right.plot(sizes, weights, label=f"exponent {exponent:g}", color=color)
        right.set_xscale("log")
        right.set_yscale("log")
        right.set_xlabel("users n_i")
        right.set_ylabel("weight omega_i (equation 11)")
        right.legend(frameon=False)
        drawing.tight_layout()
    return drawing
