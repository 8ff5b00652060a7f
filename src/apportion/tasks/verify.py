"""Whether the report of a folder of task models is true to its ledger, and the ledger to the folder."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apportion.accounts.declared import Declared
from apportion.allocation import (
    AdaptiveWeights,
    OptimalWeights,
    PrivateCounts,
    PublicCounts,
    TailSampling,
    UniformSampling,
    UniformWeights,
)
from apportion.checks import whole
from apportion.errors import ApportionError, DataError
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
from apportion.folders.kinds import TASK_MODELS
from apportion.plain import from_plain, to_plain
from apportion.privacy import Ledger, PrivacyTarget
from apportion.tasks.base import MultiTaskLinear
from apportion.tasks.contents import unpack
from apportion.tasks.descent import MultiTaskDescent
from apportion.tasks.models import TaskModel
from apportion.tasks.ridge import MultiTaskRidge
from apportion.tasks.schedules import Steps

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_KINDS = (
    AdaptiveWeights, OptimalWeights, PrivateCounts, PublicCounts, Steps, TailSampling, UniformSampling,
    UniformWeights,
)  # fmt: skip
_ESTIMATORS: dict[str, type[MultiTaskRidge] | type[MultiTaskDescent]] = {
    "MultiTaskRidge": MultiTaskRidge,
    "MultiTaskDescent": MultiTaskDescent,
}


def verify(folder: str | Path, key: "Ed25519PublicKey | None" = None) -> list[Check]:
    """Compare what a folder of task models says with what follows from it, as for recommenders.

    >>> import apportion as ap, tempfile
    >>> data = ap.simulate_tasks(users=300, tasks=5, tasks_per_user=2)
    >>> folder = tempfile.mkdtemp() + "/model"
    >>> ap.MultiTaskRidge(epsilon=5.0).fit(data).save(folder)
    >>> all(check.passed for check in verify(folder))
    True
    """
    folder = Path(folder)
    files = read_files(folder, TASK_MODELS)
    model = unpack(folder, files)
    checks = check_files(folder, files, model.privacy, key)
    try:
        training = model.training
        rules = rules_of(training, RULES)
        estimator, tasks = rules.read(training), whole("tasks", training["tasks"], at_least=1)
        declared = declared_in(training)
        compared = {
            "the releases are those that were declared": _releases(
                estimator, declared, tasks, model
            ),
            "what was declared follows from the settings": _declaration(
                rules, estimator, declared, model
            ),
            "tasks and features are those of the releases": _shapes(
                estimator, tasks, declared, model
            ),
            "costs add up to the target": _total(estimator, model),
        }
        checks += [Check(what, tuple(found)) for what, found in compared.items()]
    except (
        ApportionError, KeyError, TypeError, ValueError, OverflowError, StopIteration,
    ) as error:  # fmt: skip
        what = "the settings in the folder describe a training"
        checks.append(Check(what, (f"they do not: {error}",)))
    return checks


def _estimator(training: Mapping[str, Any]) -> MultiTaskLinear:
    """One with the settings of the training; its loss is replaced by the bound on gradients."""
    kind = _ESTIMATORS.get(str(training["estimator"]))
    if kind is None or not isinstance(training["settings"], dict):
        raise DataError("the kind of estimator is not known")
    settings = {name: from_plain(value, _KINDS) for name, value in training["settings"].items()}
    estimator = kind().set_params(**settings)
    estimator._check_parameters()
    return estimator


@dataclass(frozen=True)
class Rules:
    """How what a training declares follows from its settings, as one version has it.

    Attributes
        read: an estimator with the settings that a folder holds.
        releases: what it releases of so many features, with this ledger.
    """

    read: Callable[[Mapping[str, Any]], MultiTaskLinear]
    releases: Callable[[MultiTaskLinear, int, Ledger], list[Declared]]


def _following(estimator: MultiTaskLinear, dimension: int, ledger: Ledger) -> list[Declared]:
    return estimator._releases(dimension, ledger)


# By their number; ``tasks.rules`` has that of the present ones. Older ones stay as they are.
RULES: dict[int, Rules] = {1: Rules(_estimator, _following)}


def _target(estimator: MultiTaskLinear) -> PrivacyTarget:
    return PrivacyTarget(estimator.epsilon, estimator.delta)


def _releases(
    estimator: MultiTaskLinear, declared: list[Declared], tasks: int, model: TaskModel
) -> Iterator[str]:
    target, found = _target(estimator), list(model.privacy.ledger)
    if math.isinf(target.epsilon):
        if found:
            yield "there are releases in a training without privacy"
        return
    expected = [record for one in declared for record in one.records(tasks, one.mu(target))]
    yield from compare_all(expected, found)


def _declaration(
    rules: Rules, estimator: MultiTaskLinear, declared: list[Declared], model: TaskModel
) -> Iterator[str]:
    if math.isinf(estimator.epsilon):
        if declared:
            yield "releases are declared of a training without privacy"
        return
    dimension = model.coef.shape[1] + estimator.intercept
    following = rules.releases(estimator, dimension, model.privacy.ledger)
    if [one.name for one in following] != [one.name for one in declared]:
        yield "other releases are declared, or in another order"
        return
    for right, stated in zip(following, declared, strict=True):
        same = to_plain(replace(right, tasks=stated.tasks if right.tasks is None else right.tasks))
        yield from differences(right.name, same, to_plain(stated))


def _shapes(
    estimator: MultiTaskLinear, tasks: int, declared: list[Declared], model: TaskModel
) -> Iterator[str]:
    if len(model.coef) != tasks:
        yield f"there are models of {len(model.coef)} tasks, not {tasks}"
    if any(one.tasks not in (None, 1) for one in declared):
        yield "a release is declared of another number of tasks"
    inputs, dimension = model.privacy.public_inputs, model.coef.shape[1]
    if inputs.get("dimension") != dimension:
        yield f"the report is about {inputs.get('dimension')} features, not {dimension}"
    for name, value in (
        ("intercept", estimator.intercept),
        ("feature_bound", estimator.feature_bound),
    ):
        if inputs.get(name) != value:
            yield f"{name} is {inputs.get(name)} in the report, but {value} in the settings"


def _total(estimator: MultiTaskLinear, model: TaskModel) -> Iterator[str]:
    target, ledger = _target(estimator), model.privacy.ledger
    if ledger.target != target:
        yield "the target is another"
    sampled = any(record.sampling_rate < 1 for record in ledger)
    if math.isfinite(target.epsilon) and not sampled and not close(ledger.mu, target.mu, CLOSE):
        yield f"the total is mu = {ledger.mu:.6g}, not {target.mu:.6g}"
