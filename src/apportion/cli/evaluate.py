"""``apportion evaluate``: how good a saved model is, overall and by popularity."""

import json as json_
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from apportion.cli.reading import (
    DataSetName,
    ItemColumn,
    Json,
    Model,
    Positives,
    RatingColumn,
    Source,
    UserColumn,
)
from apportion.cli.terminal import Terminal, print_json
from apportion.errors import DataError

if TYPE_CHECKING:
    from apportion.data import Interactions
    from apportion.recommend.metrics import RankingMetrics, RatingMetrics
    from apportion.recommend.recommender import Recommender

NOTE = "exact statistics of the data given here: the model's guarantee does not cover these figures"


def evaluate(
    model: Model,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Histories: CSV, Parquet, archive.")],
    test: Annotated[
        Path | None, typer.Option(help="Ratings to predict, of users of DATA (model of ratings).")
    ] = None,
    hold_out: Annotated[
        int | None,
        typer.Option(
            min=1, show_default="all", help="Users of DATA to take, at random (model of events)."
        ),
    ] = None,
    history: Annotated[
        float | None,
        typer.Option(
            show_default="0.8",
            help="Share of such a user's events to recommend from, between 0 and 1.",
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
    json: Json = False,
) -> None:
    """Measure a saved model, overall and by popularity of items, tail first.

    A model of ratings predicts those of --test from each user's rows in DATA: root mean squared error.
    A model of events gets a share of the events of some users of DATA and recommends; the others of
    their events are to be found: recall, NDCG, and the share of items that is ever recommended. Take
    users that the model was not trained on, and --positives as in training. Popularity is that in DATA;
    items are those of the model and of DATA.

    The figures are exact statistics of the data given here. The model's guarantee does not cover
    them: publishing them tells something about these users.

    [bold]Examples[/bold]

      apportion evaluate model train.csv --test test.csv

      apportion evaluate events-model others.parquet --hold-out 500 --history 0.8 -k 20 --json
    """
    from apportion.recommend.files import load

    recommender = load(model)
    explicit = recommender.released.fold_in.feedback == "explicit"
    _check_usage(explicit, test, {"hold-out": hold_out, "history": history, "k": k}, positives)
    source = Source(data, data_set, user, item, rating, implicit=not explicit, positives=positives)
    console = Terminal(stderr=json)
    with console.status("measuring ..."):
        metrics: RatingMetrics | RankingMetrics
        if explicit and test is not None:
            metrics = _rate(recommender, source, Source(test, None, user, item, rating))
        else:
            share = 0.8 if history is None else history
            metrics = _rank(recommender, source, hold_out, share, k or 20)
    if json:
        print_json(json_.dumps({**_plain(asdict(metrics)), "note": NOTE}, allow_nan=False))
        return
    console.print(_table(metrics))
    console.print(NOTE, highlight=False)


def _check_usage(
    explicit: bool, test: Path | None, of_events: dict[str, Any], positives: float | None
) -> None:
    if not explicit:
        if test is not None:
            raise typer.BadParameter(
                "is for models of ratings; this is one of events", param_hint="'--test'"
            )
        return
    for name, value in {**of_events, "positives": positives}.items():
        if value is not None:
            dashes = "-" if name == "k" else "--"
            raise typer.BadParameter(
                "is for models of events; this is one of ratings", param_hint=f"'{dashes}{name}'"
            )
    if test is None:
        raise typer.BadParameter(
            "a model of ratings needs ratings to predict", param_hint="'--test'"
        )


def _rate(model: "Recommender", source: Source, test: Source) -> "RatingMetrics":
    from apportion.recommend.metrics import rating_metrics

    within = model.released.fold_in.rating_range
    histories = source.read(rating_range=within, like=model.item_ids)
    wanted = test.read(rating_range=within, like=model.item_ids)
    histories, wanted = _same_users(histories, wanted, test.path)
    return rating_metrics(model, histories, wanted, histories.graph.task_sizes())


def _rank(
    model: "Recommender", source: Source, users: int | None, history: float, k: int
) -> "RankingMetrics":
    from apportion.recommend.metrics import ranking_metrics

    data = source.read(like=model.item_ids)
    _, held = data.hold_out_users(users, history, at_least=2)
    return ranking_metrics(model, held, data.graph.task_sizes(), k=k)


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
        np.concatenate([data.by_user.rating for data, _ in parts]),
        items=list(dict.fromkeys([*histories.item_ids.tolist(), *test.item_ids.tolist()])),
        rating_range=test.rating_range,
    )
    rows = len(histories.by_user.other) + len(test.by_user.other)
    if len(both.by_user.other) < rows:
        raise DataError(f"{path} holds ratings that are in DATA too: they must be kept apart")
    user = match_ids(users, both.user_ids)[test.user_of_row]
    item = match_ids(test.item_ids, both.item_ids)[test.by_user.other]
    code = both.user_of_row.astype(np.int64) * both.items + both.by_user.other
    of_test = np.isin(code, user * both.items + item)
    return both.take(~of_test), both.take(of_test)


def _plain(values: Any) -> Any:
    """NaN, where there was nothing to measure, as null."""
    if isinstance(values, dict):
        return {name: _plain(value) for name, value in values.items()}
    if isinstance(values, tuple):
        return [_plain(value) for value in values]
    return None if isinstance(values, float) and math.isnan(values) else values


def _table(metrics: "RatingMetrics | RankingMetrics") -> Table:
    from apportion.recommend.metrics import RatingMetrics

    table = Table()
    table.add_column("items")
    if isinstance(metrics, RatingMetrics):
        columns: dict[str, tuple[float, ...]] = {"RMSE": (metrics.rmse, *metrics.rmse_by_bucket)}
    else:
        columns = {
            "k": (metrics.k, *metrics.k_by_bucket),
            "recall@k": (metrics.recall, *metrics.recall_by_bucket),
            "NDCG@k": (metrics.ndcg, *metrics.ndcg_by_bucket),
            f"coverage@{metrics.k}": (metrics.coverage, *metrics.coverage_by_bucket),
        }
    for title in columns:
        table.add_column(title, justify="right")
    rows = list(zip(*columns.values(), strict=True))
    buckets = len(rows) - 1
    names = ["all", *(_bucket_name(bucket, buckets) for bucket in range(buckets))]
    for name, row in zip(names, rows, strict=True):
        cells = [str(value) if isinstance(value, int) else f"{value:.4f}" for value in row]
        table.add_row(name, *("-" if cell == "nan" else cell for cell in cells))
        if name == "all":
            table.add_section()
    return table


def _bucket_name(bucket: int, buckets: int) -> str:
    if bucket in (0, buckets - 1):
        return "least popular (tail)" if bucket == 0 else "most popular (head)"
    return f"{bucket + 1} of {buckets}"
