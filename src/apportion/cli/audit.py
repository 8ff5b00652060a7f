"""``apportion audit``: attacks that try to prove the guarantee wrong."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from apportion.cli.output import Output
from apportion.errors import ParameterError

if TYPE_CHECKING:
    from apportion.audit import AuditReport


class Attacked(StrEnum):
    """Which training is attacked."""

    ridge = "ridge"
    ridge_per_task = "ridge-per-task"
    descent = "descent"
    ratings = "ratings"
    events = "events"


def audit(
    to: Output,
    estimator: Annotated[
        list[Attacked] | None,
        typer.Option(help="What to attack; repeat for several. Default: all."),
    ] = None,
    epsilon: Annotated[
        float, typer.Option(help="What the trainings claim. A larger one shows a fault sooner.")
    ] = 10.0,
    delta: Annotated[float, typer.Option(help="Probability that the guarantee may fail.")] = 1e-5,
    quick: Annotated[
        bool, typer.Option("--quick", help="Less than a minute; weak bounds.")
    ] = False,
    long: Annotated[bool, typer.Option("--long", help="Some minutes; tight bounds.")] = False,
    runs: Annotated[
        int | None, typer.Option(min=40, help="Trainings with, and without, each canary.")
    ] = None,
    alpha: Annotated[
        float, typer.Option(help="Probability of a false alarm, over everything tried.")
    ] = 1e-6,
    seed: Annotated[
        int, typer.Option(min=0, help="Of the attack's own choices; noise is secret, as always.")
    ] = 0,
    output: Annotated[
        Path | None, typer.Option(help="Also write a report with a picture: .html or .md.")
    ] = None,
) -> None:
    """Attack small trainings of every kind; compare what is found with the epsilon that they claim.

    Users who do their worst are put in and left out, thousands of times with fresh noise. How well the
    two can be told apart, from everything released, is a lower bound of the true epsilon. If it is above
    what the ledger says, the audit fails, and the command ends with code 1. It attacks the library, on
    data of its own; yours is not needed.

    [bold]Examples[/bold]

      apportion audit --quick

      apportion audit --estimator ratings --estimator events --output audit.html

      apportion audit --long --json > audit.json
    """
    if quick and long:
        raise ParameterError("--quick and --long exclude each other")
    with to.status("starting ..."):
        # Imported here so that `apportion --help` answers at once.
        import apportion.audit as attacks
        from apportion.audit.output import check_output, write_report

        if output is not None:
            check_output(output)
        effort = attacks.QUICK if quick else attacks.LONG if long else attacks.USUAL
        if runs is not None:
            effort = attacks.Effort(runs, effort.crowd, effort.rounds)
        names = [each.value for each in estimator or Attacked]
        total = attacks.planned_runs(names, effort)
    with to.progress() as progress:
        bar = progress.add_task("training", total=total)
        report = attacks.run(
            names, epsilon, delta, effort, alpha, seed, on_run=lambda: progress.advance(bar)
        )
    written = [] if output is None else write_report(output, report)
    _show(to, report)
    to.show_paths(written)
    to.result({**report.to_dict(), "files": [str(path) for path in written]})
    if not report.passed:
        raise typer.Exit(1)


def _show(to: Output, report: "AuditReport") -> None:
    from apportion.audit.output import COLUMNS, summary, table

    shown = Table(title="epsilon, claimed and found", title_justify="left")
    for name in COLUMNS:
        right = name in ("claimed", "estimate", "at least")
        shown.add_column(name, justify="right" if right else "left", no_wrap=name == "release")
    last = ""
    for row in table(report):
        if row[0] != last and last:
            shown.add_section()
        training = row[0] if row[0] != last else ""
        last = row[0]
        color = "green" if row[-1] == "pass" else "bold red"
        shown.add_row(training, *row[1:-1], f"[{color}]{row[-1]}[/{color}]")
    to.show(shown)
    for found in report.findings:
        to.show(f"[bold red]found[/bold red] in {found.training}: {found.what}")
    color = "green" if report.passed else "bold red"
    to.show(summary(report), style=color)
