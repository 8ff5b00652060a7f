"""Whether the privacy report of a model folder is true to its ledger, and the ledger to the folder."""

import json
import math
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from apportion.accounts import PrivacyReport
from apportion.accounts.declared import Declared
from apportion.errors import ApportionError
from apportion.folders.comparing import (
    CLOSE,
    Check,
    check_files,
    close,
    compare_all,
    declared_in,
    differences,
    rules_of,
)
from apportion.folders.files import read_files
from apportion.folders.kinds import ITEMS
from apportion.plain import to_plain
from apportion.privacy import Record
from apportion.recommend.catalog import MostFrequent
from apportion.recommend.contents import unpack
from apportion.recommend.model import ItemModel
from apportion.recommend.releases import COUNTS
from apportion.recommend.rules import RULES, Rules
from apportion.recommend.serving import penalty_of
from apportion.recommend.settings import Choice, Settings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def verify(folder: str | Path, key: "Ed25519PublicKey | None" = None) -> list[Check]:
    """Compare what a model folder says with what follows from it.

    Epsilon, mu and delta are computed again from the ledger. The releases that the folder declares are
    compared with those in the ledger, and with those that follow from its settings, for the number of items
    and factors in the folder, by the rules of the version that wrote it: names, shapes, sensitivities, grids
    and costs.

    One that is forged as a whole, with every number in step, cannot be told from a true one by this. With a
    ``key`` it can: the folder must be signed with it (``apportion report --sign``). Whatever cannot be read
    at all is a ``DataError``, as in ``load``.

    >>> import apportion as ap, tempfile
    >>> data = ap.simulate_interactions(users=300, items=20, rows=3000)
    >>> folder = tempfile.mkdtemp() + "/model"
    >>> ap.MatrixFactorization(factors=2, sweeps=1, epsilon=5.0).fit(data).save(folder)
    >>> all(check.passed for check in verify(folder))
    True
    """
    folder = Path(folder)
    files = read_files(folder, ITEMS)
    model = unpack(folder, files)
    checks = check_files(folder, files, model.privacy, key)
    try:
        rules, declared = rules_of(model.training, RULES), declared_in(model.training)
        settings, choice = rules.read(model.training["settings"], model.training["choice"])
        compared = {
            "the releases are those that were declared": _releases(settings, declared, model),
            "what was declared follows from the settings": _declaration(
                rules, settings, choice, declared, model
            ),
            "items, factors and intercepts are those of the settings": _shapes(choice, model),
            "costs add up to the target": _total(settings, model.privacy),
            "the settings are those in the report": _inputs(rules, settings, choice, model),
            "the settings are those by which the folder makes recommendations": _fold_in(
                settings, choice, model
            ),
            "neighboring data and warnings are those of the settings": _words(
                rules, settings, model
            ),
        }
        checks += [Check(what, tuple(found)) for what, found in compared.items()]
    except (ApportionError, KeyError, TypeError, ValueError, OverflowError) as error:
        what = "the settings in the folder describe a training"
        checks.append(Check(what, (f"they do not: {error}",)))
    return checks


def _releases(settings: Settings, declared: list[Declared], model: ItemModel) -> Iterator[str]:
    """Records that are declared, one by one, beside those in the ledger."""
    found = list(model.privacy.ledger)
    if not settings.private:
        if found:
            yield "there are releases in a training without privacy"
        return
    yield from compare_all(_records(settings, declared), found)


def _declaration(
    rules: Rules, settings: Settings, choice: Choice, declared: list[Declared], model: ItemModel
) -> Iterator[str]:
    """What follows from the settings beside what is declared."""
    if not settings.private:
        if declared:
            yield "releases are declared of a training without privacy"
        return
    if choice.sweeps > len(declared):
        yield "fewer releases are declared than there are sweeps"
        return
    following = rules.plan(settings, choice).releases
    if [one.name for one in following] != [one.name for one in declared]:
        yield "other releases are declared, or in another order"
        return
    followed = [
        replace(one, tasks=_tasks(settings, mine, model)) if one.tasks is None else one
        for one, mine in zip(following, declared, strict=True)
    ]
    for right, stated in zip(followed, declared, strict=True):
        yield from differences(right.name, to_plain(right), to_plain(stated))


def _records(settings: Settings, declared: list[Declared]) -> list[Record]:
    """What the ledger holds of declared releases."""
    target = settings.target
    return [
        record
        for one in declared
        for record in one.records(one.tasks or 0, one.mu(target), target.selection_delta)
    ]


def _tasks(settings: Settings, declared: Declared, model: ItemModel) -> int:
    """Of how many tasks a release is: of the model's items, or of all of which a share was kept."""
    items, of_all = len(model.items), declared.tasks or 0
    counted = declared.name == COUNTS and isinstance(settings.catalog, MostFrequent)
    if counted and math.ceil(settings.catalog.items * of_all) == items:  # type: ignore[attr-defined]
        return of_all
    return items


def _shapes(choice: Choice, model: ItemModel) -> Iterator[str]:
    factors = model.items.shape[1]
    if choice.factors != factors:
        yield f"the items have {factors} factors, not {choice.factors}"
    if (model.intercepts is not None) != (choice.intercept_share > 0):
        yield "there are intercepts without their release, or the other way round"


def _total(settings: Settings, report: PrivacyReport) -> Iterator[str]:
    if report.ledger.target != settings.target:
        yield "the target is another"
    if settings.private and not close(report.ledger.mu, settings.target.mu, CLOSE):
        yield f"the total is mu = {report.ledger.mu:.6g}, not {settings.target.mu:.6g}"


def _inputs(rules: Rules, settings: Settings, choice: Choice, model: ItemModel) -> Iterator[str]:
    expected = rules.inputs(settings, choice, len(model.items))
    chosen = model.privacy.chosen
    for name in sorted(set(chosen) - {each.name for each in fields(Choice)}):
        yield f"{name} is said to be chosen, but is no setting that may be"
    found = {**chosen, **model.privacy.public_inputs}
    for name, value in json.loads(json.dumps(expected)).items():
        if json.loads(json.dumps(found.get(name))) != value:
            yield f"{name} is {found.get(name)} in the report, but {value} in the settings"
    # Of events and the range of ratings that do not count, the settings say nothing.
    for name in sorted(set(found) - set(expected) - {"events", "rating_range"}):
        yield f"{name} is in the report, but not in the settings"


def _fold_in(settings: Settings, choice: Choice, model: ItemModel) -> Iterator[str]:
    used = model.fold_in
    regularization, exponent = penalty_of(settings, choice)
    if used.shrinkage > 0 and settings.center != "user":
        yield "users' means are drawn towards that of all, but none are subtracted"
    for name, found, said in (
        ("feedback", used.feedback, settings.feedback),
        ("regularization", used.regularization, regularization),
        ("exponent", used.exponent, exponent),
        ("unobserved_weight", used.unobserved_weight, choice.serving_weight),
        ("center", used.center, settings.center),
        ("rating_range", used.rating_range, settings.rating_range),
    ):
        if found != said:
            yield f"{name} is {found} in the folder, but {said} in the settings"


def _words(rules: Rules, settings: Settings, model: ItemModel) -> Iterator[str]:
    neighboring = rules.neighboring(settings)
    if model.privacy.neighboring != neighboring:
        yield f"neighboring should be: {neighboring}"
    for warning in rules.warnings(settings):
        if warning not in model.privacy.warnings:
            yield f"a warning is missing: {warning}"
