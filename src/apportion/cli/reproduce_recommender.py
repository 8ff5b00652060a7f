"""``apportion reproduce``, the part on recommenders: tradeoff, exponent, slices, neighbors and skew."""

import math
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from apportion.cli.data import DATA
from apportion.cli.demo import RESULTS
from apportion.cli.output import Output
from apportion.cli.reading import Name
from apportion.errors import DataError

if TYPE_CHECKING:
    from apportion.studies.benchmark import Benchmark, Row


class Protocol(StrEnum):
    """What is measured."""

    rating = "rating"
    top_k = "top-k"


DataOption = Annotated[Name, typer.Option(help="Which data set.")]
PathOption = Annotated[
    Path | None,
    typer.Option(help="Its archive or folder; by default where 'apportion data fetch' puts it."),
]
ProtocolOption = Annotated[
    Protocol | None, typer.Option(help="rating: RMSE; top-k: Recall@20. By default all there are.")
]
EpsilonOption = Annotated[
    list[float] | None, typer.Option(help="Privacy budget; repeat for several. Default: 1, 5, 20.")
]
HeldOutOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="top-k: users for validation, and as many for the test; for archives smaller than the "
        "original. Example: 100",
    ),
]
SeedsOption = Annotated[
    int, typer.Option(min=1, help="Repetitions, each with its own split and noise.")
]
OutOption = Annotated[
    Path | None,
    typer.Option(help=f"Folder for tables and figures. Default: {RESULTS}/STUDY/DATA."),
]


def tradeoff(
    to: Output,
    data: DataOption,
    path: PathOption = None,
    protocol: ProtocolOption = None,
    epsilon: EpsilonOption = None,
    seeds: SeedsOption = 3,
    held_out: HeldOutOption = None,
    out: OutOption = None,
) -> None:
    """Quality against epsilon: ALS and SGD, uniform and tail sampling, adaptive weights.

    [bold]Examples[/bold]

      apportion reproduce tradeoff --data ml-1m

      apportion reproduce tradeoff --data ml-1m --path ml-1m.zip --protocol rating --epsilon 5
    """
    from apportion.studies import tradeoff as study
    from apportion.studies.benchmark import EPSILONS

    folder = _folder(out, "tradeoff", data)
    benchmarks = _read(to, data, path, protocol, held_out)
    settings = study.Tradeoff(benchmarks, epsilon or EPSILONS, seeds)
    rows = _train(to, settings)
    _show(to, rows, lambda row: row["method"])
    _finish(to, study.write(rows, folder), rows=rows)


def exponent(
    to: Output,
    data: DataOption,
    path: PathOption = None,
    protocol: ProtocolOption = None,
    epsilon: EpsilonOption = None,
    exponent: Annotated[
        list[float] | None,
        typer.Option(help="Weight exponent, from 0 to 1; repeat. Default: 0, 1/4, 1/3, 1/2, 1."),
    ] = None,
    seeds: SeedsOption = 3,
    held_out: HeldOutOption = None,
    out: OutOption = None,
) -> None:
    """Quality against epsilon for several weight exponents (the paper's mu).

    [bold]Examples[/bold]

      apportion reproduce exponent --data ml-1m

      apportion reproduce exponent --data ml-1m --exponent 0 --exponent 0.25 --epsilon 1
    """
    from apportion.studies import exponent as study
    from apportion.studies.benchmark import EPSILONS

    folder = _folder(out, "exponent", data)
    benchmarks = _read(to, data, path, protocol, held_out)
    exponents = exponent or study.EXPONENTS
    settings = study.Exponent(benchmarks, epsilon or EPSILONS, seeds, exponents)
    rows = _train(to, settings)
    _show(to, rows, _with_exponent)
    _finish(to, study.write(rows, folder), rows=rows)


def slices(
    to: Output,
    data: DataOption,
    path: PathOption = None,
    protocol: ProtocolOption = None,
    epsilon: EpsilonOption = None,
    seeds: SeedsOption = 3,
    held_out: HeldOutOption = None,
    out: OutOption = None,
) -> None:
    """Quality by popularity of the items, in fifths from the tail to the head.

    [bold]Examples[/bold]

      apportion reproduce slices --data ml-1m

      apportion reproduce slices --data ml-1m --protocol top-k --epsilon 20
    """
    from apportion.studies import slices as study
    from apportion.studies.benchmark import EPSILONS

    folder = _folder(out, "slices", data)
    benchmarks = _read(to, data, path, protocol, held_out)
    rows = _train(to, study.Slices(benchmarks, epsilon or EPSILONS, seeds))
    _show_buckets(to, rows, _with_exponent)
    _finish(to, study.write(rows, folder), rows=rows)


