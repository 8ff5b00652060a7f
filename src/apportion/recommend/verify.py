"""Whether the privacy report of a model folder is true to its ledger, and the ledger to the folder."""

import ast
import inspect
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apportion.accounts import PrivacyReport
from apportion.allocation import (
    AdaptiveWeights,
    PrivateCounts,
    PublicCounts,
    TailSampling,
    UniformSampling,
)
from apportion.errors import ApportionError, DataError
from apportion.privacy import UserBound, packed_width
from apportion.privacy.bounds import ROUNDING
from apportion.recommend.catalogue import MostFrequent, PrivateCatalogue, PublicCatalogue
from apportion.recommend.contents import REPORT
from apportion.recommend.factorization import MatrixFactorization
from apportion.recommend.files import load
from apportion.recommend.planner import Choice
from apportion.recommend.recommender import ItemModel

# What public inputs may name, as it prints itself.
_PARTS = {
    part.__name__: part
    for part in (
        AdaptiveWeights, MostFrequent, PrivateCatalogue, PrivateCounts, PublicCatalogue,
        PublicCounts, TailSampling, UniformSampling,
    )
}  # fmt: skip
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


def verify(folder: str | Path) -> list[Check]:
    """Compare what a model folder says with what follows from it.

    Epsilon, mu and delta are computed again from the ledger. The settings in the report are made into the
    estimator that they describe: its plan says which releases there must have been, how large, how
    sensitive and at what cost, for the number of items and factors in the folder.

    A report is not signed: one that is forged as a whole, with every number in step, cannot be told from
    a true one. Whatever cannot be read at all is a ``DataError``, as in ``load``.

    >>> import apportion as ap, tempfile
    >>> data = ap.simulate_interactions(users=300, items=20, rows=3000)
    >>> folder = tempfile.mkdtemp() + "/model"
    >>> ap.MatrixFactorization(factors=2, sweeps=1, epsilon=5.0).fit(data).save(folder)
    >>> all(check.passed for check in verify(folder))
    True
    """
    folder = Path(folder)
    model = load(folder).released
    stated = json.loads((folder / REPORT).read_bytes())
    checks = [
        Check("the files are those that were saved together"),
        Check(
            "epsilon, mu and delta follow from the ledger", tuple(_stated(stated, model.privacy))
        ),
    ]
    try:
        described = _Described(model)
        wrong = {
            "the releases are those of the settings": described.releases(),
            "their shapes are those of the items and factors in the folder": described.shapes(),
            "their sensitivities and grids follow from the bounds": described.sensitivities(),
            "their costs are as planned and add up to the target": described.costs(),
            "the settings are those by which the folder makes recommendations": described.step(),
            "neighbouring data and warnings are those of the settings": described.words(),
        }
        checks += [Check(what, tuple(found)) for what, found in wrong.items()]
    except (ApportionError, KeyError, TypeError, ValueError) as error:
        what = "the settings in the report describe a training"
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


