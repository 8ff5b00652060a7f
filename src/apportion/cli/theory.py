"""``apportion theory``: what the paper's theorems promise for given task sizes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from apportion.cli.data import DATA
from apportion.cli.demo import RESULTS
from apportion.cli.output import Output
from apportion.cli.reading import Name
from apportion.errors import DataError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence


def theory(
    to: Output,
    counts: Annotated[
        Path | None, typer.Option(help="CSV or Parquet file with a number of users per task.")
    ] = None,
    column: Annotated[str, typer.Option(help="Its column.")] = "count",
    data: Annotated[
        Name | None, typer.Option(help="A known data set, whose graph is taken as public.")
    ] = None,
    path: Annotated[Path | None, typer.Option(help="Its archive or folder.")] = None,
    tasks: Annotated[int | None, typer.Option(min=1, help="m, for sizes by a power law.")] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="|Omega|, for a power law.")] = None,
    power: Annotated[
        float, typer.Option(help="Sizes are in proportion to rank^-POWER; 0 for equal ones.")
    ] = 1.0,
    users: Annotated[
        int | None, typer.Option(min=2, help="n; needed but for --data, which has it.")
    ] = None,
    epsilon: Annotated[float, typer.Option(help="Privacy budget.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Probability that the guarantee may fail.")] = 1e-5,
    dimension: Annotated[int, typer.Option(min=1, help="d, of the models.")] = 32,
    strong_convexity: Annotated[
        float, typer.Option("--lambda", help="Strong convexity of the loss.")
    ] = 0.1,
    out: Annotated[Path, typer.Option(help="Folder for the tables and the figure.")] = RESULTS
    / "theory",
) -> None:
    """Optimal weights, the bounds of all theorems, the gains R_0 and R_1, and who would overspend.

    From public or simulated task sizes: nothing here is private. Bounds are up to constants and logarithms,
    so compare them with one another.

    [bold]Examples[/bold]

      apportion theory --users 10000 --tasks 100 --rows 200000 --power 1

      apportion theory --counts sizes.csv --column users --users 50000

      apportion theory --data ml-1m --path ml-1m.zip --epsilon 5
    """
    from apportion.studies import theory as study
    from apportion.studies.output import check_output

    check_output(out)
    given = {"users": users, "tasks": tasks, "rows": rows, "power": power}
    with to.status("reading ..."):
        sizes, people, graph = _sizes(counts, column, data, path, given)
    setting = study.Setting(sizes, people, epsilon, delta, dimension, strong_convexity, graph)
    found = {
        "gains": study.gains(setting),
        "bounds": study.bounds(setting),
        "closed_forms": study.adaptive_bounds(setting),
        "spending": study.spending(setting),
        "equation_9": study.solved(setting),
        "per_user": study.per_user(setting),
    }
    paths = study.write(setting, out)
    to.result({**found, "files": [str(path) for path in paths]})
    of_whom = "of the data" if graph is not None else "drawn as in Assumption 4.1"
    titles = {
        "gains": "task sizes, and the gain that adaptive weights are promised",
        "bounds": "excess risk, by the exponent of the weights (0: uniform)",
        "closed_forms": "the closed forms",
        "spending": f"what the user who spends most spends, users {of_whom}",
        "equation_9": "equation 9 solved, a constraint for every user",
        "per_user": "equation 9, gamma 1, if every user scales its weights to its own budget",
    }
    for name, title in titles.items():
        shown: Any = found[name]
        if shown is not None:
            to.show(_table(title, shown if isinstance(shown, list) else [shown]))
    to.show_paths(paths)


def _sizes(
    counts: Path | None, column: str, data: Name | None, path: Path | None, given: dict[str, Any]
) -> tuple[Any, int, Any]:
    """Task sizes, the number of users, and the graph if there is one."""
    from apportion.studies import theory as study
    from apportion.studies.benchmark import read_benchmarks

    ways = [counts is not None, data is not None, given["tasks"] is not None]
    if sum(ways) != 1:
        raise ParameterError("give one of --counts FILE, --data NAME, or --tasks with --rows")
    if data is not None:
        place = DATA / f"{data.value}.zip" if path is None else path
        if path is None and not place.exists():
            raise DataError(f"there is no {place}: give --path")
        studied = read_benchmarks(data.value, place)[0].studied
        taken = studied.of_items(studied.graph.task_sizes().nonzero()[0])
        graph = taken.graph
        return graph.task_sizes(), int((graph.user_sizes() > 0).sum()), graph
    if given["users"] is None:
        raise ParameterError("--users is needed: the number of all users, n")
    if counts is not None:
        sizes = study.read_sizes(counts, column)
        if sizes.max() > given["users"]:
            raise DataError(f"a task of {counts} has more users than --users {given['users']:,}")
        return sizes, given["users"], None
    if given["rows"] is None:
        raise ParameterError("--tasks needs --rows, the number of all pairs of users and tasks")
    return study.power_law(**given), given["users"], None


def _table(title: str, rows: "Sequence[dict[str, Any]]") -> Table:
    """One row as two columns, several as a table."""
    table = Table(title=title, title_justify="left", show_header=len(rows) > 1)
    if len(rows) == 1:
        table.add_column()
        table.add_column(justify="right")
        for name, value in rows[0].items():
            table.add_row(name, _number(value))
    else:
        for place, name in enumerate(rows[0]):
            table.add_column(name, justify="left" if place == 0 else "right")
        for row in rows:
            table.add_row(*(_number(value) for value in row.values()))
    return table


def _number(value: Any) -> str:
    if isinstance(value, str):
        return value
    whole = isinstance(value, int) or 1e3 <= abs(value) < 1e9
    return f"{value:,.0f}" if whole else f"{value:,.4g}"
