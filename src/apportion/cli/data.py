"""``apportion data``: known data sets, and simulated ones like them."""

from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from apportion.cli.output import Commands, Output, add_command
from apportion.cli.reading import (
    DataSetName,
    Encoding,
    ItemColumn,
    Name,
    RatingColumn,
    Source,
    TimeColumn,
    UserColumn,
)
from apportion.cli.spark import Master, find_cluster, start_session
from apportion.errors import DataError, ParameterError

if TYPE_CHECKING:
    from apportion.data import Interactions

DATA = Path("apportion-data")


class Where(StrEnum):
    """Where data are simulated."""

    cpu = "cpu"
    spark = "spark"


app = typer.Typer(
    help="Fetch known data sets, or simulate data like them.", no_args_is_help=True, cls=Commands
)


def list_(to: Output) -> None:
    """Show the known data sets with their sizes and licenses.

    [bold]Examples[/bold]

      apportion data list
    """
    from apportion.data.datasets import DATA_SETS
    from apportion.data.simulate import SHAPES

    table = Table("name", show_lines=True)
    for title in ("users", "items", "rows"):
        table.add_column(title, justify="right")
    table.add_column("license")
    for name, data_set in DATA_SETS.items():
        shape = SHAPES[name]
        sizes = [f"{shape['users']:,}", f"{shape['items']:,}", f"{shape['rows']:,}"]
        table.add_row(name, *sizes, data_set.license)
    known = {name: {**SHAPES[name], "license": each.license} for name, each in DATA_SETS.items()}
    to.result({"data_sets": known})
    to.show(table)
    to.show("ml-20m and msd: as used for top-k recommendation, after the usual filters")


def fetch(
    to: Output,
    name: Annotated[Name, typer.Argument(help="Which data set.")],
    out: Annotated[Path, typer.Option(help="Folder for the archive.")] = DATA,
    url: Annotated[
        str | None, typer.Option(help="Another address (http or https) of the same archive.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Accept the license unasked.")] = False,
) -> None:
    """Fetch the original archive of a data set, and check it.

    Shows the license notice first. A fetch that was interrupted resumes where it stopped.

    [bold]Examples[/bold]

      apportion data fetch ml-1m

      apportion data fetch ml-20m --out ~/data --yes
    """
    from dataclasses import replace

    from apportion.data import datasets

    data_set = datasets.find_data_set(name.value)
    if url is not None:
        if not url.lower().startswith(("http://", "https://")):
            raise ParameterError(f"url must begin with http:// or https://, got {url!r}")
        data_set = replace(data_set, url=url)
    if yes:
        to.show(data_set.license)
    else:
        typer.echo(data_set.license, err=True)
        typer.confirm(f"Fetch {name.value} under these terms?", abort=True, err=True)
    with to.progress(in_bytes=True) as progress:
        task = progress.add_task(f"fetching {name.value}", total=None)
        path = datasets.fetch(
            data_set,
            out / f"{name.value}.zip",
            _open_url,
            lambda done, total: progress.update(task, completed=done, total=total or None),
        )
    if data_set.md5 is None:
        to.show("there is no published checksum to compare with")
    to.result({"files": [str(path)], "checked": data_set.md5 is not None})
    to.show_paths([path])


def _open_url(url: str, offset: int) -> tuple[IO[bytes], int]:
    """Open an address at an offset; also return the offset it really starts at."""
    import http.client
    from http import HTTPStatus
    from urllib import error, request

    headers = {"User-Agent": "apportion"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    try:
        response = request.urlopen(request.Request(url, headers=headers), timeout=60)
    except error.HTTPError as answer:
        answer.close()
        if offset and answer.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return _open_url(url, 0)  # nothing comes after what is there, which is not the archive
        raise DataError(f"{url} answered {answer.code} {answer.reason}") from None
    except (OSError, http.client.HTTPException, ValueError) as failure:
        reason = getattr(failure, "reason", None) or type(failure).__name__
        raise DataError(
            f"cannot reach {url}: {reason}; check the connection, or give another --url"
        ) from None
    resumed = response.status == HTTPStatus.PARTIAL_CONTENT
    if resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {offset}-"):
        response.close()
        return _open_url(url, 0)
    return response, offset if resumed else 0


def simulate(
    to: Output,
    out: Annotated[
        str, typer.Option(help="File to write: .parquet or .csv; with --engine spark a new folder.")
    ],
    like: Annotated[Name, typer.Option(help="The data set to imitate.")] = Name.ml_1m,
    users: Annotated[int | None, typer.Option(min=1, help="Users, if not as many.")] = None,
    items: Annotated[int | None, typer.Option(min=1, help="Items, if not as many.")] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Rows, if not as many.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same data.")] = 0,
    implicit: Annotated[bool, typer.Option("--implicit", help="Events without ratings.")] = False,
    engine: Annotated[
        Where, typer.Option(help="spark: any size, on a cluster, into a folder of Parquet files.")
    ] = Where.cpu,
    master: Master = None,
) -> None:
    """Simulate ratings or events with the size and the long tails of a known data set.

    Columns user, item and, unless the data set is one of events (ml-20m, msd), rating. Tastes are
    low-rank, so that there is something to learn.

    [bold]Examples[/bold]

      apportion data simulate --like ml-20m --out events.parquet

      apportion data simulate --users 1000 --items 500 --rows 30000 --out ratings.csv

      apportion data simulate --rows 100000000 --users 1000000 --items 50000 --engine spark --out events
    """
    cluster = find_cluster(engine.value, master, None)
    path = Path(out)
    if cluster is None and path.suffix.lower() not in (".parquet", ".csv"):
        raise typer.BadParameter("must end in .parquet or .csv", param_hint="'--out'")
    from apportion.data.files import check_folder
    from apportion.data.simulate import SHAPES, simulate_interactions

    if cluster is None:
        check_folder(path.parent)
    shape = SHAPES[like.value].copy()
    shape["users"], shape["items"] = users or shape["users"], items or shape["items"]
    shape["rows"] = rows or shape["rows"]
    if implicit:
        shape["rating_range"] = None
    with to.status("simulating ..."):
        if cluster is None:
            data = simulate_interactions(**shape, seed=seed)
            _write(data, path)
        else:
            from apportion.data.spark.frames import write_table
            from apportion.data.spark.simulate import simulate_in_spark

            write_table(simulate_in_spark(start_session(cluster.master), **shape, seed=seed), out)
    to.result({"files": [out]})
    to.show_paths([out])


def summary(
    to: Output,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="CSV, Parquet, folder or archive.")],
    data_set: DataSetName = None,
    user: UserColumn = None,
    item: ItemColumn = None,
    rating: RatingColumn = None,
    timestamp: TimeColumn = None,
    implicit: Annotated[bool, typer.Option("--implicit", help="Rows without ratings.")] = False,
    encoding: Encoding = None,
) -> None:
    """Show how many users, items and rows there are, how dense and how skewed they are.

    The figures are exact: they are for whoever has the data, and no release. Nothing of a private training
    may be chosen by them.

    [bold]Examples[/bold]

      apportion data summary ratings.csv
    """
    source = Source(
        data, data_set, user, item, rating, implicit, timestamp=timestamp, encoding=encoding
    )
    found = source.read().summary()
    to.result(found.to_dict())
    to.show(str(found), markup=False, soft_wrap=False)


