"""``apportion fit-tasks``: train one model for each task privately, and save them."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from apportion.cli import options
from apportion.cli.output import Output
from apportion.cli.reading import Encoding, UserColumn
from apportion.cli.saving import check_target, find_epsilon, training_shown
from apportion.cli.tasks import (
    FeatureColumns,
    FeatureNorm,
    Features,
    Intercept,
    Kind,
    LabelBound,
    LossName,
    LossOption,
    ModelName,
    Penalty,
    TargetColumn,
    TaskColumn,
    TaskList,
    new_model,
    read_tasks,
)
from apportion.errors import printable


def fit_tasks(
    to: Output,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="CSV or Parquet file, or folder.")],
    out: Annotated[Path, typer.Option(help="Folder for the models.")],
    overwrite: options.Overwrite = False,
    checkpoint: options.CheckpointFolder = None,
    no_checkpoint: options.NoCheckpoint = False,
    user: UserColumn = None,
    task: TaskColumn = None,
    target: TargetColumn = None,
    feature: FeatureColumns = None,
    tasks: TaskList = None,
    encoding: Encoding = None,
    model: Kind = ModelName.ridge,
    loss: LossOption = LossName.squared,
    intercept: Intercept = False,
    feature_bound: FeatureNorm = None,
    label_bound: LabelBound = None,
    regularization: Penalty = None,
    epsilon: options.Epsilon = None,
    delta: options.Delta = 1e-5,
    budget: options.BudgetFile = None,
    not_private: options.NotPrivate = False,
    engine: options.EngineOption = options.EngineName.auto,
) -> None:
    """Train a linear model for each of many tasks under user-level differential privacy, and save them.

    A row is one example: its user, its task, features, a label. A user may have rows in many tasks; all
    of them are protected together. Give each feature its public range (from what it means, not from the
    data). Run it once: each run spends its own epsilon; with [bold]--budget[/bold] all runs together keep to
    one.

    [bold]Examples[/bold]

      apportion fit-tasks visits.csv --user patient --task ward --target stay --feature age=0:120
      --feature pulse=20:250 --tasks wards.txt --label-bound 30 --intercept --out wards

      Which of many classes a row belongs to, the column task being the class:

      apportion fit-tasks flowers.csv --model classifier --feature length=0:10 --feature width=0:10
      --tasks public --out flowers
    """
    epsilon = find_epsilon(not_private, epsilon, {"--budget": budget})
    if tasks is None and not not_private:
        raise typer.BadParameter(
            "which tasks exist can give a user away. Give a FILE with the public list; or public, if "
            "the ids in the data are no secret",
            param_hint="'--tasks'",
        )
    if model is ModelName.classifier and target is not None:
        raise typer.BadParameter("classes have no labels: leave it out", param_hint="'--target'")
    features = Features.of(feature)
    with to.status("starting ..."):
        # Imported here so that `apportion --help` answers at once.
        from apportion.accounts.budget import Budget

        check_target(out, overwrite=overwrite)
        estimator = new_model(
            model,
            loss,
            intercept,
            features.ranges,
            epsilon=epsilon,
            delta=delta,
            feature_bound=feature_bound,
            label_bound=label_bound,
            regularization=regularization,
            engine=engine.value,
        )
        planned = estimator.plan(len(features.names))
        source = None if budget is None else Budget(budget)
    with to.status("reading ..."):
        labels = None if model is ModelName.classifier else target or "label"
        catalog = tasks or "public"
        examples = read_tasks(data, user, task, labels, features, catalog, encoding)
    to.say(planned)
    kept = not (no_checkpoint or not_private)
    with training_shown(to, checkpoint) as show:
        estimator.fit(examples, source, kept if checkpoint is None else checkpoint, progress=show)
        estimator.save(out)
    to.result({"model": str(out), "privacy": json.loads(estimator.privacy.to_json())})
    to.show(estimator.privacy)
    to.show(f"saved {escape(printable(out))}")
