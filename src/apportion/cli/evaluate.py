"""``apportion evaluate``: how good a saved model is, overall and by popularity."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apportion.cli.output import Html, Output
from apportion.cli.reading import (
    DataSetName,
    Encoding,
    ItemColumn,
    Model,
    Positives,
    RatingColumn,
    Source,
    UserColumn,
)
from apportion.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.data import Interactions
    from apportion.recommend.evaluation import Evaluation
    from apportion.recommend.recommender import Recommender


def evaluate(
    to: Output,
    model: Model,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Histories: CSV, Parquet, archive.")],
    test: Annotated[
        Path | None,
        typer.Option(help="What to predict or find, of users of DATA: rows kept apart."),
    ] = None,
    hold_out: Annotated[
        int | None,
        typer.Option(
            min=1,
            show_default="all",
            help="Without --test: users of DATA to take, at random (events).",
        ),
    ] = None,
    history: Annotated[
        float | None,
        typer.Option(
            show_default="0.8",
            help="Without --test: share of their events to recommend from, between 0 and 1.",
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option("-k", min=1, show_default="20", help="Length of lists (model of events)."),
    ] = None,
    data_set: DataSetName = None,
    user: UserColumn = None,
    item: ItemColumn = None,
    rating: RatingColumn = None,
    positives: Positives = None,
    encoding: Encoding = None,
    html: Html = None,
) -> None:
    """Measure a saved model, beside what needs no model, overall and by popularity of items.

    A model of ratings predicts those of --test from each user's rows in DATA: root mean squared and mean
    absolute error. A model of events recommends from each user's rows in DATA, and the user's events in
    --test are to be found: recall, NDCG, precision, hit rate, MRR, novelty and coverage; --positives as in
    training. Without --test a share of the events of users of DATA is to be found from the others; take
    users that the model was not trained on. Baselines are averages of DATA, or what is popular there.

    The figures are exact statistics of the data given here. The model's guarantee does not cover
    them: publishing them tells something about these users.

    [bold]Examples[/bold]

      apportion evaluate model train.csv --test test.csv

      Everybody's last event, from those before it:

      apportion data split plays.csv --implicit --timestamp time --last 1 --csv --out parts

      apportion evaluate events-model parts/train.csv --test parts/test.csv

      apportion evaluate events-model others.parquet --hold-out 500 --history 0.8 -k 20 --json
    """
    from apportion.recommend.evaluation import NOTE
    from apportion.recommend.files import load

    recommender = load(model)
    explicit = recommender.released.fold_in.feedback == "explicit"
    _check_usage(explicit, test, {"hold-out": hold_out, "history": history}, k, positives)
    events = not explicit
    read_as: dict[str, Any] = {"implicit": events, "positives": positives, "encoding": encoding}
    source = Source(data, data_set, user, item, rating, **read_as)
    with to.status("measuring ..."):
        if test is None:
            found = _hold_out(recommender, source, hold_out, 0.8 if history is None else history, k)
        else:
            wanted = Source(test, None, user, item, rating, **read_as)
            found = _compare(recommender, source, wanted, k)
    if html is not None:
        from apportion.explore import evaluation_page, write_page

        write_page(html, evaluation_page(found, model.resolve().name))
    to.result(json.loads(found.to_json()))
    to.show(found)
    to.show(NOTE, soft_wrap=False)
    to.show_paths([] if html is None else [html])


def _check_usage(
    explicit: bool,
    test: Path | None,
    of_users: dict[str, Any],
    k: int | None,
    positives: float | None,
) -> None:
    of_events = {"--positives": positives, "-k": k}
    of_events |= {f"--{name}": value for name, value in of_users.items()}
    for name, value in of_events.items():
        if explicit and value is not None:
            raise typer.BadParameter(
                "is for models of events; this is one of ratings", param_hint=f"'{name}'"
            )
    for name, value in of_users.items():
        if test is not None and value is not None:
            raise typer.BadParameter("does not go with --test", param_hint=f"'--{name}'")
    if explicit and test is None:
        raise typer.BadParameter(
            "name a file of ratings to predict, of the same users; apportion data split makes one",
            param_hint="'--test'",
        )


def _compare(model: "Recommender", source: Source, test: Source, k: int | None) -> "Evaluation":
    from apportion.recommend.judging import evaluate

    within = model.released.fold_in.rating_range
    histories = source.read(rating_range=within, like=model.item_ids)
    wanted = test.read(rating_range=within, like=model.item_ids)
    return evaluate(model, *_same_users(histories, wanted, test.path), k=k or 20)


def _hold_out(
    model: "Recommender", source: Source, users: int | None, history: float, k: int | None
) -> "Evaluation":
    from apportion.recommend.judging import evaluate

    rest, held = source.read(like=model.item_ids).hold_out_users(users, history, at_least=2)
    known = rest.graph.task_sizes() + held.history.graph.task_sizes()
    return evaluate(model, held.history, held.labels, counts=known, k=k or 20)


def _same_users(
    histories: "Interactions", test: "Interactions", path: Path
) -> tuple["Interactions", "Interactions"]:
    """Two files' interactions as parts of the same data."""
    import numpy as np
    import polars as pl

    from apportion.data import Interactions
    from apportion.data.ids import match_ids

    of_histories, users = histories.user_ids, test.user_ids
    if (of_histories.dtype.kind == "O") != (users.dtype.kind == "O"):
        # A file's users are numbers or text by all of its rows; both are written alike.
        of_histories, users = (
            pl.Series(ids).cast(pl.String).to_numpy() for ids in (of_histories, users)
        )
    parts = ((histories, of_histories), (test, users))
    both = Interactions(
        np.concatenate([ids[data.user_of_row] for data, ids in parts]),
        np.concatenate([data.item_ids[data.by_user.other] for data, _ in parts]),
        None
        if test.by_user.rating is None
        else np.concatenate([data.by_user.rating for data, _ in parts]),
        items=list(dict.fromkeys([*histories.item_ids.tolist(), *test.item_ids.tolist()])),
        rating_range=test.rating_range,
    )

    def places(data: "Interactions", users: "NDArray[Any]") -> "NDArray[np.int64]":
        user = match_ids(users, both.user_ids)[data.user_of_row].astype(np.int64)
        return user * both.items + match_ids(data.item_ids, both.item_ids)[data.by_user.other]

    code = both.user_of_row.astype(np.int64) * both.items + both.by_user.other
    known, wanted = (np.isin(code, places(data, ids)) for data, ids in parts)
    if (known & wanted).any() and (test.explicit or not (wanted & ~known).any()):
        raise DataError(f"{path} holds rows that are in DATA too: they must be kept apart")
    # What a user has done before is not recommended, and not to be found.
    return both.take(known), both.take(wanted & ~known)
