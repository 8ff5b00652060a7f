"""Whether the privacy report of a model folder is true to its ledger, and the ledger to the folder."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apportion.accounts import PrivacyReport, signatures
from apportion.allocation import (
    AdaptiveWeights,
    PrivateCounts,
    PublicCounts,
    TailSampling,
    UniformSampling,
)
from apportion.errors import ApportionError, DataError
from apportion.plain import from_plain
from apportion.privacy import PrivacyTarget, Record
from apportion.recommend import releases
from apportion.recommend.catalog import MostFrequent, PrivateCatalog, PublicCatalog
from apportion.recommend.contents import REPORT, unpack
from apportion.recommend.files import read_files, read_signature
from apportion.recommend.model import ItemModel
from apportion.recommend.settings import (
    Choice,
    GradientDescent,
    Settings,
    Shares,
    SufficientStatistics,
    public_inputs,
)
from apportion.recommend.training import count_warnings
from apportion.tasks.base import allocation_inputs

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

# What the settings of a training may hold.
_KINDS = (
    AdaptiveWeights, Choice, GradientDescent, MostFrequent, PrivacyTarget, PrivateCatalog, PrivateCounts,
    PublicCatalog, PublicCounts, Settings, Shares, SufficientStatistics, TailSampling, UniformSampling,
)  # fmt: skip
# Floating-point numbers that were computed in another order.
_CLOSE = 1e-8


@dataclass(frozen=True)
class Check:
    """One thing that was compared: what, and what is wrong with it (nothing, if it is right)."""

    what: str
    wrong: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong


def verify(folder: str | Path, key: "Ed25519PublicKey | None" = None) -> list[Check]:
    """Compare what a model folder says with what follows from it.

    Epsilon, mu and delta are computed again from the ledger. The releases that a training with the folder's
    settings declares, for the number of items and factors in the folder, are compared with those in the
    ledger: names, shapes, sensitivities, grids and costs.

    One that is forged as a whole, with every number in step, cannot be told from a true one by this. With a
    ``key`` it can: the folder must be signed with it (``apportion.recommend.files.sign``). Whatever cannot
    be read at all is a ``DataError``, as in ``load``.

    >>> import apportion as ap, tempfile
    >>> data = ap.simulate_interactions(users=300, items=20, rows=3000)
    >>> folder = tempfile.mkdtemp() + "/model"
    >>> ap.MatrixFactorization(factors=2, sweeps=1, epsilon=5.0).fit(data).save(folder)
    >>> all(check.passed for check in verify(folder))
    True
    """
    folder = Path(folder)
    files, signature = read_files(folder), None if key is None else read_signature(folder)
    model = unpack(folder, files)
    stated = json.loads(files[REPORT])
    stated_well = tuple(_stated(stated, model.privacy))
    checks = [
        Check("the files are those that were saved together"),
        Check("epsilon, mu and delta follow from the ledger", stated_well),
    ]
    if key is not None:
        unsigned = f"there is no {signatures.FILE}"
        wrong = unsigned if signature is None else signatures.check(files, signature, key)
        what = f"the folder is signed with the key {signatures.name_of(key)[:16]}..."
        checks.append(Check(what, () if wrong is None else (wrong,)))
    try:
        settings = from_plain(model.training["settings"], _KINDS)
        choice = from_plain(model.training["choice"], _KINDS)
        if not isinstance(settings, Settings) or not isinstance(choice, Choice):
            raise DataError("they are of another kind")
        compared = {
            "the releases are those that the settings declare": _releases(settings, choice, model),
            "items, factors and intercepts are those of the settings": _shapes(choice, model),
            "costs add up to the target": _total(settings, model.privacy),
            "the settings are those in the report": _inputs(settings, choice, model),
            "the settings are those by which the folder makes recommendations": _fold_in(
                settings, model
            ),
            "neighboring data and warnings are those of the settings": _words(settings, model),
        }
        checks += [Check(what, tuple(found)) for what, found in compared.items()]
    except (ApportionError, KeyError, TypeError, ValueError, OverflowError) as error:
        what = "the settings in the folder describe a training"
        checks.append(Check(what, (f"they do not: {error}",)))
    return checks


def _stated(stated: Mapping[str, Any], report: PrivacyReport) -> Iterator[str]:
    computed = json.loads(report.to_json())
    for name in ("private", "epsilon", "delta", "mu", "unit"):
        mine, theirs = computed[name], stated.get(name)
        numbers = isinstance(mine, float) and type(theirs) in (int, float)
        same = type(mine) is type(theirs) and mine == theirs
        if not (_close(theirs, mine, 1e-9) if numbers else same):
            yield f"{name} is said to be {theirs}, but the ledger gives {mine}"


def _releases(settings: Settings, choice: Choice, model: ItemModel) -> Iterator[str]:
    """Records that are declared, one by one, beside those in the ledger."""
    found = list(model.privacy.ledger)
    if not settings.private:
        if found:
            yield "there are releases in a training without privacy"
        return
    if choice.sweeps > len(found):
        yield "there are fewer releases than sweeps"
        return
    declared = [
        (release, record)
        for release in releases.plan(settings, choice).releases
        for record in release.records(
            _tasks(settings, release.name, model, found),
            release.mu(settings.target),
            settings.target.selection_delta,
        )
    ]
    if [record.name for _, record in declared] != [record.name for record in found]:
        yield "the ledger has other releases, or in another order"
        return
    for (_, expected), record in zip(declared, found, strict=True):
        yield from _compare(expected, record)


def _tasks(settings: Settings, name: str, model: ItemModel, found: list[Record]) -> int:
    """Of how many tasks a release is: of the model's items, or of all of which a share was kept."""
    items = len(model.items)
    if name == releases.COUNTS and isinstance(settings.catalog, MostFrequent):
        of_all = [record.shape[0] for record in found if record.name == name and record.shape]
        if of_all and math.ceil(settings.catalog.items * of_all[0]) == items:
            return of_all[0]
    return items


