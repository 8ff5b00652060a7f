"""The paper's recommender benchmarks: protocols, methods, and their settings for each data set.

``rating`` predicts ratings (RMSE, lower is better), ``top-k`` finds the items that held-out users liked
(Recall@20, higher is better). The settings of a data set are in ``settings/NAME.toml``: a table for
each protocol, in it one for each method (and ``all``, for what they have in common), in that one for each
epsilon for which something differs. What no table sets is as in ``ap.presets.algorithm_3``, the paper's.
Names are those of ``MatrixFactorization.set_params`` (``bounds__feature``), and some of this file's own.
"""

import math
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from apportion.allocation import (
    AdaptiveWeights,
    Allocation,
    PrivateCounts,
    TailSampling,
    UniformSampling,
)
from apportion.checks import whole
from apportion.data import HeldOut, Interactions
from apportion.data.datasets import read_data_set
from apportion.data.graph import mix
from apportion.errors import DataError, ParameterError
from apportion.recommend import MatrixFactorization, MostFrequent, presets
from apportion.recommend.metrics import ranking_metrics, rating_metrics

Row = dict[str, Any]

SETTINGS = resources.files("apportion.studies") / "settings"
EPSILONS = (1.0, 5.0, 20.0)
BUCKETS = 5
METRICS = {"rating": "RMSE", "top-k": "Recall@20"}
COLORS = {"uniform": "#8b94a3", "tail": "#3b6fb6", "adaptive": "#2a7f62"}


@dataclass(frozen=True)
class Method:
    """A line of the paper's table of algorithms: how items are fitted, and how budgets are split."""

    solver: Literal["ssp", "descent"]
    budget: Literal["uniform", "tail", "adaptive", "not private"]


METHODS = {
    "ALS": Method("ssp", "not private"),
    "DPALS uniform": Method("ssp", "uniform"),
    "DPALS tail": Method("ssp", "tail"),
    "AdaDPALS": Method("ssp", "adaptive"),
    "SGD": Method("descent", "not private"),
    "DPSGD uniform": Method("descent", "uniform"),
    "DPSGD tail": Method("descent", "tail"),
    "AdaDPSGD": Method("descent", "adaptive"),
}

