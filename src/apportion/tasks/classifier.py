"""Classification into many classes: one private logistic model per class."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.accounts import Budget, PrivacyReport
from apportion.accounts.cards import model_card
from apportion.allocation import AdaptiveWeights, Allocation
from apportion.checks import whole
from apportion.data import TaskData
from apportion.data.tasks import read_matrix
from apportion.engine import Engine
from apportion.errors import DataError, NotFittedError, ParameterError
from apportion.privacy import NoiseSource, clip_rows
from apportion.privacy.bounds import check_bound
from apportion.tasks.base import MODELS_USE
from apportion.tasks.descent import MultiTaskDescent
from apportion.tasks.estimator import Estimator, Kind
from apportion.tasks.losses import Loss
from apportion.tasks.schedules import Steps, find_steps


class MultiTaskClassifier(Estimator):
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
        intercept: whether each class gets a constant term.
        seed: for choosing negatives; None draws a secret one. A user's depend on its own id and rows.
        loss, gradient_bound, regularization, radius, steps, allocation, engine, noise_seed: as in
            ``MultiTaskDescent``. ``radius`` is 10 / feature_bound by default.

    Attributes:
        classes_: the public classes; coef_ [classes, d] and intercept_ [classes]: the released model.

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
        intercept: bool = True,
        loss: str | Loss = "logistic",
        gradient_bound: float | None = None,
        regularization: float = 0.0,
        radius: float | None = None,
        steps: int | Steps = Steps(),  # noqa: B008 (immutable)
        allocation: Allocation = AdaptiveWeights.for_convex(),  # noqa: B008 (immutable)
        engine: str | Engine = "auto",
        seed: int | None = None,
        noise_seed: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.negatives = negatives
        self.feature_bound = feature_bound
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
    ) -> Self:
        """Train on rows (user, class, features); the result may be published under ``privacy``.

        With a ``budget`` the training is paid from it, or refused before anything is released;
        ``checkpoint`` is as of the other estimators, but needs a ``seed``: without the same negatives a
        training cannot be resumed.
        """
        if not isinstance(data, TaskData):
            raise DataError(f"fit takes a TaskData, got {type(data).__name__}")
        self._warn_of_copies()
        if data.tasks < 2:
            raise DataError("classification needs at least two classes")
        if self.seed is None:
            if checkpoint:
                raise ParameterError("a checkpoint of a classifier needs a seed of negatives")
            checkpoint = False
        bound = check_bound("feature_bound", self.feature_bound)
        negatives = self._negatives(data.tasks)
        model = MultiTaskDescent(
            self.epsilon,
            self.delta,
            loss=self.loss,
            feature_bound=bound * math.sqrt(2) if self.intercept else bound,
            label_bound=1.0,
            gradient_bound=self.gradient_bound,
            regularization=self.regularization,
            radius=10 / bound if self.radius is None else self.radius,
            steps=self.steps,
            allocation=self.allocation,
            engine=self.engine,
            noise_seed=self.noise_seed,
        ).fit(self._against_rest(data, negatives, bound), budget, checkpoint)
        self.drop_checkpoint()  # of an earlier training
        if (kept := vars(model).get("checkpoint_")) is not None:
            self.checkpoint_ = kept
        self.classes_ = data.task_ids
        self.coef_ = model.coef_[:, : data.dimension]
        constant = model.coef_[:, data.dimension] * bound if self.intercept else 0.0
        # A class has seen this share of the other classes' rows: log-odds are too high by its log.
        share = negatives / (data.tasks - 1)
        self.intercept_ = np.full(data.tasks, math.log(share)) + constant
        self.privacy_ = self._report(model.privacy, bound)
        return self

    def __repr__(self) -> str:
        if not hasattr(self, "privacy_"):
            return super().__repr__()
        classes, dimension = self.coef_.shape
        return f"{type(self).__name__}({classes} classes, {dimension} features: {self.privacy.verdict})"

    def _repr_html_(self) -> str:
        if not hasattr(self, "privacy_"):
            return super()._repr_html_()
        known: dict[str, object] = {"classes": len(self.classes_), "features": self.coef_.shape[1]}
        return model_card(type(self).__name__, self.privacy, known, MODELS_USE)

    def _report(self, report: PrivacyReport, bound: float) -> PrivacyReport:
        own = {
            "feature_bound": bound,
            "negatives": self.negatives,
            "intercept": self.intercept,
            "seed of negatives": "secret" if self.seed is None else self.seed,
        }
        return replace(report, public_inputs={**report.public_inputs, **own})

    def _negatives(self, classes: int) -> int:
        if self.negatives is None:
            return classes - 1
        return min(whole("negatives", self.negatives, at_least=1), classes - 1)

    def _against_rest(self, data: TaskData, negatives: int, bound: float) -> TaskData:
        """Examples of label 1 for each row's own class, -1 for others, features with a constant."""
        rows = np.arange(len(data.task))
        # Other classes at distinct distances from a random start: all of them if that many are asked.
        others = data.tasks - 1
        key = NoiseSource().sampling_key("negatives") if self.seed is None else self.seed
        start = data.row_scores(whole("seed", key, at_least=0)) % np.uint64(others)
        distance = (start.astype(np.int64)[:, None] + np.arange(negatives)) % others + 1
        away = (data.task[:, None] + distance) % data.tasks
        task = np.concatenate([data.task, away.ravel()])
        labels = np.concatenate([np.ones(len(rows)), -np.ones(away.size)])
        remade = data.remade(np.concatenate([rows, np.repeat(rows, negatives)]), task, labels)
        if self.intercept:
            constant = np.full((len(data.features), 1), bound)
            private = math.isfinite(float(self.epsilon))
            features = clip_rows(data.features, bound) if private else data.features
            remade.features = np.hstack([features, constant])
        return remade

    def decision_function(self, features: ArrayLike) -> NDArray[np.float64]:
        """Log-odds of each class against the rest, [rows, classes]."""
        if not hasattr(self, "coef_"):
            raise NotFittedError("this MultiTaskClassifier is not trained yet: call fit first")
        rows = read_matrix("features", np.atleast_2d(np.asarray(features)))
        if rows.shape[1] != self.coef_.shape[1]:
            raise DataError(
                f"features must have {self.coef_.shape[1]} columns, got {rows.shape[1]}"
            )
        return np.asarray(rows @ self.coef_.T + self.intercept_)

    def predict(self, features: ArrayLike) -> NDArray[Any]:
        """The most likely class of each row of features, [rows]."""
        best = np.argmax(self.decision_function(features), axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, features: ArrayLike) -> NDArray[np.float64]:
        """Probabilities of the classes: one-against-rest, scaled to sum to one, [rows, classes]."""
        odds = 1 / (1 + np.exp(-np.clip(self.decision_function(features), -700, 700)))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    def score(self, data: TaskData) -> float:
        """The share of rows whose class is predicted. An exact statistic of the data: not a release."""
        if not len(data.task):
            raise DataError("score needs at least one row")
        return float(
            np.mean(self.predict(data.features[data.feature_row]) == data.task_ids[data.task])
        )

    @property
    def privacy(self) -> PrivacyReport:
        """The guarantee of the trained models."""
        if not hasattr(self, "privacy_"):
            raise NotFittedError("this MultiTaskClassifier is not trained yet: call fit first")
        return self.privacy_
