"""``apportion budget``: one budget for all trainings on the same people."""

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from apportion.cli.reading import Json
from apportion.cli.terminal import Terminal, print_json
from apportion.privacy.errors import ParameterError, printable

if TYPE_CHECKING:
    from apportion.privacy.budget import Budget, Training

app = typer.Typer(
    help="One privacy budget for repeated trainings on the same people.", no_args_is_help=True
)

File = Annotated[Path, typer.Argument(metavar="BUDGET", help="File of the budget.")]
Epsilon = Annotated[float, typer.Option(help="Of the guarantee.")]
Delta = Annotated[float, typer.Option(help="Probability that the guarantee may fail.")]


@app.command("create")
def create(budget: File, epsilon: Epsilon, delta: Delta, json: Json = False) -> None:
    """Make a new budget, with the epsilon and delta that all trainings together must keep to.

    They cannot be changed later. Trainings draw from it with [bold]--budget[/bold], and are refused when
    they would pass it. Keep the file with the data: whoever loses it, or goes back to an old copy, loses
    count.

    [bold]Examples[/bold]

      apportion budget create budget.db --epsilon 4 --delta 1e-6

      apportion fit ratings.csv --rating-range 1 5 --items items.txt --budget budget.db --out model
    """
    from apportion.privacy.budget import Budget
    from apportion.privacy.ledger import PrivacyTarget

    if budget.exists():
        raise ParameterError(f"{budget} exists already")
    _show(Budget(budget, PrivacyTarget(epsilon, delta)), json)


@app.command("show")
def show(budget: File, json: Json = False) -> None:
    """Show what is spent or reserved of a budget, and what is left.

    [bold]Examples[/bold]

      apportion budget show budget.db

      apportion budget show budget.db --json
    """
    from apportion.privacy.budget import Budget

    _show(Budget(budget), json)


@app.command("reserve")
def reserve(
    budget: File,
    epsilon: Epsilon,
    delta: Delta,
    what: Annotated[str, typer.Option(help="For what, in a few words.")] = "set aside by hand",
    json: Json = False,
) -> None:
    """Set part of a budget aside, for good: for a training that takes place where the file is not.

    For trainings of this package (without sampled users), or others that consist of Gaussian releases:
    another mechanism with this epsilon and delta may cost more beside others. What [bold]--budget[/bold] pays
    for reserves for itself.

    [bold]Examples[/bold]

      apportion budget reserve budget.db --epsilon 0.5 --delta 1e-6

      apportion budget reserve budget.db --epsilon 1 --delta 1e-6 --what "training in May, elsewhere"
    """
    from apportion.privacy.budget import Budget
    from apportion.privacy.ledger import PrivacyTarget

    opened = Budget(budget)
    opened.set_aside(what, PrivacyTarget(epsilon, delta))
    _show(opened, json)


@app.command("history")
def history(budget: File, json: Json = False) -> None:
    """Show all trainings that a budget has paid for, with what each released.

    A training that has not ended is running, or was killed: it is counted in full.

    [bold]Examples[/bold]

      apportion budget history budget.db

      apportion budget history budget.db --json
    """
    from apportion.privacy.budget import Budget

    trainings = Budget(budget).history()
    if json:
        print_json(dumps({"trainings": [_values(training) for training in trainings]}, indent=2))
        return
    table = Table("began (UTC)", "ended", "what")
    for title in ("epsilon", "delta", "counted", "releases"):
        table.add_column(title, justify="right")
    for one in trainings:
        ended = "[yellow]no: counted in full[/yellow]" if one.ended is None else _time(one.ended)
        numbers = (f"{one.target.epsilon:.4g}", f"{one.target.delta:g}", f"{one.epsilon:.4g}")
        row = (
            _time(one.began),
            ended,
            escape(printable(one.what)),
            *numbers,
            str(len(one.releases)),
        )
        table.add_row(*row)
    Terminal().print(table)


def _show(budget: "Budget", json: bool) -> None:
    trainings = budget.history()
    values = {
        "epsilon": budget.cap.epsilon,
        "delta": budget.cap.delta,
        "counted": budget.epsilon,
        "left": budget.left,
        "trainings": len(trainings),
        "not_ended": sum(training.ended is None for training in trainings),
    }
    if json:
        print_json(dumps(values, indent=2))
        return
    lines = [
        f"cap      epsilon = {budget.cap.epsilon:g} at delta = {budget.cap.delta:g}",
        f"counted  epsilon = {values['counted']:.4g}, {values['trainings']} trainings, of which "
        f"{values['not_ended']} have not ended",
        f"left     one more training of epsilon = {values['left']:.4g} at that delta",
    ]
    Terminal().print("\n".join(lines), highlight=False)


def _values(training: "Training") -> dict[str, Any]:
    return {
        "training": training.token,
        "what": training.what,
        "epsilon": training.target.epsilon,
        "delta": training.target.delta,
        "began": training.began,
        "ended": training.ended,
        "counted": training.epsilon,
        "releases": [record.to_dict() for record in training.releases],
    }


def _time(text: str) -> str:
    return text.replace("T", " ").removesuffix("+00:00")
