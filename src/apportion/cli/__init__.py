"""The command ``apportion``. One file per sub-command; errors of a user's making end in one line."""

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any, NoReturn

import typer
from rich.markup import escape

from apportion.accounts.places import resumable_from
from apportion.cli import (
    audit,
    bench,
    budget,
    data,
    demo,
    doctor,
    evaluate,
    explore,
    fit,
    fit_tasks,
    plan,
    plan_tasks,
    predict_tasks,
    prepare,
    recommend,
    report,
    reproduce,
    similar,
    theory,
)
from apportion.cli.output import Commands, add_command
from apportion.cli.terminal import Terminal, replace_what_cannot_be_shown
from apportion.errors import (
    ApportionError,
    BudgetExceededError,
    ReleaseError,
    printable,
)
from apportion.version import __version__


class _Commands(Commands):
    """All commands. What is wrong with their arguments is told in printable words."""

    def make_context(self, *args: Any, **more: Any) -> Any:
        with _printable_errors():
            return super().make_context(*args, **more)

    def invoke(self, ctx: Any) -> Any:
        with _printable_errors():
            return super().invoke(ctx)


@contextmanager
def _printable_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if isinstance(message := getattr(error, "message", None), str):  # of wrong usage
            error.message = printable(message, lines=True)  # type: ignore[attr-defined]
        raise


app = typer.Typer(
    name="apportion",
    cls=_Commands,
    help="User-level differentially private multi-task learning and recommendation.",
    epilog="First steps: [bold]apportion demo[/bold]",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
add_command(app, "demo", demo.demo)
add_command(app, "plan", plan.plan)
add_command(app, "prepare", prepare.prepare, config=True)
add_command(app, "fit", fit.fit, config=True)
add_command(app, "evaluate", evaluate.evaluate, config=True)
add_command(app, "recommend", recommend.recommend)
add_command(app, "similar", similar.similar)
add_command(app, "report", report.report)
add_command(app, "explore", explore.explore)
add_command(app, "audit", audit.audit)
add_command(app, "plan-tasks", plan_tasks.plan_tasks)
add_command(app, "fit-tasks", fit_tasks.fit_tasks, config=True)
add_command(app, "predict-tasks", predict_tasks.predict_tasks)
add_command(app, "theory", theory.theory)
add_command(app, "bench", bench.bench)
add_command(app, "doctor", doctor.doctor)
app.add_typer(budget.app, name="budget")
app.add_typer(reproduce.app, name="reproduce")
app.add_typer(data.app, name="data")


def _print_version(wanted: bool) -> None:
    if wanted:
        Terminal().print(f"apportion {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the full traceback of an error.")
    ] = False,
) -> None:
    del version
    _settings["debug"] = debug


_settings = {"debug": False}
_ENDINGS = ("SIGTERM", "SIGHUP")
_WRONG, _REFUSED, _RESUMABLE = 1, 3, 4


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line with these words, by default those that were typed.

    Exit codes: 0 done, 1 wrong input, 2 wrong usage, 3 refused by a budget or by the rules of privacy,
    4 interrupted or failed, but to be resumed without paying again, 130 interrupted (143, 129 if told to end
    or hung up).
    """
    _settings["debug"] = False
    signal.signal(signal.SIGINT, _interrupt)
    for name in _ENDINGS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, _interrupt)
    replace_what_cannot_be_shown()
    try:
        app(None if words is None else list(words), prog_name="apportion")
    except (ApportionError, OSError) as error:
        if _settings["debug"]:
            raise
        _say(f"[bold red]error:[/bold red] {_describe(error)}")
        _say_notes(error)
        sys.exit(_exit_code(error))
    except SystemExit as stop:
        _say_notes(stop)
        if resumable_from(stop) is not None:
            sys.exit(_RESUMABLE)
        raise


def _exit_code(error: Exception) -> int:
    if resumable_from(error) is not None:
        return _RESUMABLE
    return _REFUSED if isinstance(error, (BudgetExceededError, ReleaseError)) else _WRONG


def _interrupt(number: int, frame: object) -> NoReturn:
    del frame
    for name in _ENDINGS:  # what is being settled now should not be interrupted again
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    _say("interrupted; no file is left half-written under its name")
    sys.exit(128 + number)


def _say_notes(error: BaseException) -> None:
    """What was spent, and how to resume."""
    for note in getattr(error, "__notes__", ()):
        _say(escape(note))


def _say(message: str) -> None:
    with suppress(OSError):  # a terminal that was closed
        Terminal(stderr=True).print(message, highlight=False, soft_wrap=True)


def _describe(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f" {error.filename}" if error.filename else ""
        return escape(printable(f"cannot write or read{where}: {error.strerror}"))
    return escape(printable(error))
