"""``apportion predict-tasks``: predicted labels, or classes, of the rows of a file."""

from pathlib import Path
from typing import Annotated

import typer

from apportion.cli.output import Output
from apportion.cli.reading import Encoding, Model, shown_id
from apportion.cli.tasks import TaskColumn, read_rows
from apportion.errors import ParameterError


def predict_tasks(
    to: Output,
    model: Model,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="CSV or Parquet file, or folder.")],
    out: Annotated[Path, typer.Option(help="File for the predictions: .parquet or .csv.")],
    task: TaskColumn = None,
    feature: Annotated[
        list[str] | None,
        typer.Option(
            "--feature",
            metavar="COLUMN",
            show_default="those of the training",
            help="Column of a feature; once for each, in their order.",
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Copy this column, too; once for each."),
    ] = None,
    encoding: Encoding = None,
) -> None:
    """Predict the label of every row of a file from its task and its features; of classes, the class.

    Needs the models and the rows alone, not the data of the training.

    [bold]Examples[/bold]

      apportion predict-tasks wards tomorrow.csv --task ward --keep patient --out stays.csv
    """
    if out.suffix.lower() not in (".parquet", ".csv"):
        raise typer.BadParameter("must end in .parquet or .csv", param_hint="'--out'")
    import polars as pl

    from apportion.data.files import check_folder, write_frame
    from apportion.tasks.files import load
    from apportion.tasks.models import ClassModels

    check_folder(out.parent)
    models = load(model)
    names = tuple(feature or models.released.feature_names or ())
    width = models.coef_.shape[1]
    if len(names) != width:
        raise ParameterError(
            f"the models have {width} features, without names: give --feature {width} times"
            if not names
            else f"the models have {width} features, and {len(names)} are named"
        )
    kept = list(keep or [])
    ids = models.released.task_ids
    if isinstance(models, ClassModels):
        if task is not None:
            raise typer.BadParameter("classes are what is predicted", param_hint="'--task'")
        frame = read_rows(data, None, names, ids, kept, encoding)
        found = models.predict(frame.select(names).to_numpy()).tolist()
    else:
        column = task or "task"
        frame = read_rows(data, column, names, ids, kept, encoding)
        found = models.predict(frame[column].to_list(), frame.select(names).to_numpy()).tolist()
        kept = [*kept, column]
    predictions = pl.Series("prediction", [shown_id(each) for each in found])
    write_frame(pl.DataFrame([*(frame[name] for name in kept), predictions]), out)
    to.result({"files": [str(out)]})
    to.show_paths([out])
