"""Models that are linear, one per task: ``fit``, ``plan`` and ``save``."""

import io
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from apportion.accounts import Budget, PrivacyReport
from apportion.accounts.declared import Declared
from apportion.accounts.plan import Plan
from apportion.allocation import Allocation
from apportion.allocation.counts import COUNTS
from apportion.checks import whole
from apportion.data import TaskData
from apportion.engine import Engine, Session, find_engine
from apportion.errors import DataError, ParameterError
from apportion.privacy import Curator, Ledger, PrivacyTarget, Record
from apportion.privacy.bounds import check_bound
from apportion.progress import Step, Wanted, watched
from apportion.tasks.estimator import Estimator, Kind
from apportion.tasks.forecast import TaskForecast, rehearse
from apportion.tasks.losses import Loss, find_loss
from apportion.tasks.models import TaskModel, TaskModels
from apportion.tasks.private_fit import (
    array_to_bytes,
    make_report,
    open_checkpoint,
    open_curator,
    training_of,
)
from apportion.tasks.rules import declaration
from apportion.tasks.scaling import Ranges, Scaling, check_ranges
from apportion.tasks.trained import Trained


class MultiTaskLinear(Estimator, TaskModels):
    """One linear model per task, trained under user-level differential privacy."""

    epsilon: float
    delta: float
    feature_bound: float
    label_bound: float
    feature_ranges: Ranges | None
    intercept: bool
    allocation: Allocation
    engine: str | Engine
    noise_seed: int | None

    def fit(
        self,
        data: TaskData,
        budget: Budget | None = None,
        checkpoint: str | Path | bool | None = None,
        *,
        progress: Wanted = None,
    ) -> Self:
        """Train on the data; the result may be published under ``self.privacy``.

        With a ``budget`` the training is paid from it, or refused before anything is released. With a
        ``checkpoint``, a folder, a training that was killed is resumed by the same call: the result is
        the same to the bit, and nothing is spent twice. All sums are computed again. With a budget there
        is one by default, in the user's state folder, until the models are saved; False makes none.

        A training of more than a second shows its ``progress`` on a terminal or in a notebook; False shows
        nothing, True shows it anywhere, and a function is called with the steps done and their number.
        """
        self._check_parameters()
        self._warn_of_copies()
        target, what = self._target(data), type(self).__name__
        scaling = self._scaling(data.dimension)
        data = data.ordered()  # so that nothing depends on the order of rows
        cost = None if budget is None else self._cost(target)
        engine = find_engine(self.engine)
        with (
            watched("training", progress) as told,
            open_checkpoint(checkpoint, self, engine, data.contents(), budget) as saved,
            open_curator(target, self.noise_seed, saved, budget, what, cost) as curator,
        ):
            if saved is not None and saved.finished:
                saved.restore(curator.ledger)
                dimension = data.dimension + self.intercept
                trained = Trained.unpacked(saved.read(_tasks_from_bytes(data.tasks)), dimension)
            else:
                private = math.isfinite(target.epsilon)
                seen = scaling.apply(data, clip=private)
                session = engine.load(seen.rows())
                if private:
                    trained = self._train(seen, session, curator, scaling, told)
                else:
                    trained = Trained(self._train_exactly(seen, session, told))
                if saved is not None:
                    saved.finish(array_to_bytes(trained.packed()), curator.ledger)
            training = training_of(budget, saved, curator)
        self.released_ = self._released(trained, data, scaling, curator, training)
        return self

    @abstractmethod
    def _check_parameters(self) -> None:
        """Refuse parameters that are out of range or contradict each other."""

    @abstractmethod
    def _train(
        self, data: TaskData, session: Session, curator: Curator, scaling: Scaling, told: Step
    ) -> Trained:
        """The models of all tasks, from releases alone."""

    @abstractmethod
    def _train_exactly(self, data: TaskData, session: Session, told: Step) -> NDArray[np.float64]:
        """The models of all tasks without privacy, [tasks, d']."""

    @abstractmethod
    def _releases(self, dimension: int, ledger: Ledger | None = None) -> list[Declared]:
        """What a training releases of so many features, d'; or has released, if it has a ledger."""

    def plan(self, features: int) -> Plan:
        """How a training will spend its budget, from parameters and the number of features alone.

        >>> from apportion import MultiTaskRidge
        >>> [release.name for release in MultiTaskRidge().plan(features=3).releases]
        ['counts', 'second moment', 'weights', 'pilot', 'statistics']
        """
        self._check_parameters()
        features = whole("features", features, at_least=1)
        if self.feature_ranges is not None:
            self._scaling(features)
        target = PrivacyTarget(self.epsilon, self.delta)
        releases = (
            self._releases(features + self.intercept) if math.isfinite(target.epsilon) else []
        )
        return Plan(target, tuple(releases))

    def forecast(
        self,
        *,
        users: int,
        tasks: int,
        features: int,
        tasks_per_user: float,
        skew: float = 1.0,
        seed: int = 0,
    ) -> TaskForecast:
        """What to expect of tasks of this size: scores of a training on simulated ones; no data is needed.

        Args:
            users, tasks, features: how many there are, about; public.
            tasks_per_user: in how many tasks a user takes part, on average.
            skew: the smaller, the more tasks differ in size (see ``simulate_tasks``).
            seed: of the simulation.

        >>> from apportion import MultiTaskRidge
        >>> found = MultiTaskRidge().forecast(users=3000, tasks=20, features=5, tasks_per_user=5)
        >>> found.private < found.exact
        True
        """
        self._check_parameters()
        shape = {"users": users, "tasks": tasks, "tasks_per_user": tasks_per_user, "skew": skew}
        return rehearse(self, {**shape, "dimension": features, "seed": seed})

    def save(self, folder: str | Path) -> None:
        """Write the models to a folder, for ``apportion.load``; a checkpoint kept for a budget goes."""
        with self._kept_until_saved(folder):
            super().save(folder)

    def _cost(self, target: PrivacyTarget) -> Sequence[Record] | None:
        """What a training reserves of a budget; None for Gaussian releases up to the target."""
        del target
        return None

    def _scaling(self, dimension: int) -> Scaling:
        """How a training sees features."""
        bound = check_bound("feature_bound", self.feature_bound)
        return Scaling.of(bound, self.feature_ranges, dimension, intercept=self.intercept)

    @property
    def _row_bound(self) -> float:
        """The largest norm of a row of features, with the constant of the intercept."""
        bound = check_bound("feature_bound", self.feature_bound)
        return bound * math.sqrt(2) if self.intercept else bound

    @property
    def _square(self) -> str:
        """The largest squared norm of such a row, for reports."""
        return "2 feature_bound^2 (with the constant)" if self.intercept else "feature_bound^2"

    def _check_features(self) -> None:
        """Refuse what is wrong with parameters that concern features."""
        check_bound("feature_bound", self.feature_bound)
        if not isinstance(self.intercept, bool):
            raise ParameterError(f"intercept must be True or False, got {self.intercept!r}")
        if self.feature_ranges is not None:
            check_ranges(self.feature_ranges)

    def _target(self, data: TaskData) -> PrivacyTarget:
        """Check what privacy needs, before anything is computed from the data."""
        target = PrivacyTarget(self.epsilon, self.delta)
        if not isinstance(data, TaskData):
            raise DataError(
                f"fit takes a TaskData, got {type(data).__name__}; TaskData(...) or "
                "TaskData.from_frame makes one"
            )
        if not isinstance(self.allocation, Allocation):
            raise ParameterError(
                "allocation must be an Allocation, such as ap.AdaptiveWeights(exponent) or "
                f"ap.UniformWeights(), got {self.allocation!r}"
            )
        if math.isfinite(target.epsilon) and not data.catalog_is_public:
            raise DataError(
                "the list of tasks must be public, or a user who is alone in a task is given away "
                "by the task's existence; build the data with TaskData(..., tasks=100), "
                'tasks=[ids], or tasks="public" to declare the ids found in the data public'
            )
        return target

    def _released(
        self, trained: Trained, data: TaskData, scaling: Scaling, curator: Curator, training: str
    ) -> TaskModel:
        """Models for features as they are given, and all that may be published with them."""
        d, errors = data.dimension, trained.errors
        coef, intercept = scaling.back(trained.coef)
        return TaskModel(
            coef=coef,
            intercept=intercept,
            task_ids=data.task_ids,
            prediction=self._loss.prediction,
            privacy=self._report(curator, data, training),
            counts=trained.counts,
            noise=trained.noise,
            errors=None if errors is None else np.ascontiguousarray(errors[:, :d]),
            intercept_errors=(
                np.ascontiguousarray(errors[:, d])
                if errors is not None and intercept.any()
                else None
            ),
            feature_names=data.feature_names,
            training=self._declaration(data, curator.ledger),
        )

    def _declaration(self, data: TaskData, ledger: Ledger) -> dict[str, Any]:
        """What the folder of the models keeps of their training."""
        private = math.isfinite(self.epsilon)
        declared = self._releases(data.dimension + self.intercept, ledger) if private else []
        return declaration(type(self).__name__, self._settings(), data.tasks, declared)

    def _public_parameters(self) -> dict[str, Any]:
        public = super()._public_parameters()
        if self.feature_ranges is not None:
            public["feature_ranges"] = check_ranges(self.feature_ranges).tolist()
        return public

    def _settings(self) -> dict[str, Any]:
        """The parameters from which releases follow, as they are used."""
        used = {**self.get_params(deep=False), **self._public_parameters()}
        return {name: used[name] for name in used if name not in ("engine", "noise_seed", "loss")}

    def _report(self, curator: Curator, data: TaskData, training: str) -> PrivacyReport:
        catalog = f"{data.tasks} tasks"
        warnings: tuple[str, ...] = ()
        if data.catalog_from_data:
            catalog += ", read from the data and declared public"
            warnings = ("the catalog was read from the data: which tasks exist is not covered",)
        public = {"catalog": catalog, "dimension": data.dimension, **self._public_parameters()}
        return make_report(curator, self.allocation, public, warnings, training=training)

    def __repr__(self) -> str:
        return (TaskModels if self._trained else Estimator).__repr__(self)

    def _repr_html_(self) -> str:
        return (TaskModels if self._trained else Estimator)._repr_html_(self)

    @property
    def _trained(self) -> bool:
        return "released_" in vars(self)

    @property
    def _kind(self) -> Kind:
        return "classifier" if self._loss.predicts == "sign" else "regressor"

    @property
    def _loss(self) -> Loss:
        """Which says what a margin predicts."""
        return find_loss("squared")


def _tasks_from_bytes(tasks: int) -> Callable[[bytes], NDArray[np.float64]]:
    """Reads an array of so many tasks, with any number of columns."""

    def read(content: bytes) -> NDArray[np.float64]:
        array = np.asarray(np.lib.format.read_array(io.BytesIO(content), allow_pickle=False))
        if array.ndim != 2 or len(array) != tasks or array.dtype != np.float64:
            raise DataError(f"an array of shape {array.shape}, not of {tasks} tasks")
        return array

    return read


def release_weights(
    allocation: Allocation, data: TaskData, session: Session, curator: Curator
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Release task sizes, if the allocation needs them, and weigh the session's users by them.

    The sizes from which weights follow, and those that were released, if there are any, [tasks] each.
    """
    sizes = noisy = None
    if allocation.counts is not None:
        noisy = allocation.counts.release(session, curator)
        sizes = allocation.counts.for_weights(noisy, curator.ledger.noise_of(COUNTS))
    key = curator.noise.sampling_key("allocation")
    session.weigh(allocation.rule(session.tasks, sizes, key, lambda: data.graph))
    return sizes, noisy
