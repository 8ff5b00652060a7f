"""``apportion report``: the guarantee of a saved model, and whether it is true to its records."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from apportion.cli.budget import show_history, values_of
from apportion.cli.output import Html, Output
from apportion.cli.reading import Model
from apportion.errors import DataError, printable

if TYPE_CHECKING:
    from apportion.accounts import PrivacyReport
    from apportion.accounts.budget import Budget
    from apportion.accounts.history import Training
    from apportion.folders.comparing import Check

# Of an evaluation, what is worth publishing: overall and by popularity of items.
_METRICS = (
    "rmse",
    "rmse_by_bucket",
    "recall",
    "recall_by_bucket",
    "ndcg",
    "ndcg_by_bucket",
    "rows",
    "users",
)


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
    budget: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Find the training in this budget; an error if it has not paid for this model.",
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
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Say item by item what guidelines ask a guarantee to state (NIST SP 800-226).",
        ),
    ] = False,
    utility: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --full or --registry: what apportion evaluate --json found, if it may be published.",
        ),
    ] = None,
    registry: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a draft entry (YAML) for the public registry of deployments.",
        ),
    ] = None,
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

      apportion report model --budget budget.db

      apportion report model --full --registry entry.yaml --utility evaluation.json

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
    if sign is not None and (verify or budget is not None):
        raise typer.BadParameter("does not go with --verify or --budget", param_hint="'--sign'")
    if utility is not None and not full and registry is None:
        raise typer.BadParameter("goes with --full or --registry only", param_hint="'--utility'")
    if (full or registry is not None) and (
        verify or sign is not None or html is not None or budget is not None
    ):
        raise typer.BadParameter("go with no other option", param_hint="'--full' / '--registry'")
    if sign is not None:
        _sign(to, model, sign)
        return
    if full or registry is not None:
        _disclose(to, model, full, utility, registry)
        return
    from apportion.recommend.loading import load_any, verify_any

    privacy = load_any(model).privacy
    paid = None if budget is None else _find(to, privacy, budget)
    if verify:
        from apportion.accounts.signatures import read_public_key

        public = None if key is None else read_public_key(key)
        _show(to, verify_any(model, public), privacy.verdict)
    else:
        if html is not None:
            from apportion.explore import report_page, write_page

            write_page(html, report_page(privacy, model.resolve().name))
        values = json.loads(privacy.to_json())
        if paid is not None:
            values["paid"] = values_of(*paid)
        to.result(values)
        to.show(privacy)
        to.show_paths([] if html is None else [html])
    if paid is not None:
        show_history(to, [paid[0]], paid[1])


def _find(to: Output, privacy: "PrivacyReport", path: Path) -> "tuple[Training, Budget]":
    """The training that paid for a model, and its budget; an error if its line says something else."""
    from apportion.accounts.budget import Budget

    trail, budget = privacy.trail, Budget(path)
    if trail is None or not trail.training:
        raise DataError("the report names no training: no budget paid for this model")
    training = budget.training(trail.training)
    if training is None:
        raise DataError(f"{path} does not have the training {trail.training} that the report names")
    records = list(privacy.ledger)
    if not all(record in records for record in training.releases) or not training.releases:
        raise DataError(
            f"training {trail.training[:8]} has released something else than this model"
        )
    # What was prepared before has been paid as a training of its own.
    paid = [record for one in budget.history() for record in one.releases]
    if not all(record in paid for record in records):
        raise DataError(f"{path} has not paid for all releases of this model")
    if trail.digest != training.digest:
        to.warn(
            f"the budget knows the model of training {trail.training[:8]} by another digest: this one was "
            "saved again, with other titles, or it is another model with the same releases"
        )
    return training, budget


def _disclose(
    to: Output, model: Path, full: bool, utility: Path | None, registry: Path | None
) -> None:
    """What guidelines ask for, on the terminal, and as an entry for the registry."""
    from apportion.accounts.disclosure import disclosure
    from apportion.accounts.registry import registry_entry
    from apportion.data.files import check_folder, written_whole
    from apportion.folders.files import read_files
    from apportion.folders.kinds import SETTINGS
    from apportion.recommend.loading import load_any

    if registry is not None:
        check_folder(registry.parent)
    privacy = load_any(model).privacy
    version = json.loads(read_files(model)[SETTINGS])["version"]
    found = None if utility is None else _read_utility(utility)
    items = disclosure(privacy, printable(version), found)
    if registry is not None:
        entry = registry_entry(privacy, items, model.resolve().name)
        with written_whole(registry) as path:
            path.write_text(entry, "utf-8")
    files = [] if registry is None else [registry]
    to.result({"disclosure": items, "files": [str(path) for path in files]})
    if full:
        for name, text in items.items():
            to.show(f"[bold]{name}[/bold]: {escape(printable(text))}", soft_wrap=False)
    to.show_paths(files)


def _read_utility(path: Path) -> dict[str, Any]:
    """Metrics from what ``apportion evaluate --json`` printed."""
    from apportion.json_text import parse_json

    try:
        values = parse_json(path.read_bytes())
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    if not isinstance(values, dict):
        raise DataError(f"{path} is not what apportion evaluate --json prints")
    known = {name: values[name] for name in _METRICS if values.get(name) is not None}
    if not known:
        raise DataError(f"{path} has none of the metrics {', '.join(_METRICS)}")
    return known


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
