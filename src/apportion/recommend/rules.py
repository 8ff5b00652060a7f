"""What a training's settings promise, by the rules of the version that wrote them.

A model folder keeps the declaration of its releases (names, bounds, shapes, costs), the settings of its
training, and the number of the rules by which the one follows from the other. To verify it, bounds and
costs are derived again from the settings by the rules of that number, so a genuine model stays genuine
when later versions plan their releases otherwise.

Rules that were part of a release never change. Whoever changes what a training releases, how it is bounded,
or which settings there are, keeps the functions as they were, under their number, and gives the new ones the
next: an entry of ``RULES`` for each. ``tests/recommend/test_rules.py`` holds what each number says.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from apportion.accounts.plan import Plan
from apportion.allocation import (
    AdaptiveWeights,
    PrivateCounts,
    PublicCounts,
    TailSampling,
    UniformSampling,
)
from apportion.errors import DataError
from apportion.plain import from_plain, to_plain
from apportion.privacy import Ledger, PrivacyTarget
from apportion.recommend import releases
from apportion.recommend.catalog import MostFrequent, PrivateCatalog, PublicCatalog
from apportion.recommend.groups import GradientDescent, Shares, SufficientStatistics
from apportion.recommend.prepare import count_warnings
from apportion.recommend.settings import Choice, Settings, public_inputs
from apportion.tasks.private_fit import allocation_inputs

# What the settings of a training may hold.
_KINDS = (
    AdaptiveWeights, Choice, GradientDescent, MostFrequent, PrivacyTarget, PrivateCatalog, PrivateCounts,
    PublicCatalog, PublicCounts, Settings, Shares, SufficientStatistics, TailSampling, UniformSampling,
)  # fmt: skip


@dataclass(frozen=True)
class Rules:
    """How what a training declares follows from its settings, as one version has it.

    Attributes
        read: the settings and the choice, as a model folder holds them, as those of this version.
        plan: the releases that follow from them.
        inputs: what the report takes as public, or says that it has chosen.
        neighboring: what the report says of neighboring data.
        warnings: those that the report must have.
    """

    read: Callable[[Any, Any], tuple[Settings, Choice]]
    plan: Callable[[Settings, Choice], Plan]
    inputs: Callable[[Settings, Choice, int], dict[str, Any]]
    neighboring: Callable[[Settings], str]
    warnings: Callable[[Settings], tuple[str, ...]]


def _read(settings: Any, choice: Any) -> tuple[Settings, Choice]:
    found, chosen = from_plain(settings, _KINDS), from_plain(choice, _KINDS)
    if not isinstance(found, Settings) or not isinstance(chosen, Choice):
        raise DataError("they are of another kind")
    return found, chosen


def _read_first(settings: Any, choice: Any) -> tuple[Settings, Choice]:
    """One unobserved weight was given, for training and serving alike; none was chosen. So for penalties."""
    weight = settings["unobserved_weight"]
    used = {"unobserved_weight": weight, "serving_weight": weight, "serving_regularization": 0.0}
    return _read({**settings, "validation_share": 0.0}, {**choice, **used})


def _inputs(settings: Settings, choice: Choice, items: int) -> dict[str, Any]:
    expected = public_inputs(settings, choice)
    expected["catalog"] = f"{settings.catalog!r}: {items} items"
    expected |= allocation_inputs(settings.allocation, settings.catalog.counts)
    if settings.rating_range is not None:
        expected["rating_range"] = settings.rating_range
    return expected


def _neighboring(settings: Settings) -> str:
    counts = settings.catalog.counts
    return (settings.allocation if counts is None else counts).neighboring()


RULES: dict[int, Rules] = {
    1: Rules(_read_first, releases.plan, _inputs, _neighboring, count_warnings),
    2: Rules(_read, releases.plan, _inputs, _neighboring, count_warnings),
}
# Those by which trainings declare now, and the first version of the package that knows them.
PRESENT, NEEDS = 2, "0.1.0"


def declare(
    settings: Settings, choice: Choice, plan: Plan | None, ledger: Ledger
) -> dict[str, Any]:
    """What a model folder keeps of its training, as plain values; of what was planned and released."""
    declared, records = () if plan is None else plan.releases, iter(ledger)
    whole = []
    for one in declared:  # one record for each of its parts, in their order
        first, *_ = islice(records, len(one.parts))
        whole.append(replace(one, tasks=first.shape[0]))
    return {
        "rules": PRESENT,
        "needs": NEEDS,
        "settings": to_plain(settings),
        "choice": to_plain(choice),
        "releases": to_plain(whole),
    }