def neighbors(
    to: Output,
    data: DataOption,
    path: PathOption = None,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="Privacy budget; repeat for several. Default: 1.")
    ] = None,
    query: Annotated[
        list[str] | None,
        typer.Option(
            help="Part of a title to look at; repeat. By default the paper's five films, those that the "
            "data set has; if none, five items from popular to rare."
        ),
    ] = None,
    exponent: Annotated[
        float, typer.Option(help="Weight exponent of AdaDPALS, from 0 to 1; the paper's is 1/3.")
    ] = 1 / 3,
    seeds: SeedsOption = 3,
    held_out: HeldOutOption = None,
    out: OutOption = None,
) -> None:
    """How many of an item's neighbors survive privacy, and what they look like.

    Nearness is the dot product. Shows the lists of the largest epsilon; the file has all.

    [bold]Examples[/bold]

      apportion reproduce neighbors --data ml-1m

      apportion reproduce neighbors --data ml-1m --query Pinocchio --query "Star Wars" --epsilon 20
    """
    from apportion.studies import neighbors as study

    folder = _folder(out, "neighbors", data)
    benchmark = _read(to, data, path, None, held_out)[-1]  # top-k is the last, if there is one
    titles = study.titles_of(data.value, _path(data, path))
    epsilons = epsilon or study.EPSILONS
    settings = study.Neighbors(benchmark, titles, query or (), epsilons, seeds, exponent)
    for title in settings.not_there:
        to.show(f"{data.value} has no {title}", soft_wrap=False)
    found = _train(to, settings)
    for table in _neighbor_tables(found.lists, max(epsilons)):
        to.show(table)
    for title in found.unknown:
        to.show(f"not all models know {title}", soft_wrap=False)
    title = f"share of the top {study.K} neighbors that ALS has too"
    _show_buckets(to, found.overlap, lambda row: row["method"], title)
    _finish(to, study.write(found, folder), overlap=found.overlap, lists=found.lists)


def skew(
    to: Output,
    data: Annotated[list[Name], typer.Option(help="Which data set; repeat for several.")],
    path: Annotated[
        list[Path] | None,
        typer.Option(help="Archives or folders, in the order of --data; see 'tradeoff --help'."),
    ] = None,
    held_out: HeldOutOption = None,
    out: Annotated[Path, typer.Option(help="Folder for the tables and the figure.")] = RESULTS
    / "skew",
) -> None:
    """How skewed data sets are: users, items and rows, the most popular items' share, R_0 and R_1.

    Ratings; or, for data that only have the top-k protocol, events: of the items of the training users.

    [bold]Examples[/bold]

      apportion reproduce skew --data ml-1m

      apportion reproduce skew --data ml-1m --path ml-1m.zip --data ml-20m --path ml-20m.zip
    """
    if path and len(path) != len(data):
        raise typer.BadParameter("give one for each --data, or none", param_hint="'--path'")
    from apportion.studies import skew as study
    from apportion.studies.output import check_output

    check_output(out)
    paths: Sequence[Path | None] = path or [None] * len(data)
    benchmarks = [
        _read(to, name, place, None, held_out)[0] for name, place in zip(data, paths, strict=True)
    ]
    found = study.run(benchmarks)
    to.show(skew_table(found.statistics))
    _finish(to, study.write(found, out), statistics=found.statistics)


COMMANDS: tuple[Callable[..., None], ...] = (tradeoff, exponent, slices, neighbors, skew)


def skew_table(statistics: "Sequence[dict[str, Any]]") -> Table:
    """A row per data set, of nine columns in the eighty characters of a terminal."""
    from apportion.studies import skew as study

    shares = [f"top {share:.0%}" for share in study.SHARES]
    title = (
        "users, items and rows; the share of the most popular items; the gains that theory promises"
    )
    table = Table(title=title, title_justify="left", padding=(0, 0, 0, 1))
    for column in ("data", "n", "m", "|Omega|", *shares, "R_0", "R_1"):
        table.add_column(column, justify="left" if column == "data" else "right", no_wrap=True)
    for entry in statistics:
        sizes = [f"{entry[name]:,}" for name in ("users", "items", "rows")]
        tops = [f"{entry[f'top_{share:g}']:.1%}" for share in study.SHARES]
        gains = [f"{entry[name]:.2f}" for name in ("R_0", "R_1")]
        table.add_row(entry["data"], *sizes, *tops, *gains)
    return table


def _folder(out: Path | None, study: str, data: Name) -> Path:
    from apportion.studies.output import check_output

    folder = RESULTS / study / data.value if out is None else out
    check_output(folder)
    return folder


def _path(data: Name, path: Path | None) -> Path:
    place = DATA / f"{data.value}.zip" if path is None else path
    if path is None and not place.exists():
        raise DataError(
            f"there is no {place}: run 'apportion data fetch {data.value}', or give --path"
        )
    return place


