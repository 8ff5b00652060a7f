"""Options of the commands for models of tasks, and how their files are read."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apportion.cli.reading import DATA_PANEL, ids_like
from apportion.errors import DataError, ParameterError

if TYPE_CHECKING:
    import polars as pl

    from apportion.data import TaskData
    from apportion.tasks import MultiTaskClassifier, MultiTaskDescent, MultiTaskRidge

_MODEL_PANEL, _PRIVACY_PANEL = "Model", "Privacy"


class ModelName(StrEnum):
    """What is trained for each task."""

    ridge = "ridge"
    descent = "descent"
    classifier = "classifier"


class LossName(StrEnum):
    """What descent minimizes."""

    squared = "squared"
    logistic = "logistic"
    hinge = "hinge"
    huber = "huber"
    absolute = "absolute"
    poisson = "poisson"


TaskColumn = Annotated[
    str | None,
    typer.Option(
        "--task",
        metavar="COLUMN",
        show_default="task",
        help="Column of tasks, or of classes.",
        rich_help_panel=DATA_PANEL,
    ),
]
TargetColumn = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="COLUMN",
        show_default="label",
        help="Column of labels, which are to be predicted; classes have none.",
        rich_help_panel=DATA_PANEL,
    ),
]
FeatureColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--feature",
        metavar="COLUMN=LOW:HIGH",
        help="Column of a feature, with its public range or without; once for each.",
        rich_help_panel=DATA_PANEL,
    ),
]
TaskList = Annotated[
    str | None,
    typer.Option(
        "--tasks",
        metavar="FILE|public",
        help="Which tasks exist. FILE: a public list, one id a line. public: those in the data are no "
        "secret.",
        rich_help_panel=DATA_PANEL,
    ),
]
Kind = Annotated[
    ModelName,
    typer.Option(
        "--model",
        help="ridge: least squares; descent: any loss; classifier: which task a row is of.",
        rich_help_panel=_MODEL_PANEL,
    ),
]
LossOption = Annotated[
    LossName, typer.Option("--loss", help="Of descent.", rich_help_panel=_MODEL_PANEL)
]
Intercept = Annotated[
    bool,
    typer.Option(
        "--intercept", help="A constant term for each task.", rich_help_panel=_MODEL_PANEL
    ),
]
FeatureNorm = Annotated[
    float | None,
    typer.Option(
        "--feature-bound",
        show_default="1",
        help="Largest norm of a row of features; public. Not needed with ranges.",
        rich_help_panel=_MODEL_PANEL,
    ),
]
LabelBound = Annotated[
    float | None,
    typer.Option(
        show_default="1", help="Largest size of a label; public.", rich_help_panel=_MODEL_PANEL
    ),
]
Penalty = Annotated[
    float | None,
    typer.Option("--regularization", help="Penalty.", rich_help_panel=_MODEL_PANEL),
]


@dataclass(frozen=True)
class Features:
    """Which columns are features, and their public ranges.

    Attributes
        names: of the columns.
        ranges: (low, high) of each, or None if none has one.
    """

    names: tuple[str, ...]
    ranges: tuple[tuple[float, float], ...] | None

    @classmethod
    def of(cls, given: list[str] | None) -> "Features":
        """From options COLUMN=LOW:HIGH or COLUMN; all with a range, or none."""
        if not given:
            raise typer.BadParameter(
                "name at least one column, as in --feature age=0:120", param_hint="'--feature'"
            )
        names, ranges = [], []
        for text in given:
            name, separator, spread = text.rpartition("=")
            if not separator:
                names.append(text)
                continue
            low, _, high = spread.partition(":")
            try:
                ranges.append((float(low), float(high)))
            except ValueError:
                raise typer.BadParameter(
                    f"{text!r} must be COLUMN=LOW:HIGH, as in age=0:120", param_hint="'--feature'"
                ) from None
            names.append(name)
        if ranges and len(ranges) < len(names):
            raise typer.BadParameter(
                "give a range to every feature, or to none", param_hint="'--feature'"
            )
        if len(set(names)) < len(names):
            raise typer.BadParameter("names a column twice", param_hint="'--feature'")
        return cls(tuple(names), tuple(ranges) or None)


def new_model(
    kind: ModelName,
    loss: LossName,
    intercept: bool,
    ranges: tuple[tuple[float, float], ...] | None,
    **settings: Any,
) -> "MultiTaskRidge | MultiTaskDescent | MultiTaskClassifier":
    """A model that is not trained yet; settings that are None are left to it."""
    # Imported here so that `apportion --help` answers at once.
    from apportion.tasks import MultiTaskClassifier, MultiTaskDescent, MultiTaskRidge

    given = {name: value for name, value in settings.items() if value is not None}
    given["feature_ranges"] = ranges
    if kind is not ModelName.descent and loss is not LossName.squared:
        raise typer.BadParameter("goes with --model descent only", param_hint="'--loss'")
    if kind is ModelName.classifier:
        if "label_bound" in given:
            raise typer.BadParameter("classes have no labels", param_hint="'--label-bound'")
        return MultiTaskClassifier(intercept=intercept, **given)
    if kind is ModelName.descent:
        return MultiTaskDescent(loss=loss.value, intercept=intercept, **given)
    return MultiTaskRidge(intercept=intercept, **given)


def read_tasks(
    path: Path,
    user: str | None,
    task: str | None,
    label: str | None,
    features: Features,
    catalog: str,
    encoding: str | None = None,
) -> "TaskData":
    """The examples of a file; ``label`` None for classes, which have none."""
    from apportion.data import TaskData
    from apportion.data.catalog import read_id_list

    user, task = user or "user", task or "task"
    tasks: Any = catalog if catalog == "public" else read_id_list(Path(catalog), task)
    labels = [] if label is None else [label]
    frame = _read(path, [user, task], [*features.names, *labels], task, tasks, encoding=encoding)
    if not isinstance(tasks, str):
        if frame[task].dtype.is_numeric():
            frame = frame.with_columns(ids_like(frame[task], tasks.to_numpy(), path))
        else:
            tasks = ids_like(tasks, frame[task].head(1).to_numpy(), Path(catalog))
    return TaskData.from_frame(
        frame, user=user, task=task, features=features.names, label=label, tasks=tasks
    )


def read_rows(
    path: Path,
    task: str | None,
    features: tuple[str, ...],
    like: Any,
    kept: list[str],
    encoding: str | None = None,
) -> "pl.DataFrame":
    """Rows to predict: their tasks, if they have a column of them, features and columns that are kept."""
    ids = [] if task is None else [task]
    if clash := set(kept) & {*ids, *features}:
        raise ParameterError(f"--keep names {min(clash)!r}, which is read anyway")
    frame = _read(path, ids, list(features), task, like, kept, encoding)
    if task is not None:
        frame = frame.with_columns(ids_like(frame[task], like, path))
    return frame


def _read(
    path: Path,
    ids: list[str],
    numbers: list[str],
    task: str | None,
    like: Any,
    others: list[str] | None = None,
    encoding: str | None = None,
) -> "pl.DataFrame":
    from apportion.data.catalog import id_type
    from apportion.data.files import read_columns

    names = [*ids, *numbers]
    if len(set(names)) < len(names):
        raise DataError("one column cannot be two things: user, task, label and features differ")
    kinds = {} if task is None else {task: id_type(like)}
    letters = encoding or "utf-8"
    return read_columns(path, ids, numbers, kinds, others=others or [], encoding=letters)
