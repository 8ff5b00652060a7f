"""``apportion reproduce``: the paper's experiments."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from apportion.cli import reproduce_all, reproduce_recommender
from apportion.cli.demo import RESULTS
from apportion.cli.output import Commands, Output, add_command

if TYPE_CHECKING:
    from collections.abc import Sequence


class Solver(StrEnum):
    """Which algorithm a study runs."""

    ridge = "ridge"
    descent = "descent"


app = typer.Typer(
    help="Run the paper's experiments: a table and figures each.",
    no_args_is_help=True,
    cls=Commands,
)


@app.callback()
def _group() -> None:
    """Run the paper's experiments: a table and figures each."""


def synthetic(
    to: Output,
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions, each with its own data.")] = 10,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="Privacy budget; repeat for several.")
    ] = None,
    skew: Annotated[
        list[float] | None, typer.Option(help="Power-law parameter a; repeat for several.")
    ] = None,
    users: Annotated[int, typer.Option(min=2, help="Users to simulate.")] = 10_000,
    solver: Annotated[
        Solver, typer.Option(help="ridge: Algorithm 1; descent: Algorithm 2.")
    ] = Solver.ridge,
    out: Annotated[Path, typer.Option(help="Folder for the table and figures.")] = RESULTS
    / "synthetic",
) -> None:
    """Test error against the weight exponent on simulated tasks of skewed sizes.

    100 tasks, ridge regression or gradient descent, exact counts declared public as in the paper. Ridge
    regression is run as the paper writes it (Algorithm 1), too.

    [bold]Examples[/bold]

      apportion reproduce synthetic

      apportion reproduce synthetic --solver descent

      apportion reproduce synthetic --seeds 3 --epsilon 1 --epsilon 2 --skew 1
    """
    from apportion.studies import synthetic as study
    from apportion.studies.output import check_output

    check_output(out)
    settings = study.Synthetic(
        epsilons=epsilon or study.EPSILONS,
        skews=skew or study.SKEWS,
        seeds=seeds,
        users=users,
        solver=solver.value,
    )
    with to.progress() as progress:
        models = progress.add_task("training", total=settings.fits)
        rows = settings.run(on_fit=lambda: progress.advance(models))
    paths = study.write(rows, settings, out)
    for table in _tables(study.summarize(rows)):
        to.show(table)
    to.show_paths(paths)
    to.result({"rows": list(rows), "files": [str(path) for path in paths]})


def gains(
    to: Output,
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions, each with its own data.")] = 5,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="Privacy budget; repeat for several.")
    ] = None,
    skew: Annotated[
        list[float] | None, typer.Option(help="Power-law parameter a; repeat for several.")
    ] = None,
    users: Annotated[int, typer.Option(min=2, help="Users to simulate.")] = 10_000,
    out: Annotated[Path, typer.Option(help="Folder for the table and the figure.")] = RESULTS
    / "gains",
) -> None:
    """Do R_0 and R_1 predict what happens? Promised gains beside measured ones, by skew.

    The gain is the excess empirical risk with uniform weights over that with adaptive weights, on the tasks
    of 'reproduce synthetic'.

    [bold]Examples[/bold]

      apportion reproduce gains

      apportion reproduce gains --skew 1 --epsilon 20 --seeds 2
    """
    from apportion.studies import gains as study
    from apportion.studies.output import check_output

    check_output(out)
    settings = study.Gains(epsilon or study.EPSILONS, skew or study.SKEWS, seeds, users)
    with to.progress() as progress:
        models = progress.add_task("training", total=settings.fits)
        rows = settings.run(on_fit=lambda: progress.advance(models))
    paths = study.write(rows, out)
    to.show(_gains_table(study.summarize(rows)))
    to.show_paths(paths)
    to.result({"rows": list(rows), "files": [str(path) for path in paths]})


def jester(
    to: Output,
    data: Annotated[
        Path, typer.Option(help="npz file with arrays user, item (joke, from 0 on) and rating.")
    ],
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions, each with its own split.")] = 5,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="Privacy budget; repeat for several.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the table and the figure.")] = RESULTS
    / "jester",
) -> None:
    """Predict ratings of jokes from ratings of ten gauge jokes, on real data with skewed task sizes.

    Uniform against adaptive budgets, ridge regression and gradient descent; counts are private.

    [bold]Examples[/bold]

      apportion reproduce jester --data jester-1.npz

      apportion reproduce jester --data jester-1.npz --epsilon 1 --seeds 2
    """
    from apportion.studies import jester as study
    from apportion.studies.output import check_output

    check_output(out)
    settings = study.Jester(data, epsilons=epsilon or study.EPSILONS, seeds=seeds)
    with to.progress() as progress:
        models = progress.add_task("training", total=settings.fits)
        rows = settings.run(on_fit=lambda: progress.advance(models))
    paths = study.write(rows, out)
    to.show(_jester_table(rows))
    to.show_paths(paths)
    to.result({"rows": list(rows), "files": [str(path) for path in paths]})


