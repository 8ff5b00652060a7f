"""``apportion plan-tasks``: how a training of many tasks will spend its budget, and what to expect. Free."""

from typing import Annotated

import typer

from apportion.cli import options
from apportion.cli.output import Output
from apportion.cli.reading import DATA_PANEL
from apportion.cli.tasks import Intercept, Kind, LossName, LossOption, ModelName, Penalty, new_model


def plan_tasks(
    to: Output,
    features: Annotated[
        int, typer.Option(min=1, help="How many there are.", rich_help_panel=DATA_PANEL)
    ],
    users: Annotated[
        int | None,
        typer.Option(min=2, help="About how many there will be.", rich_help_panel=DATA_PANEL),
    ] = None,
    tasks: Annotated[
        int | None, typer.Option(min=2, help="How many there are.", rich_help_panel=DATA_PANEL)
    ] = None,
    tasks_per_user: Annotated[
        float | None,
        typer.Option(help="In how many a user takes part.", rich_help_panel=DATA_PANEL),
    ] = None,
    model: Kind = ModelName.ridge,
    loss: LossOption = LossName.squared,
    intercept: Intercept = False,
    regularization: Penalty = None,
    epsilon: options.Epsilon = None,
    delta: options.Delta = 1e-5,
) -> None:
    """Show how a training of many tasks will spend its budget, and what to expect of it. No data is read.

    The forecast is made by training on simulated tasks of that size: scores on held-out rows, with privacy
    and without, by the size of the tasks.

    [bold]Examples[/bold]

      apportion plan-tasks --features 5 --epsilon 1

      apportion plan-tasks --features 5 --users 20000 --tasks 100 --tasks-per-user 10 --epsilon 1
    """
    estimator = new_model(
        model,
        loss,
        intercept,
        None,
        epsilon=1.0 if epsilon is None else epsilon,
        delta=delta,
        regularization=regularization,
    )
    planned = estimator.plan(features)
    to.show(planned)
    if users is None or tasks is None or tasks_per_user is None:
        if (users, tasks, tasks_per_user) != (None, None, None):
            raise typer.BadParameter(
                "are needed together", param_hint="'--users', '--tasks', '--tasks-per-user'"
            )
        to.result({"plan": planned.to_dict(), "forecast": None})
        to.show(
            "what to expect takes public facts: --users, --tasks and --tasks-per-user",
            soft_wrap=False,
        )
        return
    from apportion.tasks import MultiTaskClassifier

    with to.status("simulating ..."):
        if isinstance(estimator, MultiTaskClassifier):
            found = estimator.forecast(
                users=users, classes=tasks, features=features, classes_per_user=tasks_per_user
            )
        else:
            found = estimator.forecast(
                users=users, tasks=tasks, features=features, tasks_per_user=tasks_per_user
            )
    to.result({"plan": planned.to_dict(), "forecast": found.to_dict()})
    to.show(found)
