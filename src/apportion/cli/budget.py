"""``apportion budget``: one budget for all trainings on the same people."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from apportion.accounts.ledgers import record_to_dict
from apportion.cli.output import Commands, Output, add_command
from apportion.errors import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.accounts import Budget
    from apportion.accounts.history import Training

app = typer.Typer(
    help="One privacy budget for repeated trainings on the same people.",
    no_args_is_help=True,
    cls=Commands,
)

File = Annotated[Path, typer.Argument(metavar="BUDGET", help="File of the budget.")]
Epsilon = Annotated[float, typer.Option(help="Of the guarantee.")]
Delta = Annotated[float, typer.Option(help="Probability that the guarantee may fail.")]


def create(to: Output, budget: File, epsilon: Epsilon, delta: Delta) -> None:
    """Make a new budget, with the epsilon and delta that all trainings together must keep to.

    They cannot be changed later. Trainings draw from it with [bold]--budget[/bold], and are refused when
    they would pass it. The file is for its owner alone. Keep it with the data, on a local disk: whoever loses
    it, or goes back to an old copy, loses count.

    [bold]Examples[/bold]

      apportion budget create budget.db --epsilon 4 --delta 1e-6

      apportion fit ratings.csv --rating-range 1 5 --items items.txt --budget budget.db --out model
    """
    from apportion.accounts.budget import Budget
    from apportion.privacy.ledger import PrivacyTarget

    _show(to, Budget.create(budget, PrivacyTarget(epsilon, delta)))


def show(
    to: Output,
    budget: File,
    expect: Annotated[
        str | None,
        typer.Option(
            metavar="HASH",
            help="The last hash that was shown before: an error if the log does not go on from it.",
        ),
    ] = None,
) -> None:
    """Show what is spent or reserved of a budget, and what is left. Whoever may read the file can do this.

    The file is a log of events that are only ever added; the last line is a hash of all of them. Keep it
    somewhere else: with [bold]--expect[/bold] an edit of the file, or an older copy in its place, is seen.

    [bold]Examples[/bold]

      apportion budget show budget.db

      apportion budget show budget.db --json

      apportion budget show budget.db --expect 8d5c...
    """
    from apportion.accounts.budget import Budget

    opened = Budget(budget)
    since = None if expect is None else opened.events_since(expect.strip().lower())
    _show(to, opened, since)


def reserve(
    to: Output,
    budget: File,
    epsilon: Epsilon,
    delta: Delta,
    what: Annotated[str, typer.Option(help="For what, in a few words.")] = "set aside by hand",
) -> None:
    """Set part of a budget aside, for good: for a training that takes place where the file is not.

    For trainings of this package (without sampled users), or others that consist of Gaussian releases:
    another mechanism with this epsilon and delta may cost more beside others. What [bold]--budget[/bold] pays
    for reserves for itself.

    [bold]Examples[/bold]

      apportion budget reserve budget.db --epsilon 0.5 --delta 1e-6

      apportion budget reserve budget.db --epsilon 1 --delta 1e-6 --what "training in May, elsewhere"
    """
    from apportion.accounts.budget import Budget
    from apportion.privacy.ledger import PrivacyTarget

    opened = Budget(budget)
    opened.set_aside(what, PrivacyTarget(epsilon, delta))
    _show(to, opened)


def history(to: Output, budget: File) -> None:
    """Show all trainings that a budget has paid for, with what each released.

    A training that has not ended is running, or was killed: it is counted in full, until it is resumed from
    its checkpoint or closed ([bold]apportion budget close[/bold]).

    [bold]Examples[/bold]

      apportion budget history budget.db

      apportion budget history budget.db --json
    """
    from apportion.accounts.budget import Budget

    opened = Budget(budget)
    trainings = opened.history()
    values = [values_of(training, opened) for training in trainings]
    to.result({"trainings": values, "doubt": opened.doubt})
    show_history(to, trainings, opened)
    _show_doubt(to, opened)


def close(
    to: Output,
    budget: File,
    training: Annotated[
        str, typer.Argument(metavar="TRAINING", help="Its name in the history, or the start of it.")
    ],
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Also if it cannot be known whether it still runs.")
    ] = False,
) -> None:
    """End a training that was killed: from now on it counts for what it has released only.

    It can release nothing more then, and cannot be resumed from its checkpoint. One that runs is refused.
    Whether it runs is known on the machine where it was begun, by a lock beside the file.

    [bold]Examples[/bold]

      apportion budget close budget.db 3f2a9c01

      apportion budget close budget.db 3f2a9c01 --unknown
    """
    from apportion.accounts.budget import Budget

    opened = Budget(budget)
    opened.close(training, unknown=unknown)
    _show(to, opened)


for _command in (create, show, reserve, history, close):
    add_command(app, _command.__name__, _command)


def show_history(to: Output, trainings: "Sequence[Training]", budget: "Budget") -> None:
    """A row for each training, and where its model is."""
    table = Table("training", "began (UTC)", "ended", "what")
    for title in ("epsilon", "delta", "counted", "releases"):
        table.add_column(title, justify="right")
    for one in trainings:
        state = f"[yellow]no, {budget.state(one)}: counted in full[/yellow]"
        ended = state if one.ended is None else _time(one.ended)
        numbers = (f"{one.target.epsilon:.4g}", f"{one.target.delta:g}", f"{one.epsilon:.4g}")
        what = f"{one.what}: {one.label}" if one.label else one.what
        names = (one.token[:8], _time(one.began), what)
        token, began, what = (escape(printable(name)) for name in names)
        table.add_row(token, began, ended, what, *numbers, str(len(one.releases)))
    to.show(table)
    for one in trainings:
        if one.output:
            where = f"{one.token[:8]}  saved to {one.output}, SHA-256 {one.digest}"
            to.show(escape(printable(where)))


def _show(to: Output, budget: "Budget", since: int | None = None) -> None:
    trainings = budget.history()
    values = {
        "epsilon": budget.cap.epsilon,
        "delta": budget.cap.delta,
        "counted": budget.epsilon,
        "left": budget.left,
        "trainings": len(trainings),
        "not_ended": sum(training.ended is None for training in trainings),
        "doubt": budget.doubt,
        "last_hash": budget.last_hash,
    }
    if since is not None:
        values["events_since"] = since
    to.result(values)
    lines = [
        f"cap      epsilon = {budget.cap.epsilon:g} at delta = {budget.cap.delta:g}",
        f"counted  epsilon = {values['counted']:.4g}, {values['trainings']} trainings, of which "
        f"{values['not_ended']} have not ended",
        f"left     one more training of epsilon = {values['left']:.4g} at that delta",
        f"hash     {values['last_hash']}",
    ]
    if since is not None:
        lines.append(f"expected hash found; events since: {since}")
    to.show("\n".join(lines))
    _show_doubt(to, budget)


def _show_doubt(to: Output, budget: "Budget") -> None:
    if budget.doubt is not None:
        to.show(f"[yellow]note:[/yellow] {escape(budget.doubt)}", soft_wrap=False)


def values_of(training: "Training", budget: "Budget") -> dict[str, Any]:
    """One training as ``--json`` prints it."""
    return {
        "training": training.token,
        "what": training.what,
        "label": training.label,
        "version": training.version,
        "epsilon": training.target.epsilon,
        "delta": training.target.delta,
        "began": training.began,
        "ended": training.ended,
        "state": str(budget.state(training)),
        "counted": training.epsilon,
        "digest": training.digest,
        "output": training.output,
        "releases": [record_to_dict(record) for record in training.releases],
    }


def _time(text: str) -> str:
    return text.replace("T", " ").removesuffix("+00:00")
