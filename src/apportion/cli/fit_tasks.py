"""``apportion fit-tasks``: train one model for each task privately, and save them."""

import json
import math
import warnings
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from apportion.cli.output import Output
from apportion.cli.reading import UserColumn
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
from apportion.cli.training import (
    BudgetFile,
    Delta,
    EngineName,
    EngineOption,
    Epsilon,
    NotPrivate,
)
from apportion.errors import ParameterError, printable


def fit_tasks(
    to: Output,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="CSV or Parquet file, or folder.")],
    out: Annotated[Path, typer.Option(help="Folder for the models.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a model that is there already.")
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            show_default="in the user's state folder",
            help="Folder from which a run that was interrupted is resumed: the same command again. It holds "
            "a secret key, and is removed at the end.",
        ),
    ] = None,
    no_checkpoint: Annotated[
        bool,
        typer.Option(
            "--no-checkpoint", help="Keep nothing: if the run fails, what it has spent is lost."
        ),
    ] = False,
    user: UserColumn = None,
    task: TaskColumn = None,
    target: TargetColumn = None,
    feature: FeatureColumns = None,
    tasks: TaskList = None,
    model: Kind = ModelName.ridge,
    loss: LossOption = LossName.squared,
    intercept: Intercept = False,
    feature_bound: FeatureNorm = None,
    label_bound: LabelBound = None,
    regularization: Penalty = None,
    epsilon: Epsilon = None,
    delta: Delta = 1e-5,
    budget: BudgetFile = None,
    not_private: NotPrivate = False,
    engine: EngineOption = EngineName.auto,
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
    if not_private and (epsilon is not None or budget is not None):
        other = "--epsilon" if epsilon is not None else "--budget"
        raise typer.BadParameter(f"does not go with {other}", param_hint="'--not-private'")
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
        from apportion.accounts.checkpoint import remove_finished
        from apportion.folders.files import try_target

        # What cannot be written should not cost a training.
        if try_target(out) and not overwrite:
            raise ParameterError(f"{out} holds a model already; --overwrite replaces it")
        estimator = new_model(
            model,
            loss,
            intercept,
            features.ranges,
            epsilon=math.inf if not_private else 1.0 if epsilon is None else epsilon,
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
        examples = read_tasks(data, user, task, labels, features, tasks or "public")
    to.say(planned)
    kept = not (no_checkpoint or not_private or model is ModelName.classifier)
    with (
        to.progress() as progress,
        warnings.catch_warnings(record=True, action="always", category=UserWarning) as warned,
    ):
        bar = progress.add_task("training", total=None)

        def show(done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total)

        estimator.fit(examples, source, kept if checkpoint is None else checkpoint, progress=show)
        estimator.save(out)  # before anything is printed: that can fail, and the budget is spent
    if checkpoint is not None and checkpoint.exists():
        remove_finished(checkpoint)
    for warning in warned:
        to.warn(warning.message)
    to.result({"model": str(out), "privacy": json.loads(estimator.privacy.to_json())})
    to.show(estimator.privacy)
    to.show(f"saved {escape(printable(out))}")
