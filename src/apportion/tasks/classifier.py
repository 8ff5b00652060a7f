"""Classification into many classes: one private logistic model per class."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from apportion.accounts import Budget, PrivacyReport
from apportion.accounts.plan import Plan
from apportion.allocation import AdaptiveWeights, Allocation
from apportion.checks import whole
from apportion.data import TaskData
from apportion.engine import Engine
from apportion.errors import DataError, ParameterError
from apportion.privacy import NoiseSource
from apportion.privacy.bounds import check_bound
from apportion.progress import Wanted
from apportion.tasks.descent import MultiTaskDescent
from apportion.tasks.estimator import Estimator, Kind
from apportion.tasks.forecast import TaskForecast, rehearse_classes
from apportion.tasks.losses import Loss
from apportion.tasks.models import ClassModels
from apportion.tasks.scaling import Ranges
from apportion.tasks.schedules import Steps, find_steps


class MultiTaskClassifier(Estimator, ClassModels):
    """One-against-rest classification into many classes, under user-level differential privacy.

    Rows are (user, class, features): a ``TaskData`` whose tasks are the classes and which needs no
    labels. Each class is a task. A row is a positive example of its own class and a negative one of
    ``negatives`` other classes, chosen at random, so that a user touches few classes and its budget is
    not spread over all of them; small classes get more of it by the allocation. The missing negatives
    only shift the intercept by a known constant, which the probabilities take into account.

    Args:
        epsilon, delta: the privacy budget; ``math.inf`` for no privacy.
        negatives: how many other classes a row serves as a negative example; None means all.
        feature_bound: public; longer feature vectors are scaled down to this norm.
        feature_ranges: as in ``MultiTaskRidge``.
        intercept: whether each class gets a constant term.
        seed: for choosing negatives; harmless. A user's depend on its own id and rows. None draws one, and
            then there is no checkpoint.
        loss, gradient_bound, regularization, radius, steps, allocation, engine, noise_seed: as in
            ``MultiTaskDescent``. ``radius`` is 10 / feature_bound by default.

    Attributes:
        classes_: the public classes; ``coef_`` [classes, d] and ``intercept_`` [classes]: the released model.

    >>> import apportion as ap, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> centers = 2 * np.eye(3)
    >>> kind = rng.integers(0, 3, 3000)
    >>> rows = ap.TaskData(np.arange(3000), kind, centers[kind] + rng.normal(size=(3000, 3)), tasks=3)
    >>> model = ap.MultiTaskClassifier(epsilon=1.0, feature_bound=3.0).fit(rows)
    >>> model.predict(centers)
    array([0, 1, 2])
    >>> model.predict_proba(centers).sum(axis=1).round(6)
    array([1., 1., 1.])
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        negatives: int | None = 5,
        feature_bound: float = 1.0,
        feature_ranges: Ranges | None = None,
        intercept: bool = True,
        loss: str | Loss = "logistic",
        gradient_bound: float | None = None,
        regularization: float = 0.0,
        radius: float | None = None,
        steps: int | Steps = Steps(),  # noqa: B008 (immutable)
        allocation: Allocation = AdaptiveWeights.for_convex(),  # noqa: B008 (immutable)
        engine: str | Engine = "auto",
        seed: int | None = 0,
        noise_seed: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.negatives = negatives
        self.feature_bound = feature_bound
        self.feature_ranges = feature_ranges
        self.intercept = intercept
        self.loss = loss
        self.gradient_bound = gradient_bound
        self.regularization = regularization
        self.radius = radius
        self.steps = steps
        self.allocation = allocation
        self.engine = engine
        self.seed = seed
        self.noise_seed = noise_seed

    @property
    def _kind(self) -> Kind:
        return "classifier"

    def _group(self, name: str) -> Any:
        value = getattr(self, name)
        return find_steps(value) if name == "steps" else value

    def fit(
        self,
        data: TaskData,
        budget: Budget | None = None,
        checkpoint: str | Path | bool | None = None,
        *,
        progress: Wanted = None,
    ) -> Self:
        """Train on rows (user, class, features); the result may be published under ``privacy``.

        With a ``budget`` the training is paid from it, or refused before anything is released;
        ``checkpoint`` and ``progress`` are as of the other estimators. Without a ``seed`` there is no
        checkpoint: with other negatives a training cannot be resumed.
        """
        if not isinstance(data, TaskData):
            raise DataError(
                f"fit takes a TaskData, got {type(data).__name__}; TaskData(...) or "
                "TaskData.from_frame makes one"
            )
        self._warn_of_copies()
        if data.tasks < 2:
            raise DataError("classification needs at least two classes")
        if self.seed is None:
            if checkpoint:
                raise ParameterError("a checkpoint of a classifier needs a seed of negatives")
            checkpoint = False
        negatives = self._negatives(data.tasks)
        model = self._descent().fit(
            self._against_rest(data, negatives), budget, checkpoint, progress=progress
        )
        self.drop_checkpoint()  # of an earlier training
        if (kept := vars(model).get("checkpoint_")) is not None:
            self.checkpoint_ = kept
        # A class has seen this share of the other classes' rows: log-odds are too high by its log.
        share = negatives / (data.tasks - 1)
        released = model.released
        self.released_ = replace(
            released,
            intercept=released.intercept + math.log(share),
            prediction=None,
            privacy=self._report(released.privacy),
        )
        return self

    def _descent(self) -> MultiTaskDescent:
        """What trains each class against the rest."""
        bound = check_bound("feature_bound", self.feature_bound)
        return MultiTaskDescent(
            self.epsilon,
            self.delta,
            loss=self.loss,
            feature_bound=bound,
            feature_ranges=self.feature_ranges,
            intercept=self.intercept,
            label_bound=1.0,
            gradient_bound=self.gradient_bound,
            regularization=self.regularization,
            radius=10 / bound if self.radius is None else self.radius,
            steps=self.steps,
            allocation=self.allocation,
            engine=self.engine,
            noise_seed=self.noise_seed,
        )

    def plan(self, features: int) -> Plan:
        """How a training will spend its budget, from parameters and the number of features alone."""
        return self._descent().plan(features)

    def forecast(
        self,
        *,
        users: int,
        classes: int,
        features: int,
        classes_per_user: float,
        skew: float = 1.0,
        seed: int = 0,
    ) -> TaskForecast:
        """What to expect of classes of this size: scores of a training on simulated rows; no data is needed.

        The middles of classes lie in random directions, and rows scatter about them by half of their
        distance from the middle of all: more classes than features are hard to tell apart.

        Args:
            users, classes, features: how many there are, about; public.
            classes_per_user: in how many classes a user has a row, on average.
            skew: the smaller, the more classes differ in size (see ``simulate_tasks``).
            seed: of the simulation.

        >>> from apportion import MultiTaskClassifier
        >>> found = MultiTaskClassifier(steps=20).forecast(
        ...     users=2000, classes=8, features=4, classes_per_user=2
        ... )
        >>> found.private < found.exact
        True
        """
        shape = {"users": users, "tasks": classes, "tasks_per_user": classes_per_user, "skew": skew}
        return rehearse_classes(self, {**shape, "dimension": features, "seed": seed})

    def save(self, folder: str | Path) -> None:
        """Write the models to a folder, for ``apportion.load``; a checkpoint kept for a budget goes."""
        with self._kept_until_saved(folder):
            super().save(folder)

    def __repr__(self) -> str:
        return (ClassModels if self._trained else Estimator).__repr__(self)

    def _repr_html_(self) -> str:
        return (ClassModels if self._trained else Estimator)._repr_html_(self)

    @property
    def _trained(self) -> bool:
        return "released_" in vars(self)

    def _report(self, report: PrivacyReport) -> PrivacyReport:
        own = {
            "negatives": self.negatives,
            "seed of negatives": "secret" if self.seed is None else self.seed,
        }
        return replace(report, public_inputs={**report.public_inputs, **own})

    def _negatives(self, classes: int) -> int:
        if self.negatives is None:
            return classes - 1
        return min(whole("negatives", self.negatives, at_least=1), classes - 1)

    def _against_rest(self, data: TaskData, negatives: int) -> TaskData:
        """Examples of label 1 for each row's own class, -1 for others."""
        rows = np.arange(len(data.task))
        # Other classes at distinct distances from a random start: all of them if that many are asked.
        others = data.tasks - 1
        key = NoiseSource().sampling_key("negatives") if self.seed is None else self.seed
        start = data.row_scores(whole("seed", key, at_least=0)) % np.uint64(others)
        distance = (start.astype(np.int64)[:, None] + np.arange(negatives)) % others + 1
        away = (data.task[:, None] + distance) % data.tasks
        task = np.concatenate([data.task, away.ravel()])
        labels = np.concatenate([np.ones(len(rows)), -np.ones(away.size)])
        return data.remade(np.concatenate([rows, np.repeat(rows, negatives)]), task, labels)