add_command(app, "all", reproduce_all.reproduce_all)
for _command in reproduce_recommender.COMMANDS:
    add_command(app, _command.__name__, _command)
add_command(app, "synthetic", synthetic)
add_command(app, "gains", gains)
add_command(app, "jester", jester)


def _gains_table(summary: "Sequence[dict[str, Any]]") -> Table:
    """A row per algorithm and skew: what is promised, and what was measured at every epsilon."""
    epsilons = sorted({entry["epsilon"] for entry in summary})
    table = Table(title="excess risk, uniform over adaptive weights", title_justify="left")
    table.add_column("algorithm")
    titles = ("a", "R", "R per user", *(f"epsilon {epsilon:g}" for epsilon in epsilons))
    for title in titles:
        table.add_column(title, justify="right", overflow="fold")
    for name, skew in dict.fromkeys((e["algorithm"], e["skew"]) for e in summary):
        here = {e["epsilon"]: e for e in summary if (e["algorithm"], e["skew"]) == (name, skew)}
        any_of = here[epsilons[0]]
        promised = (f"{any_of['promised']:.2f}", f"{any_of['promised_per_user']:.2f}")
        measured = (f"{here[each]['gain']:.2f} ± {here[each]['error']:.0%}" for each in epsilons)
        table.add_row(name, f"{skew:g}", *promised, *measured)
    return table


def _jester_table(rows: "Sequence[dict[str, Any]]") -> Table:
    """A row per epsilon, solver and allocation; errors by task size and overall."""
    from apportion.studies.jester import BUCKETS, mean_and_error

    table = Table(title="test RMSE (ratings from -10 to 10), by task size", title_justify="left")
    names = ("tail", *(f"{b + 1}" for b in range(1, BUCKETS - 1)), "head")
    for title in ("epsilon", "model", "all", *names):
        table.add_column(title, justify="left" if title == "model" else "right")
    last = None
    for key in dict.fromkeys((r["epsilon"], r["solver"], r["allocation"]) for r in rows):
        if last is not None and key[0] != last:
            table.add_section()
        last = key[0]
        where = dict(zip(("epsilon", "solver", "allocation"), key, strict=True))
        columns = ["rmse", *(f"rmse_bucket_{b}" for b in range(BUCKETS))]
        numbers = [f"{mean_and_error(rows, column, **where)[0]:.3f}" for column in columns]
        table.add_row(f"{key[0]:g}", f"{key[1]}, {key[2]}", *numbers)
    return table


def _tables(summary: "Sequence[dict[str, Any]]") -> list[Table]:
    """One table per algorithm and skew: exponents down, epsilons across, the best of each marked."""
    tables = []
    for algorithm, skew in dict.fromkeys((e["algorithm"], e["skew"]) for e in summary):
        shown = [e for e in summary if (e["algorithm"], e["skew"]) == (algorithm, skew)]
        here = {(e["exponent"], e["epsilon"]): e for e in shown}
        exponents = sorted({exponent for exponent, _ in here})
        epsilons = sorted({epsilon for _, epsilon in here})
        best = {e: min(exponents, key=lambda x: here[x, e]["rmse"]) for e in epsilons}
        title = f"test RMSE, {algorithm}, skew a = {skew:g} (*: best)"
        table = Table(title=title, title_justify="left")
        table.add_column("exponent", justify="right", overflow="fold")
        for epsilon in epsilons:
            table.add_column(f"epsilon {epsilon:g}", justify="right", overflow="fold")
        for exponent in exponents:
            cells = [f"{here[exponent, epsilon]['rmse']:.4f}" for epsilon in epsilons]
            marked = [
                f"[bold green]*{cell}[/]" if best[epsilon] == exponent else cell
                for cell, epsilon in zip(cells, epsilons, strict=True)
            ]
            table.add_row(f"{exponent:.3g}", *marked)
        table.add_section()
        uniform = [here[exponents[0], epsilon] for epsilon in epsilons]
        costs = [f"{entry['excess']:+.1%}" for entry in uniform]
        table.add_row(f"{exponents[0]:g} over 1/2", *costs)
        if any(entry["excess_error"] for entry in uniform):
            table.add_row("+-", *(f"{entry['excess_error']:.1%}" for entry in uniform))
        tables.append(table)
    return tables
