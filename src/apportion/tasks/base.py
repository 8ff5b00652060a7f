"""Models that are linear, one per task: ``fit``, predictions, scores."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.accounts import Budget, PrivacyReport
from apportion.accounts.cards import model_card
from apportion.accounts.checkpoint import Checkpoint
from apportion.allocation import Allocation
from apportion.data import TaskData
from apportion.data.ids import Integers, find_ids, read_ids
from apportion.data.tasks import read_matrix
from apportion.engine import Engine, Session, find_engine
from apportion.errors import (
    DataError,
    NotFittedError,
    ParameterError,
)
from apportion.privacy import Curator, PrivacyTarget, Record
from apportion.tasks.estimator import Estimator, Kind
from apportion.tasks.losses import Loss, find_loss
from apportion.tasks.private_fit import (
    array_from_bytes,
    array_to_bytes,
    make_report,
    open_checkpoint,
    open_curator,
)

MODELS_USE = (
    "the models may be published under this guarantee; they predict from a person's features alone"
)


class MultiTaskLinear(Estimator):
    """One linear model per task, trained under user-level differential privacy."""

    epsilon: float
    delta: float
    allocation: Allocation
    engine: str | Engine
    noise_seed: int | None
    coef_: NDArray[np.float64]
    task_ids_: NDArray[Any]
    privacy_: PrivacyReport

    def fit(
        self,
        data: TaskData,
        budget: Budget | None = None,
        checkpoint: str | Path | bool | None = None,
    ) -> Self:
        """Train on the data; the result may be published under ``self.privacy``.

        With a ``budget`` the training is paid from it, or refused before anything is released. With a
        ``checkpoint``, a folder, a training that was killed is resumed by the same call: the result is
        the same to the bit, and nothing is spent twice. All sums are computed again. With a budget there
        is one by default, in the user's state folder, until ``drop_checkpoint``; False makes none.
        """
        self._check_parameters()
        self._warn_of_copies()
        target, what = self._target(data), type(self).__name__
        data = data.ordered()  # so that nothing depends on the order of rows
        cost = None if budget is None else self._cost(target)
        engine = find_engine(self.engine)
        with (
            open_checkpoint(checkpoint, self, engine, data.contents(), budget) as saved,
            open_curator(target, self.noise_seed, saved, budget, what, cost) as curator,
        ):
            if saved is not None and saved.finished:
                saved.restore(curator.ledger)
                shape = (data.tasks, data.dimension)
                self.coef_ = saved.read(lambda content: array_from_bytes(content, shape))
            else:
                session = engine.load(data.rows())
                if math.isinf(target.epsilon):
                    self.coef_ = self._train_exactly(data, session)
                else:
                    self.coef_ = self._train(data, session, curator)
                if saved is not None:
                    saved.finish(array_to_bytes(self.coef_), curator.ledger)
        self.task_ids_ = data.task_ids
        self.privacy_ = self._report(curator, data, _training(budget, saved, curator))
        return self

    @abstractmethod
    def _check_parameters(self) -> None:
        """Refuse parameters that are out of range or contradict each other."""

    @abstractmethod
    def _train(self, data: TaskData, session: Session, curator: Curator) -> NDArray[np.float64]:
        """The models of all tasks, from releases alone, [tasks, d]."""

    @abstractmethod
    def _train_exactly(self, data: TaskData, session: Session) -> NDArray[np.float64]:
        """The models of all tasks without privacy, [tasks, d]."""

    def _cost(self, target: PrivacyTarget) -> Sequence[Record] | None:
        """What a training reserves of a budget; None for Gaussian releases up to the target."""
        del target
        return None

    def _target(self, data: TaskData) -> PrivacyTarget:
        """Check what privacy needs, before anything is computed from the data."""
        target = PrivacyTarget(self.epsilon, self.delta)
        if not isinstance(data, TaskData):
            raise DataError(f"fit takes a TaskData, got {type(data).__name__}")
        if not isinstance(self.allocation, Allocation):
            raise ParameterError(f"allocation must be an Allocation, got {self.allocation!r}")
        if math.isfinite(target.epsilon) and not data.catalog_is_public:
            raise DataError(
                "the list of tasks must be public, or a user who is alone in a task is given away "
                "by the task's existence; build the data with TaskData(..., tasks=100), "
                'tasks=[ids], or tasks="public" to declare the ids found in the data public'
            )
        return target

    def _report(self, curator: Curator, data: TaskData, training: str) -> PrivacyReport:
        catalog = f"{data.tasks} tasks"
        warnings: tuple[str, ...] = ()
        if data.catalog_from_data:
            catalog += ", read from the data and declared public"
            warnings = ("the catalog was read from the data: which tasks exist is not covered",)
        public = {"catalog": catalog, "dimension": data.dimension, **self._public_parameters()}
        return make_report(curator, self.allocation, public, warnings, training=training)

    def __repr__(self) -> str:
        if not hasattr(self, "coef_"):
            return super().__repr__()
        tasks, dimension = self.coef_.shape
        return f"{type(self).__name__}({tasks} tasks, {dimension} features: {self.privacy.verdict})"

    def _repr_html_(self) -> str:
        if not hasattr(self, "coef_"):
            return super()._repr_html_()
        tasks, dimension = self.coef_.shape
        known: dict[str, object] = {"tasks": tasks, "features": dimension, "loss": self._loss.name}
        return model_card(type(self).__name__, self.privacy, known, MODELS_USE)

    @property
    def privacy(self) -> PrivacyReport:
        """The guarantee of the trained models."""
        self._check_fitted()
        return self.privacy_

    def predict(self, task: Any, features: ArrayLike) -> NDArray[np.float64]:
        """Predicted labels of examples with these features [rows, d] and task ids [rows], or one id.

        Means of labels; for losses of labels -1 and 1 the more likely one. See ``decision_function``.
        """
        return self._loss.predict(self.decision_function(task, features))

    def decision_function(self, task: Any, features: ArrayLike) -> NDArray[np.float64]:
        """The margins theta_i . x of examples with these features and tasks, as for ``predict``, [rows]."""
        self._check_fitted()
        rows = read_matrix("features", np.atleast_2d(np.asarray(features)))
        one = isinstance(task, (str, bytes)) or not hasattr(task, "__len__")
        tasks = [task] * len(rows) if one else task
        if len(tasks) != len(rows):
            raise DataError(
                f"task has {len(tasks)} rows and features has {len(rows)}; they must agree"
            )
        ids = find_ids("task", read_ids("task", tasks), self.task_ids_, "model's catalog")
        return self._margins(rows, ids)

    def score(self, data: TaskData) -> float:
        """How well the labels of all examples are predicted, at most 1, by a measure that fits the loss.

        The explained share of the variance (R^2), of the Poisson deviance, or of the absolute deviations;
        for labels -1 and 1 the share that is right. An exact statistic of the data given: not a release.
        Publish it only if that data is public.
        """
        margins = self._margins_of(data)
        if not len(data.labels):
            raise DataError("score needs at least one example")
        return self._loss.score(margins, data.labels)

    def predict_rows(self, data: TaskData) -> NDArray[np.float64]:
        """Predicted labels of all examples of a data set with the same catalog, [rows]."""
        return self._loss.predict(self._margins_of(data))

    def _margins_of(self, data: TaskData) -> NDArray[np.float64]:
        self._check_fitted()
        if not isinstance(data, TaskData):
            raise DataError(f"expected a TaskData, got a {type(data).__name__}")
        if not np.array_equal(data.task_ids, self.task_ids_):
            raise DataError("the data has another catalog of tasks than the model")
        return self._margins(data.features[data.feature_row], data.task)

    def _margins(self, features: NDArray[np.float64], task: Integers) -> NDArray[np.float64]:
        if features.shape[1] != self.coef_.shape[1]:
            raise DataError(
                f"features must have {self.coef_.shape[1]} columns, as in training, "
                f"got {features.shape[1]}"
            )
        return np.asarray(np.einsum("ij,ij->i", features, self.coef_[task]))

    @property
    def _kind(self) -> Kind:
        return "classifier" if self._loss.predicts == "sign" else "regressor"

    @property
    def _loss(self) -> Loss:
        """Which says what a margin predicts."""
        return find_loss("squared")

    def _check_fitted(self) -> None:
        if not hasattr(self, "coef_"):
            raise NotFittedError(f"this {type(self).__name__} is not trained yet: call fit first")


def release_weights(
    allocation: Allocation, data: TaskData, session: Session, curator: Curator
) -> NDArray[np.float64] | None:
    """Release task sizes, if the allocation needs them, and weigh the session's users by them."""
    sizes = None
    if allocation.counts is not None:
        sizes = allocation.counts.estimate(session, curator)
    key = curator.noise.sampling_key("allocation")
    session.weigh(allocation.rule(session.tasks, sizes, key, lambda: data.graph))
    return sizes


def _training(budget: Budget | None, saved: Checkpoint | None, curator: Curator) -> str:
    """Its name in the budget that paid, if one did."""
    if budget is None:
        return ""
    if saved is not None:  # one that was finished before has no reservation any more
        return saved.training
    return "" if curator.reservation is None else curator.reservation.token