def split(
    to: Output,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="CSV, Parquet, folder or archive.")],
    out: Annotated[Path, typer.Option(help="Folder for the two files.")],
    users: Annotated[
        bool, typer.Option("--users", help="Whole users, not rows, for a model of events.")
    ] = False,
    share: Annotated[
        float | None,
        typer.Option(show_default="0.2", help="Portion of the second file, between 0 and 1."),
    ] = None,
    data_set: DataSetName = None,
    user: UserColumn = None,
    item: ItemColumn = None,
    rating: RatingColumn = None,
    timestamp: TimeColumn = None,
    before: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="By time: rows before it, and from then on; a number or 2024-05-31.",
        ),
    ] = None,
    last: Annotated[
        int | None, typer.Option(min=1, help="By time: the last rows of every user, so many.")
    ] = None,
    leave_out: Annotated[
        int | None, typer.Option(min=1, help="At random so many rows of every user.")
    ] = None,
    implicit: Annotated[bool, typer.Option("--implicit", help="Rows without ratings.")] = False,
    encoding: Encoding = None,
    csv: Annotated[bool, typer.Option("--csv", help="CSV files; otherwise Parquet.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same split.")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files that are there already.")
    ] = False,
) -> None:
    """Split a file in two, to train a model on one part and to evaluate it with the other.

    Writes train and test: some rows of every user each, at random, or by time with --before or --last. With
    --users: train and others, with different users. Columns are user, item, rating and timestamp.

    [bold]Examples[/bold]

      apportion data split ratings.csv --out parts

      apportion data split plays.csv --implicit --timestamp time --last 1 --out parts

      apportion data split ml-1m.zip --data-set ml-1m --users --share 0.1 --out parts
    """
    from apportion.data.files import check_folder, written_whole

    ways = {"--before": before, "--last": last, "--leave-out": leave_out}
    given = [name for name, value in ways.items() if value is not None]
    if len(given) + users > 1:
        raise typer.BadParameter("goes with no other way to split", param_hint=f"'{given[0]}'")
    if given and share is not None:
        raise typer.BadParameter(f"does not go with {given[0]}", param_hint="'--share'")
    if (before is not None or last is not None) and timestamp is None:
        raise typer.BadParameter(
            "needs the column of times: --timestamp", param_hint=f"'{given[0]}'"
        )
    share = 0.2 if share is None else share
    if not 0 < share < 1:
        raise typer.BadParameter("must be between 0 and 1", param_hint="'--share'")
    check_folder(out)
    names = ("train", "others" if users else "test")
    paths = [out / f"{name}.{'csv' if csv else 'parquet'}" for name in names]
    for path in paths:
        if path.exists() and data.exists() and path.samefile(data):
            raise ParameterError(f"{path} is what is to be split; choose another folder")
        if path.exists() and not overwrite:
            raise ParameterError(f"{path} exists already; --overwrite replaces it")
    with to.status("splitting ..."):
        source = Source(
            data, data_set, user, item, rating, implicit, timestamp=timestamp, encoding=encoding
        )
        whole, shares = source.read(), (1 - share, share)
        parts: tuple[Interactions, ...]
        if before is not None:
            parts = whole.split_time(before)
        elif (count := last or leave_out) is not None:
            parts = whole.leave_out(count, last=last is not None, seed=seed)
        else:
            parts = whole.split_users(shares, seed) if users else whole.split(shares, seed)
        with ExitStack() as both:  # or none
            places = [both.enter_context(written_whole(path)) for path in paths]
            for place, part in zip(places, parts, strict=True):
                _write(part, place)
    to.result({"files": [str(path) for path in paths]})
    to.show_paths(paths)


add_command(app, "list", list_)
for _command in (fetch, simulate, summary, split):
    add_command(app, _command.__name__, _command)


def _write(data: "Interactions", path: Path) -> None:
    """As the path's ending says."""
    from apportion.data.files import write_frame

    write_frame(data.to_frame(), path)