class _Described:
    """The training that a report describes, and what must be true of it."""

    def __init__(self, model: ItemModel) -> None:
        self._model, self._report = model, model.privacy
        self._records = list(model.privacy.ledger)
        self._target = model.privacy.ledger.target
        public = dict(model.privacy.public_inputs)
        catalogue, items = str(public.pop("catalogue")).rsplit(": ", 1)
        if items != f"{len(model.items)} items":
            raise DataError(f"the catalogue has {items}, the folder {len(model.items)}")
        if public["sweeps"] not in range(1, len(self._records) + 1):
            raise DataError("there are fewer releases than sweeps")
        self._public = public
        names = inspect.signature(MatrixFactorization).parameters
        parameters = {name: value for name, value in public.items() if name in names}
        parameters["allocation"] = _rebuilt(str(public["allocation"]))
        self._estimator = MatrixFactorization(
            **{**parameters, "catalogue": _rebuilt(catalogue)},
            epsilon=self._target.epsilon,
            delta=self._target.delta,
        )
        choice = Choice(
            parameters["factors"], parameters["sweeps"], parameters.get("intercept_share", 0.0)
        )
        self._private = math.isfinite(self._target.epsilon)
        self._estimator.plan()  # checks the parameters
        plan = self._estimator._plan(choice)
        unplanned = set() if self._private else {"counts", "weights"}
        self._planned = [one for one in plan.releases if one.name not in unplanned]
        if [one.name for one in self._planned] != [record.name for record in self._records]:
            self._planned = []
        self._by_name = {one.name: plan.mu(one.name) for one in self._planned}

    def releases(self) -> Iterator[str]:
        if not self._planned:
            yield "the ledger has other releases, or in another order"
        descends = self._estimator.solver == "descent"
        for record in self._records:
            sweep = record.name.startswith("sweep") and not record.name.endswith("gramian")
            steps = self._estimator.steps if descends and sweep else 1
            if record.steps != steps:
                yield f"{record.name} has {record.steps} steps, not {steps}"
            if record.sampling_rate != 1:
                yield f"{record.name} is to sampled users"

    def shapes(self) -> Iterator[str]:
        items, factors = self._model.items.shape
        if self._public["factors"] != factors:
            yield f"the items have {factors} factors, not {self._public['factors']}"
        if (self._model.intercepts is not None) != ("intercepts" in self._by_name):
            yield "there are intercepts without their release, or the other way round"
        for record in self._records:
            expected = self._shape(record.name, items, factors)
            found = record.shape
            catalogue = self._estimator._catalogue
            if record.name == "counts" and isinstance(catalogue, MostFrequent):
                # Of all items of which a share was kept.
                right = len(found) == 2 and found[1] == 1
                right = right and math.ceil(catalogue.items * found[0]) == items
            else:
                right = found == expected
            if not right:
                yield f"{record.name} has shape {found}, not {expected}"

    def _shape(self, name: str, items: int, factors: int) -> tuple[int, int]:
        if name in ("mean", "users"):
            return 1, 2 if name == "mean" else 1
        if name.endswith("gramian"):
            return 1, packed_width(factors)
        if name.startswith("sweep"):
            return items, packed_width(factors) if name.endswith(".A") else factors
        return items, 1

    def sensitivities(self) -> Iterator[str]:
        if not self._private:
            if any(record.grid != 0 for record in self._records):
                yield "there is a grid in a training without noise"
            return
        for record in self._records:
            bound = UserBound(self._bound(record.name), "")
            expected = bound.norm * (1 + ROUNDING)
            if not _close(record.sensitivity, expected, _CLOSE):
                yield f"{record.name} has sensitivity {record.sensitivity:g}, not {expected:g}"
            if record.grid != bound.grid(record.mu / math.sqrt(record.steps)):
                yield f"{record.name} is on another grid than its bound and noise demand"

    def _bound(self, name: str) -> float:
        estimator = self._estimator
        feature, label = float(estimator.feature_bound), float(self._public.get("label_bound", 1.0))
        if name == "counts":
            counts = estimator._catalogue.counts or estimator._allocation.counts
            return math.sqrt(counts.cap) if isinstance(counts, PrivateCounts) else 0.0
        if name == "mean":
            return math.sqrt(2)
        if name in ("weights", "users"):
            return 1.0
        if name == "intercepts":
            return label
        if name.endswith(("gramian", ".A")):
            return feature**2
        if estimator.solver == "descent":
            return float(self._public["gradient_bound"])
        return feature * label

    def costs(self) -> Iterator[str]:
        if self._estimator._target != self._target:
            yield "the part of delta that is for selections is another"
        if not self._private:
            if any(record.noise_scale > 0 for record in self._records):
                yield "there is noise in a training without privacy"
            return
        for record in self._records:
            mu = self._by_name.get(record.name, math.nan)
            if not _close(record.mu, mu, _CLOSE):
                yield f"{record.name} costs mu = {record.mu:.6g}, not {mu:.6g}"
            delta = self._target.selection_delta if record.name == "counts" else 0.0
            if record.delta != delta:
                yield f"{record.name} costs delta = {record.delta:g}, not {delta:g}"
        if not _close(self._report.ledger.mu, self._target.mu, _CLOSE):
            yield f"the total is mu = {self._report.ledger.mu:.6g}, not {self._target.mu:.6g}"

    def step(self) -> Iterator[str]:
        step, explicit = self._model.user_step, self._estimator.feedback == "explicit"
        within = self._public.get("rating_range") if explicit else None
        for name, used, said in (
            ("feedback", step.feedback, self._estimator.feedback),
            ("user_regularization", step.regularization, self._public["user_regularization"]),
            ("exponent", step.exponent, self._public["exponent"]),
            (
                "unobserved_weight",
                step.unobserved_weight,
                self._public.get("unobserved_weight", 0.0),
            ),
            ("centring", step.centring, self._estimator._centring),
            ("rating_range", step.rating_range, within and tuple(within)),
        ):
            if used != said:
                yield f"{name} is {used} in the folder, but {said} in the report"

    def words(self) -> Iterator[str]:
        source = self._estimator._catalogue.counts or self._estimator._allocation
        if self._report.neighbouring != source.neighbouring():
            yield f"neighbouring should be: {source.neighbouring()}"
        for warning in source.warnings():
            if warning not in self._report.warnings:
                yield f"a warning is missing: {warning}"


def _close(found: Any, expected: float, tolerance: float) -> bool:
    return math.isclose(found, expected, rel_tol=tolerance)


def _rebuilt(text: str) -> Any:
    """An allocation or a catalogue from how it prints itself: known names and plain values only."""

    def build(node: ast.expr) -> Any:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
            if node.func.id not in _PARTS:
                raise DataError(f"{node.func.id} is not known")
            values = {str(part.arg): build(part.value) for part in node.keywords}
            return _PARTS[node.func.id](**values)
        return ast.literal_eval(node)

    try:
        return build(ast.parse(text, mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError):
        raise DataError("an allocation or a catalogue cannot be read") from None
