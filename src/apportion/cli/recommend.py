"""``apportion recommend``: the best items for a history, or for a file of histories."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from apportion.cli.output import Output
from apportion.cli.reading import (
    Encoding,
    ItemColumn,
    Model,
    Positives,
    RatingColumn,
    Source,
    UserColumn,
    read_id,
    shown_id,
)
from apportion.errors import DataError, printable

if TYPE_CHECKING:
    import polars as pl

    from apportion.data import Interactions
    from apportion.recommend.recommender import Recommender


def recommend(
    to: Output,
    model: Model,
    history: Annotated[
        str | None,
        typer.Option(metavar="ITEMS", help="ITEM=RATING,... or, for a model of events, ITEM,..."),
    ] = None,
    histories: Annotated[
        Path | None, typer.Option(help="File of many users' histories, CSV or Parquet.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="File for the lists of --histories: .parquet or .csv."),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many items.")] = 10,
    user: UserColumn = None,
    item: ItemColumn = None,
    rating: RatingColumn = None,
    positives: Positives = None,
    encoding: Encoding = None,
) -> None:
    """Recommend items for one history, or for every user of a file.

    Needs the model and the histories alone, not the data that the model was trained on. Items of a
    history are not recommended; items that the model does not know are left out.

    [bold]Examples[/bold]

      apportion recommend model --history "318=5,296=4"

      apportion recommend events-model --history "42,17,99" -k 5 --json

      apportion recommend model --histories ratings.parquet --out lists.parquet
    """
    if (history is None) == (histories is None):
        raise typer.BadParameter(
            "give one of --history and --histories", param_hint="'--history' / '--histories'"
        )
    if histories is not None and out is None:
        raise typer.BadParameter("needs --out, a file for the lists", param_hint="'--histories'")
    if histories is None and out is not None:
        raise typer.BadParameter("goes with --histories only", param_hint="'--out'")
    from apportion.data.files import check_folder, write_frame
    from apportion.recommend.files import load

    if histories is not None and out is not None:
        if out.suffix.lower() not in (".parquet", ".csv"):
            raise typer.BadParameter("must end in .parquet or .csv", param_hint="'--out'")
        check_folder(out.parent)
        recommender = load(model)
        explicit = recommender.released.fold_in.feedback == "explicit"
        if explicit and positives is not None:
            raise typer.BadParameter(
                "is for models of events; this is one of ratings", param_hint="'--positives'"
            )
        source = Source(
            histories, None, user, item, rating, not explicit, positives, encoding=encoding
        )
        data = source.read(like=recommender.item_ids)
        lists = _lists(recommender, data, k, to)
        write_frame(_readable(lists) if out.suffix.lower() == ".csv" else lists, out)
        to.result({"files": [str(out)]})
        to.show_paths([out])
    elif history is not None:
        _recommend_one(to, load(model), history, k)


def _recommend_one(to: Output, model: "Recommender", history: str, k: int) -> None:
    given = _parse_history(model, history)
    known = set(model.item_ids.tolist())
    unknown = [shown_id(item) for item in given if item not in known]
    given = {item: rating for item, rating in given.items() if item in known}
    if not given:
        raise DataError("the model knows none of these items")
    explicit = model.released.fold_in.feedback == "explicit"
    ids, scores = model.recommend(given if explicit else list(given), k=k)
    titles = titles_of(model, ids)
    rows: list[dict[str, Any]] = [
        {"item": shown_id(item), "title": title, "score": float(score)}
        for item, title, score in zip(ids, titles, scores, strict=True)
    ]
    to.result({"recommendations": rows, "unknown": unknown})
    if unknown:
        names = ", ".join(str(item) for item in unknown)
        to.show(
            f"not known to the model, left out: {printable(names)}", markup=False, soft_wrap=False
        )
    to.show(item_table(ids, titles, scores, "score"))


def _parse_history(model: "Recommender", text: str) -> dict[Any, float]:
    """{item: rating}; ratings are 1 where the model needs none."""
    explicit = model.released.fold_in.feedback == "explicit"
    history: dict[Any, float] = {}
    for entry in (piece.strip() for piece in text.split(",") if piece.strip()):
        name, rating = entry, 1.0
        if explicit:
            name, separator, number = (piece.strip() for piece in entry.rpartition("="))
            try:
                rating = float(number)
            except ValueError:
                separator = ""
            if not separator:
                raise DataError(
                    f"this model was trained on ratings: {entry!r} must be ITEM=RATING, as in 318=5"
                )
        if not explicit and "=" in name and model.item_ids.dtype.kind != "O":
            raise DataError("this model was trained on events: name items alone, as in 318,296")
        item = read_id(name, model.item_ids)
        if item in history:
            raise DataError(f"the history names {name!r} twice")
        history[item] = rating
    if not history:
        raise DataError("the history is empty: name items, separated by commas")
    return history


def _lists(model: "Recommender", histories: "Interactions", k: int, to: Output) -> "pl.DataFrame":
    """The table of ``recommend_many``, under a progress bar."""
    if len(histories.by_user.other) == 0:
        raise DataError("the file of histories has no rows")
    with to.progress(counted=False) as progress:
        task = progress.add_task("recommending", total=histories.users)
        return model.recommend_many(
            histories, k, on_users=lambda users: progress.advance(task, users)
        )


def _readable(lists: "pl.DataFrame") -> "pl.DataFrame":
    """Ids that are bytes as text, which is all that a CSV file can hold."""
    import polars as pl

    binary = [column for column in lists if column.dtype == pl.Binary]
    return lists.with_columns(
        pl.Series(column.name, [shown_id(value) for value in column]) for column in binary
    )


def titles_of(model: "Recommender", ids: Any) -> list[str]:
    """The titles of items by their ids, empty where there is none."""
    from apportion.data.ids import match_ids

    if model.released.titles is None:
        return [""] * len(ids)
    return [str(title) for title in model.released.titles[match_ids(ids, model.item_ids)]]


def item_table(ids: Any, titles: list[str], scores: Any = None, score: str = "") -> Table:
    """Items with their titles, if any has one, and their scores, if given."""
    table = Table()
    table.add_column("item", justify="left" if ids.dtype.kind == "O" else "right", overflow="fold")
    if any(titles):
        table.add_column("title", overflow="fold")
    if scores is not None:
        table.add_column(score, justify="right")
    for row, (item, title) in enumerate(zip(ids, titles, strict=True)):
        cells = [escape(printable(shown_id(item)))]
        cells += [escape(printable(title))] if any(titles) else []
        cells += [f"{scores[row]:.3f}"] if scores is not None else []
        table.add_row(*cells)
    return table
