"""``apportion report``: the guarantee of a saved model, and whether it is true to its records."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from apportion.cli.output import Html, Output
from apportion.cli.reading import Model
from apportion.errors import printable

if TYPE_CHECKING:
    from apportion.folders.comparing import Check


def report(
    to: Output,
    model: Model,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Compare the report with its ledger and with the files; exit code 1 if not right.",
        ),
    ] = False,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="PUB", help="With --verify: the folder must be signed with this public key."
        ),
    ] = None,
    sign: Annotated[
        Path | None,
        typer.Option(
            metavar="KEY",
            help="Sign the model and its report with this private key (Ed25519, of OpenSSL or OpenSSH).",
        ),
    ] = None,
    html: Html = None,
) -> None:
    """Show the privacy report of a saved model; verify it, or sign it.

    Epsilon is computed again from the record of all releases, never read from the file. With
    [bold]--verify[/bold] all numbers are compared: those that the report states with those of its ledger,
    and the ledger with the settings, items and factors in the folder. A report that was forged as a whole
    cannot be told from a true one by this, unless it is signed: [bold]--sign[/bold] adds a signature to the
    folder, [bold]--verify --key[/bold] checks it.

    [bold]Examples[/bold]

      apportion report model

      apportion report model --json

      apportion report model --html privacy.html

      apportion report model --verify

      Signed, with a key pair that OpenSSL makes (or ssh-keygen -t ed25519):

      openssl genpkey -algorithm ed25519 -out key.pem

      openssl pkey -in key.pem -pubout -out key.pub

      apportion report model --sign key.pem

      apportion report model --verify --key key.pub
    """
    if key is not None and not verify:
        raise typer.BadParameter("goes with --verify only", param_hint="'--key'")
    if html is not None and (verify or sign is not None):
        raise typer.BadParameter("goes with no other option", param_hint="'--html'")
    if sign is not None and verify:
        raise typer.BadParameter("does not go with --verify", param_hint="'--sign'")
    if sign is not None:
        _sign(to, model, sign)
        return
    from apportion.recommend.loading import load_any, verify_any

    privacy = load_any(model).privacy
    if verify:
        from apportion.accounts.signatures import read_public_key

        public = None if key is None else read_public_key(key)
        _show(to, verify_any(model, public), privacy.verdict)
    else:
        if html is not None:
            from apportion.explore import report_page, write_page

            write_page(html, report_page(privacy, model.resolve().name))
        to.result(json.loads(privacy.to_json()))
        to.show(privacy)
        to.show_paths([] if html is None else [html])


def _sign(to: Output, model: Path, key: Path) -> None:
    from apportion.accounts.signatures import FILE, PassphraseError, read_private_key
    from apportion.recommend.loading import sign as sign_folder

    try:
        private = read_private_key(key)
    except PassphraseError:
        phrase = typer.prompt(f"passphrase of {printable(key)}", hide_input=True, err=True)
        private = read_private_key(key, phrase.encode())
    name = sign_folder(model, private)
    to.result({"key": name, "files": [str(model / FILE)]})
    to.show(f"signed with the key {name}: {escape(printable(model / FILE))}")


def _show(to: Output, checks: "list[Check]", verdict: str) -> None:
    right = all(check.passed for check in checks)
    entries = [{"what": check.what, "wrong": list(check.wrong)} for check in checks]
    to.result({"verified": right, "verdict": verdict if right else None, "checks": entries})
    for check in checks:
        to.show(f"{'[green]yes[/green]' if check.passed else '[red]NO [/red]'} {check.what}")
        for wrong in check.wrong:
            to.show(f"      {escape(wrong)}")
    if right:
        to.show(f"verified: {verdict}")
    else:
        to.show("[bold red]NOT VERIFIED: do not rely on this report[/bold red]")
    if not right:
        raise typer.Exit(1)
