"""``apportion report``: the guarantee of a saved model, and whether it is true to its records."""

from json import dumps
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from apportion.cli.reading import Json, Model
from apportion.cli.terminal import Terminal, print_json

if TYPE_CHECKING:
    from apportion.recommend.verify import Check


def report(
    model: Model,
    json: Json = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Compare the report with its ledger and with the files; exit code 1 if not right.",
        ),
    ] = False,
) -> None:
    """Show the privacy report of a saved model.

    Epsilon is computed again from the record of all releases, never read from the file. With
    [bold]--verify[/bold] all numbers are compared: those that the report states with those of its ledger,
    and the ledger with the settings, items and factors in the folder. A report is not signed: one that was
    forged as a whole cannot be told from a true one.

    [bold]Examples[/bold]

      apportion report model

      apportion report model --json

      apportion report model --verify
    """
    from apportion.recommend.files import load

    privacy = load(model).privacy
    if verify:
        from apportion.recommend.verify import verify as verify_folder

        _show(verify_folder(model), privacy.verdict, json)
    elif json:
        print_json(privacy.to_json())
    else:
        Terminal().print(privacy)


def _show(checks: "list[Check]", verdict: str, json: bool) -> None:
    right = all(check.passed for check in checks)
    if json:
        entries = [{"what": check.what, "wrong": list(check.wrong)} for check in checks]
        values = {"verified": right, "verdict": verdict if right else None, "checks": entries}
        print_json(dumps(values, indent=2))
    else:
        console = Terminal()
        for check in checks:
            console.print(
                f"{'[green]yes[/green]' if check.passed else '[red]NO [/red]'} {check.what}"
            )
            for wrong in check.wrong:
                console.print(f"      {escape(wrong)}", highlight=False, soft_wrap=True)
        if right:
            console.print(f"verified: {verdict}", highlight=False)
        else:
            console.print("[bold red]NOT VERIFIED: do not rely on this report[/bold red]")
    if not right:
        raise typer.Exit(1)