def _read(
    to: Output,
    data: Name,
    path: Path | None,
    protocol: Protocol | None,
    held_out: int | None,
) -> "list[Benchmark]":
    from apportion.studies.benchmark import read_benchmarks

    place = _path(data, path)
    with to.status(f"reading {data.value} ..."):
        wanted = None if protocol is None else protocol.value
        return read_benchmarks(data.value, place, wanted, held_out)


def _train(to: Output, settings: Any) -> Any:
    """What a study finds, under a progress bar."""
    with to.progress() as progress:
        models = progress.add_task("training", total=settings.fits)
        return settings.run(on_fit=lambda: progress.advance(models))


def _with_exponent(row: "Row") -> str:
    from apportion.studies.exponent import name_of

    exponent = row["weight_exponent"]
    return row["method"] if exponent is None else f"{row['method']}, exponent {name_of(exponent)}"


def _show(to: Output, rows: "Sequence[Row]", name: "Callable[[Row], str]") -> None:
    """A table for each protocol: a row per model, a column per epsilon; with errors over seeds."""
    from apportion.studies.comparison import mean_and_error, of_protocols

    for protocol, here in of_protocols(rows).items():
        named = [{**row, "name": name(row)} for row in here]
        epsilons = sorted({row["epsilon"] for row in named})
        title = f"{named[0]['data']}, {protocol}: test {named[0]['metric']}"
        table = Table(title=title, title_justify="left")
        table.add_column("model")
        for epsilon in epsilons:
            private = not math.isinf(epsilon)
            table.add_column(f"epsilon {epsilon:g}" if private else "not private", justify="right")
        for label in dict.fromkeys(row["name"] for row in named):
            cells = []
            for epsilon in epsilons:
                if any(row["name"] == label and row["epsilon"] == epsilon for row in named):
                    mean, error = mean_and_error(named, name=label, epsilon=epsilon)
                    cells.append(f"{mean:.4f} +- {error:.4f}" if error else f"{mean:.4f}")
                else:
                    cells.append("")
            table.add_row(label, *cells)
        to.show(table)


def _show_buckets(
    to: Output,
    rows: "Sequence[Row]",
    name: "Callable[[Row], str]",
    title: str | None = None,
) -> None:
    """A row per epsilon and model, a column per bucket; a table for each protocol, if there are any."""
    from apportion.studies.benchmark import BUCKETS
    from apportion.studies.comparison import mean_and_error, of_protocols

    parts = {title: rows} if title else of_protocols(rows)
    for part, here in parts.items():
        named = [{**row, "name": name(row)} for row in here]
        heading = f"{named[0]['data']}, {part}"
        columns = [f"bucket_{b}" for b in range(BUCKETS)]
        if title is None:
            heading += f": test {named[0]['metric']} by popularity"
            columns = ["test", *columns]
        table = Table(title=heading, title_justify="left")
        titles = ("tail", *(f"{b + 1}" for b in range(1, BUCKETS - 1)), "head")
        titles = titles if title else ("all", *titles)
        for column in ("epsilon", "model", *titles):
            table.add_column(column, justify="left" if column == "model" else "right")
        last = None
        for epsilon, label in dict.fromkeys((row["epsilon"], row["name"]) for row in named):
            if last is not None and epsilon != last:
                table.add_section()
            last = epsilon
            where = {"epsilon": epsilon, "name": label}
            cells = [f"{mean_and_error(named, column, **where)[0]:.3f}" for column in columns]
            table.add_row(f"{epsilon:g}", label, *cells)
        to.show(table)


def _neighbor_tables(lists: "Sequence[Row]", epsilon: float) -> list[Table]:
    """A table per item that is looked at, its neighbors by each method side by side."""
    here = [row for row in lists if row["epsilon"] == epsilon]
    tables = []
    for query in dict.fromkeys(row["query"] for row in here):
        rows = [row for row in here if row["query"] == query]
        methods = list(dict.fromkeys(row["method"] for row in rows))
        facts = _facts(rows[0]["query_genres"], rows[0]["query_count"])
        title = escape(f"{query}: {facts}; epsilon {epsilon:g}")
        table = Table(title=title, title_justify="left", show_lines=True)
        for method in methods:
            table.add_column(method, overflow="fold", ratio=1)
        for rank in dict.fromkeys(row["rank"] for row in rows):
            cells = [
                f"{escape(row['title'])}\n[dim]{escape(_facts(row['genres'], row['count']))}[/dim]"
                for row in rows
                if row["rank"] == rank
            ]
            table.add_row(*cells)
        tables.append(table)
    return tables


def _facts(genres: str, count: int) -> str:
    users = f"{count:,} users"
    return f"{genres}, {users}" if genres else users


def _finish(to: Output, paths: Sequence[Path], **found: "Sequence[Row]") -> None:
    """What was found and which files were written."""
    to.show_paths(paths)
    values = {name: list(rows) for name, rows in found.items()}
    to.result({**values, "files": [str(path) for path in paths]})
