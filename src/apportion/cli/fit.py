"""``apportion fit``: train a recommender privately and save it."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from apportion.cli import options
from apportion.cli.config import to_toml
from apportion.cli.output import Output
from apportion.cli.reading import (
    CountRepeats,
    DataSetName,
    Encoding,
    ItemColumn,
    Positives,
    RatingColumn,
    UserColumn,
    WeightBound,
    WeightColumn,
)
from apportion.cli.saving import check_target, find_epsilon, training_shown
from apportion.cli.spark import Master, Store, find_cluster
from apportion.cli.training import Training, find_allocation, find_solver, find_source, open_budget
from apportion.data.files import written_whole
from apportion.errors import printable

# What belongs to one run, not to the training.
_ONCE = {"overwrite", "checkpoint", "no-checkpoint"}


def fit(
    to: Output,
    data: options.Data,
    out: Annotated[Path, typer.Option(help="Folder for the model.")],
    overwrite: options.Overwrite = False,
    preparation: Annotated[
        Path | None,
        typer.Option(
            help="Resume what apportion prepare released; its other options must be the same."
        ),
    ] = None,
    checkpoint: options.CheckpointFolder = None,
    no_checkpoint: options.NoCheckpoint = False,
    data_set: DataSetName = None,
    user: UserColumn = None,
    item: ItemColumn = None,
    rating: RatingColumn = None,
    implicit: options.Implicit = False,
    positives: Positives = None,
    weight: WeightColumn = None,
    count_repeats: CountRepeats = False,
    weight_bound: WeightBound = None,
    encoding: Encoding = None,
    rating_range: options.RatingRange = None,
    outside: options.OutsideRange = options.Outside.error,
    items: options.Items = None,
    top_share: options.TopShare = None,
    titles: options.Titles = None,
    epsilon: options.Epsilon = None,
    delta: options.Delta = 1e-5,
    budget: options.BudgetFile = None,
    label: options.Label = None,
    not_private: options.NotPrivate = False,
    factors: options.Factors = None,
    sweeps: options.Sweeps = None,
    intercept_share: options.InterceptShare = None,
    allocation: options.Split = options.AllocationName.adaptive,
    weight_exponent: options.WeightExponent = None,
    k: options.SampledItems = None,
    solver: options.SolverName = options.Solver.ssp,
    statistics: options.StatisticsName = options.Statistics.shared,
    regularization: options.Regularization = None,
    unobserved_weight: options.UnobservedWeight = None,
    feature_bound: options.FeatureBound = None,
    engine: options.EngineOption = options.EngineName.auto,
    master: Master = None,
    store: Store = None,
    seed: Annotated[
        int,
        typer.Option(min=0, help="Of the first factors, not of noise.", rich_help_panel="Model"),
    ] = 0,
) -> None:
    """Train a recommender under user-level differential privacy, and save what may be published.

    Shows how the budget will be spent, trains, and shows the privacy report. Nothing that is printed
    or saved tells more about a user than the report says.

    Every run spends its own epsilon. With [bold]--budget[/bold] all runs together keep to one, and a run that
    would pass it is refused. A run that is interrupted says where its checkpoint is: the same command with
    [bold]--checkpoint[/bold] finishes it without paying again.

    [bold]Examples[/bold]

      Ratings in a CSV file with columns user, item and rating; a public list of items:

      apportion fit ratings.csv --rating-range 1 5 --items items.txt --epsilon 1 --out model

      Events in Parquet, items chosen privately:

      apportion fit plays.parquet --user listener --item song --implicit --items private --out model

      A known data set, ratings of 4 and 5 as events, without the rare items:

      apportion fit ml-1m.zip --data-set ml-1m --positives 4 --top-share 0.2 --out model

      Again next month, on the same people, from one budget:

      apportion budget create budget.db --epsilon 4 --delta 1e-5

      apportion fit ratings.csv --rating-range 1 5 --items items.txt --budget budget.db --out model

      A training whose process was killed, resumed:

      apportion fit plays.parquet --implicit --items private --out model --checkpoint going

      A billion rows, on a cluster:

      apportion fit s3a://bucket/plays --engine spark --master spark://host:7077 --store s3a://bucket/rows
      --implicit --items private --out model
    """
    others = {"--budget": budget, "--preparation": preparation}
    training = Training(
        source=find_source(
            data,
            data_set,
            (user, item, rating),
            implicit,
            positives,
            (weight, count_repeats, weight_bound),
            encoding,
        ),
        items=items,
        top_share=top_share,
        rating_range=rating_range,
        outside=outside,
        epsilon=find_epsilon(not_private, epsilon, others),
        delta=delta,
        allocation=find_allocation(allocation, weight_exponent, k),
        parameters={
            "factors": factors,
            "sweeps": sweeps,
            "offsets__intercept_share": intercept_share,
            "solver": find_solver(solver, statistics),
            "regularization__items": regularization,
            "regularization__unobserved_weight": unobserved_weight,
            "bounds__feature": feature_bound,
            "engine": None if engine is options.EngineName.spark else engine.value,
            "seed": seed,
        },
        cluster=find_cluster(engine.value, master, store),
        place=data,
    )
    with to.status("starting ..."):
        # Imported here so that `apportion --help` answers at once.
        from apportion.accounts.checkpoint import steps_done
        from apportion.recommend.preparation import Preparation

        check_target(out, overwrite=overwrite)
        model = training.model()
        planned = model.plan()
        source = open_budget(budget, label)
        prepared = None if preparation is None else Preparation.read(preparation)
    with to.status("reading ..."):
        interactions = training.read()
        named = training.titles(titles, interactions)
    to.say(planned)
    before = 0 if checkpoint is None else steps_done(checkpoint)
    with training_shown(to, checkpoint) as show:

        def told(done: int, total: int) -> None:
            if done == before > 0:
                to.say(f"resuming after sweep {done} of {total}")
            show(done, total)

        model.fit(
            interactions,
            progress=told,
            preparation=prepared,
            budget=source,
            checkpoint=not (no_checkpoint or not_private) if checkpoint is None else checkpoint,
        )
        model.save(out, named)
    _write_options(to, out)
    to.result(
        {
            "model": str(out),
            "resumed_after": before or None,
            "privacy": json.loads(model.privacy.to_json()),
        }
    )
    to.show(model.privacy)
    to.show(f"saved {escape(printable(out))}")


def _write_options(to: Output, out: Path) -> None:
    """Leave the options beside the model, so that the training is one file. The model is safe by now."""
    from apportion.folders.kinds import OPTIONS

    given = {name: value for name, value in to.given.items() if name not in _ONCE}
    text = f"# apportion fit --config {OPTIONS}\n{to_toml(given)}"
    try:
        with written_whole(out / OPTIONS) as path:
            path.write_text(text, "utf-8")
    except OSError as error:
        to.warn(f"{out / OPTIONS} could not be written: {error.strerror}")