def _compare(expected: Record, record: Record) -> Iterator[str]:
    for name in ("what", "because", "shape", "steps", "sampling_rate", "delta", "grid"):
        mine, theirs = getattr(expected, name), getattr(record, name)
        if tuple(theirs) != tuple(mine) if name == "shape" else theirs != mine:
            yield f"{record.name} has {name} {theirs}, not {mine}"
    for name in ("sensitivity", "mu"):
        mine, theirs = getattr(expected, name), getattr(record, name)
        if not _close(theirs, mine, _CLOSE):
            yield f"{record.name} has {name} {theirs:.6g}, not {mine:.6g}"


def _shapes(choice: Choice, model: ItemModel) -> Iterator[str]:
    factors = model.items.shape[1]
    if choice.factors != factors:
        yield f"the items have {factors} factors, not {choice.factors}"
    if (model.intercepts is not None) != (choice.intercept_share > 0):
        yield "there are intercepts without their release, or the other way round"


def _total(settings: Settings, report: PrivacyReport) -> Iterator[str]:
    if report.ledger.target != settings.target:
        yield "the target is another"
    if settings.private and not _close(report.ledger.mu, settings.target.mu, _CLOSE):
        yield f"the total is mu = {report.ledger.mu:.6g}, not {settings.target.mu:.6g}"


def _inputs(settings: Settings, choice: Choice, model: ItemModel) -> Iterator[str]:
    expected = public_inputs(settings, choice)
    expected["catalog"] = f"{settings.catalog!r}: {len(model.items)} items"
    expected |= allocation_inputs(settings.allocation, settings.catalog.counts)
    if settings.rating_range is not None:
        expected["rating_range"] = settings.rating_range
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


def _fold_in(settings: Settings, model: ItemModel) -> Iterator[str]:
    used = model.fold_in
    if used.shrinkage > 0 and settings.center != "user":
        yield "users' means are drawn towards that of all, but none are subtracted"
    for name, found, said in (
        ("feedback", used.feedback, settings.feedback),
        ("regularization", used.regularization, settings.user_regularization),
        ("exponent", used.exponent, settings.exponent),
        ("unobserved_weight", used.unobserved_weight, settings.unobserved_weight),
        ("center", used.center, settings.center),
        ("rating_range", used.rating_range, settings.rating_range),
    ):
        if found != said:
            yield f"{name} is {found} in the folder, but {said} in the settings"


def _words(settings: Settings, model: ItemModel) -> Iterator[str]:
    counts = settings.catalog.counts
    source = settings.allocation if counts is None else counts
    if model.privacy.neighboring != source.neighboring():
        yield f"neighboring should be: {source.neighboring()}"
    for warning in count_warnings(settings):
        if warning not in model.privacy.warnings:
            yield f"a warning is missing: {warning}"


def _close(found: Any, expected: float, tolerance: float) -> bool:
    return math.isclose(found, expected, rel_tol=tolerance)