# What a protocol's table sets besides the methods.
_OF_PROTOCOL = {
    "rating": {"delta", "all"},
    "top-k": {"delta", "all", "positive", "user_events", "item_users", "held_out", "most_frequent"},
}
# What a method's table may set of the model besides numbers of factors and sweeps; and what is the paper's.
_OF_MODEL = ("bounds__", "offsets__", "regularization__", "shares__", "solver__")
_OF_PAPER = {
    "bounds__normalize", "offsets__intercept_share", "solver__clip", "solver__gradient_bound",
    "solver__matrices",
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A model to train: a method, its epsilon, and its weight exponent if not that of the settings."""

    method: str
    epsilon: float = math.inf
    weight_exponent: float | None = None


class Benchmark(ABC):
    """A data set under a protocol.

    Attributes
        name: of the data set.
        protocol: ``"rating"`` or ``"top-k"``.
        data: what is split, after the protocol's filters.
    """

    protocol: str
    feedback: Literal["explicit", "implicit"]

    def __init__(self, name: str, data: Interactions, settings: Mapping[str, Any]) -> None:
        self.name, self.data, self._settings = name, data, settings
        self._file = f"{name}.toml"

    @abstractmethod
    def split(self, seed: int) -> "Split":
        """Training and test data, others for every seed."""

    def exponent(self, method: str) -> float:
        """The weight exponent of a method with adaptive weights, as the settings have it."""
        return float(self._settings[method]["weight_exponent"])

    @property
    def learned(self) -> float:
        """The portion of the catalog that is learned."""
        return float(self._settings.get("most_frequent", 1.0))

    @property
    def summary(self) -> str:
        """What tells the data and the protocol from others."""
        start, item = self.data.by_user.start, self.data.by_user.other
        places = np.arange(len(item), dtype=np.uint64)
        digest = int(np.bitwise_xor.reduce(mix(item.astype(np.uint64) + places * np.uint64(2**32))))
        held = self._settings.get("held_out", 0)
        sizes = f"{len(start) - 1} users, {self.data.items} items, {len(item)} rows"
        return f"{sizes}, digest {digest:x}, {held} users held out"

    @property
    @abstractmethod
    def studied(self) -> Interactions:
        """The rows whose skew is described: of the items that are the catalog."""

    def model(self, case: Case, seed: int = 0) -> MatrixFactorization:
        """An untrained model; the seed fixes its noise too, so it is NOT PRIVATE once trained."""
        place = f"{self._file} [{self.protocol}.{case.method}]"
        own = _of_epsilon(self._settings[case.method], case.epsilon)
        settings = _Table(place, {**self._settings.get("all", {}), **own})
        if case.weight_exponent is not None:
            settings["weight_exponent"] = case.weight_exponent
        method, frequent = METHODS[case.method], self._settings.get("most_frequent")
        counts: dict[str, Any] = {}
        how = settings.pop("counts_method", "scale"), settings.pop("counts_floor", 1.0)
        if method.budget in ("tail", "adaptive") or (frequent and method.budget == "uniform"):
            share, cap = settings.take("counts_share"), settings.take("counts_cap")
            counts = {"counts": PrivateCounts(share, cap, *how)}
        model = presets.algorithm_3(
            case.epsilon,
            self._settings["delta"],
            feedback=self.feedback,
            solver=method.solver,
            seed=seed,
            noise_seed=seed,
        )
        if method.budget != "not private":
            model.set_params(allocation=_allocation(method, settings, counts))
        if frequent:
            model.set_params(catalog=MostFrequent(frequent, **counts))
        if "regularization__items" in settings:  # the same for users and items
            settings.setdefault("regularization__users", settings["regularization__items"])
        if "gradient_share" in settings:
            labels = 1.0 if self.feedback == "implicit" else settings.need("bounds__label")
            bound = settings.take("gradient_share") * settings.need("bounds__feature") * labels
            model.set_params(solver__gradient_bound=bound)
        known = {name for name in model.get_params() if name.startswith(_OF_MODEL)} - _OF_PAPER
        for key in settings.keys() - known - {"factors", "sweeps"}:
            raise ParameterError(f"{place}: there is no setting {key!r}")
        return model.set_params(**settings)


class RatingBenchmark(Benchmark):
    """Ratings split 80/10/10 at random."""

    protocol = "rating"
    feedback = "explicit"

    @property
    def studied(self) -> Interactions:
        """All ratings; an item without one is not in the catalog."""
        return self.data

    def split(self, seed: int) -> "Split":
        """See ``Benchmark.split``."""
        train, validation, test = self.data.split((0.8, 0.1, 0.1), seed)
        known, _ = self.data.split((0.9, 0.1), seed)  # training and validation
        return RatingSplit(train, train.graph.task_sizes(), validation, known, test)


class TopKBenchmark(Benchmark):
    """Ratings from some level on, or plays, as events; two sets of users are held out.

    The catalog is the items of the training users, as in Liang et al. (2018): other items are dropped
    from the held-out users' events. A study declares it public.
    """

    protocol = "top-k"
    feedback = "implicit"

    def __init__(self, name: str, data: Interactions, settings: Mapping[str, Any]) -> None:
        if data.explicit:  # simulated events have no ratings
            data = data.positives(settings["positive"])
        if "item_users" in settings:
            common = data.graph.task_sizes() >= settings["item_users"]
            data = data.of_items(np.flatnonzero(common))
        active = np.diff(data.by_user.start) >= settings["user_events"]
        data = data.take(active[data.user_of_row])
        super().__init__(name, data.of_items(np.flatnonzero(data.graph.task_sizes())), settings)

    @property
    def studied(self) -> Interactions:
        """The training users' events, of the first split."""
        return self.split(0).train

    def split(self, seed: int) -> "Split":
        """See ``Benchmark.split``."""
        users = self._settings["held_out"]
        if 3 * users > (active := np.count_nonzero(np.diff(self.data.by_user.start) >= 2)):
            raise DataError(
                f"{self.name} has {active:,} users of two events and more: too few to hold out "
                f"{users:,} for validation and {users:,} for the test; give fewer (--held-out)"
            )
        rest, test = self.data.hold_out_users(users, at_least=2, seed=2 * seed + 1)
        train, validation = rest.hold_out_users(users, at_least=2, seed=2 * seed + 2)
        counts = train.graph.task_sizes()
        places = np.flatnonzero(counts)
        train, counts = train.of_items(places), counts[places]
        kept = math.ceil(self._settings.get("most_frequent", 1) * train.items)
        sliced = np.sort(np.argsort(-counts, kind="stable")[:kept])
        return TopKSplit(
            train, counts, _of_items(validation, places), _of_items(test, places), sliced
        )


def _of_items(held: HeldOut, places: NDArray[np.int64]) -> HeldOut:
    return HeldOut(held.history.of_items(places), held.labels.of_items(places), held.users)


@dataclass(frozen=True, eq=False)
class Split(ABC):
    """Training data, the training count of each item [items], and what is held out."""

    train: Interactions
    counts: NDArray[np.float64]

    @abstractmethod
    def scores(self, model: MatrixFactorization) -> Row:
        """The metric on validation and test data, and on the test data by popularity, tail first."""


@dataclass(frozen=True, eq=False)
class RatingSplit(Split):
    """Users' vectors come from the training ratings, for the test also from the validation ratings."""

    validation: Interactions
    known: Interactions
    test: Interactions

    def scores(self, model: MatrixFactorization) -> Row:
        """See ``Split.scores``."""
        validation = rating_metrics(model, self.train, self.validation, self.counts, BUCKETS)
        test = rating_metrics(model, self.known, self.test, self.counts, BUCKETS)
        return _row(validation.rmse, test.rmse, test.rmse_by_bucket)


@dataclass(frozen=True, eq=False)
class TopKSplit(Split):
    """``sliced`` are the items that make the buckets: the most frequent, if only those are learned."""

    validation: HeldOut
    test: HeldOut
    sliced: NDArray[np.int64]

    def scores(self, model: MatrixFactorization) -> Row:
        """See ``Split.scores``."""
        validation = ranking_metrics(model, self.validation, self.counts)
        test = ranking_metrics(model, self.test, self.counts)
        labels = self.test.labels.of_items(self.sliced)
        head = HeldOut(self.test.history, labels, self.test.users)
        sliced = ranking_metrics(model, head, self.counts[self.sliced])
        return _row(validation.recall, test.recall, sliced.recall_by_bucket)


def _row(validation: float, test: float, by_bucket: Sequence[float]) -> Row:
    buckets = {f"bucket_{b}": value for b, value in enumerate(by_bucket)}
    return {"validation": validation, "test": test, **buckets}


_BENCHMARKS: dict[str, type[Benchmark]] = {"rating": RatingBenchmark, "top-k": TopKBenchmark}


def read_benchmarks(
    name: str, path: str | Path, protocol: str | None = None, held_out: int | None = None
) -> list[Benchmark]:
    """The benchmarks of a data set, from its archive or folder: of one protocol, or all that it has.

    ``held_out`` users instead of those of the settings are for validation, and as many for the test.
    """
    settings = read_settings(name)
    if protocol is not None and protocol not in settings:
        raise ParameterError(f"{name} has no protocol {protocol!r}, only {', '.join(settings)}")
    return benchmarks_of(name, read_data_set(name, path), protocol, held_out)


def benchmarks_of(
    name: str, data: Interactions, protocol: str | None = None, held_out: int | None = None
) -> list[Benchmark]:
    """The benchmarks of a data set, on rows that stand for it: its own, or simulated ones."""
    settings = read_settings(name)
    if held_out is not None and "top-k" in settings:
        settings["top-k"]["held_out"] = whole("held_out", held_out, at_least=1)
    wanted = list(settings) if protocol is None else [protocol]
    return [_BENCHMARKS[each](name, data, settings[each]) for each in wanted]


def read_settings(name: str) -> dict[str, Any]:
    """The settings file of a data set by protocol, on top of that of the data set it is ``like``."""
    file = f"{name}.toml"
    settings = tomllib.loads((SETTINGS / file).read_text(encoding="utf-8"))
    if "like" in settings:
        settings = _merged(read_settings(settings.pop("like")), settings)
    for protocol, table in settings.items():
        if protocol not in METRICS:
            raise ParameterError(f"{file}: there is no protocol {protocol!r}")
        for key in table.keys() - _OF_PROTOCOL[protocol] - METHODS.keys():
            raise ParameterError(f"{file} [{protocol}]: there is no setting or method {key!r}")
        for key in METHODS.keys() - table.keys():
            raise ParameterError(f"{file} [{protocol}]: there is no table for {key}")
    return settings


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are merged, other values replaced."""
    merged = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(below[key], dict) and isinstance(above[key], dict):
            merged[key] = _merged(below[key], above[key])
    return merged


def _of_epsilon(table: Mapping[str, Any], epsilon: float) -> dict[str, Any]:
    """A method's settings at an epsilon, or at the one nearest to it (in ratio) that has some."""
    settings = dict(table)
    by_epsilon = settings.pop("epsilon", {})
    if not by_epsilon or math.isinf(epsilon):
        return settings
    nearest = min(by_epsilon, key=lambda known: abs(math.log(float(known) / epsilon)))
    return {**settings, **by_epsilon[nearest]}


class _Table(dict[str, Any]):
    """Settings of one model; knows where they stand, for messages."""

    def __init__(self, place: str, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self._place = place

    def need(self, key: str) -> Any:
        if key not in self:
            raise ParameterError(f"{self._place}: {key} is missing")
        return self[key]

    def take(self, key: str) -> Any:
        value = self.need(key)
        del self[key]
        return value


def _allocation(method: Method, settings: _Table, counts: Mapping[str, Any]) -> Allocation:
    if method.budget == "adaptive":
        return AdaptiveWeights(settings.take("weight_exponent"), **counts)
    k = settings.take("k")
    return UniformSampling(k) if method.budget == "uniform" else TailSampling(k, **counts)
