"""Released models of many tasks: what they predict, and how well each is known."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.accounts import PrivacyReport
from apportion.accounts.cards import model_card
from apportion.data import TaskData
from apportion.data.ids import Integers, find_ids, read_ids
from apportion.data.tasks import read_matrix
from apportion.errors import DataError, NotFittedError
from apportion.frames import pl
from apportion.tasks.predictions import Prediction

if TYPE_CHECKING:
    import polars

Array = NDArray[np.float64]
MODELS_USE = (
    "the models may be published under this guarantee; they predict from a person's features alone"
)


@dataclass(frozen=True, eq=False)
class TaskModel:
    """Everything of a training that may be published.

    Attributes
        coef: [tasks, d].
        intercept: [tasks].
        task_ids: [tasks].
        prediction: how labels follow from margins; None if the tasks are classes, the likeliest of which is
            predicted.
        privacy: the guarantee.
        counts: released numbers of users per task, as the weights took them, [tasks], or None.
        noise: the standard deviation of the noise on the mean of label times feature, [tasks], or None.
        errors: standard errors of the coefficients that the noise makes, [tasks, d], or None.
        intercept_errors: of the intercepts, [tasks], or None.
        feature_names: of the features, or None.
        training: what releases follow from, as plain values.
    """

    coef: Array
    intercept: Array
    task_ids: NDArray[Any]
    prediction: Prediction | None
    privacy: PrivacyReport
    counts: Array | None = None
    noise: Array | None = None
    errors: Array | None = None
    intercept_errors: Array | None = None
    feature_names: tuple[str, ...] | None = None
    training: Mapping[str, Any] = field(default_factory=dict)


class Released:
    """What trained and loaded models have in common."""

    released_: TaskModel
    _of = "tasks"

    def __init__(self, released: TaskModel) -> None:
        self.released_ = released

    @property
    def released(self) -> TaskModel:
        """Everything that may be published."""
        if "released_" not in vars(self):
            raise NotFittedError(f"this {type(self).__name__} is not trained yet: call fit first")
        return self.released_

    @property
    def coef_(self) -> Array:
        """The models, for features as they are given to ``predict``, [tasks, d]."""
        return self.released.coef

    @property
    def intercept_(self) -> Array:
        """What is added to theta . x, [tasks]; zero without an intercept."""
        return self.released.intercept

    @property
    def privacy_(self) -> PrivacyReport:
        """The guarantee of the trained models."""
        return self.released.privacy

    @property
    def privacy(self) -> PrivacyReport:
        """The guarantee of the trained models."""
        return self.released.privacy

    def table(self) -> "polars.DataFrame":
        """What is known of each task, from released values alone.

        Columns: the task; about how many users it has (``users``), if counts were released; the standard
        deviation of the noise on its mean of label times feature (``noise``) and the root mean square of
        the standard errors of its coefficients (``standard_error``), where the method tells; its
        ``intercept`` and the standard error of that (``intercept_error``).

        These are errors that privacy makes, by noise and by shrinking: about how far the models are from
        those of the same training without it. That other users would have given other models is no part of
        them. ``"shared"`` does not see that features differ by task.

        Those of descent are about how far models of the same steps with other noise lie apart, rather too
        large than too small; a task that noise keeps from going far is farther from its best model than that.
        They take task sizes and steps that all users take part in: there are none with
        ``UniformWeights``, samplings of tasks, or a ``sampling_rate``.
        """
        released = self.released
        rms = None
        if released.errors is not None:
            rms = np.sqrt(np.mean(released.errors**2, axis=1))
        columns: dict[str, Any] = {"task": released.task_ids}
        known = {"users": released.counts, "noise": released.noise, "standard_error": rms}
        columns |= {name: values for name, values in known.items() if values is not None}
        if released.intercept.any():
            columns["intercept"] = released.intercept
            if released.intercept_errors is not None:
                columns["intercept_error"] = released.intercept_errors
        return pl.DataFrame(
            {
                name: values.tolist() if name == "task" else values
                for name, values in columns.items()
            }
        )

    def save(self, folder: str | Path) -> None:
        """Write the models, their tasks and the privacy report to a folder, for ``apportion.load``."""
        from apportion.tasks.files import save  # which imports this module

        save(self.released, folder)

    def __repr__(self) -> str:
        tasks, dimension = self.coef_.shape
        facts = f"{tasks} {self._of}, {dimension} features"
        return f"{type(self).__name__}({facts}: {self.privacy.verdict})"

    def _repr_html_(self) -> str:
        tasks, dimension = self.coef_.shape
        known: dict[str, object] = {self._of: tasks, "features": dimension}
        if self.released.prediction is not None:
            known["loss"] = self.released.prediction.loss
        return model_card(type(self).__name__, self.privacy, known, MODELS_USE)

    def _features(self, features: Any) -> Array:
        if isinstance(features, TaskData):
            return self._check_columns(features.features[features.feature_row])
        rows = read_matrix("features", np.atleast_2d(np.asarray(features)))
        return self._check_columns(rows)

    def _check_columns(self, rows: Array) -> Array:
        if rows.shape[1] != self.coef_.shape[1]:
            raise DataError(
                f"features must have {self.coef_.shape[1]} columns, as in training, got {rows.shape[1]}"
            )
        return rows


class TaskModels(Released):
    """Linear models, one for each task, as ``MultiTaskRidge`` and ``MultiTaskDescent`` train them."""

    @property
    def task_ids_(self) -> NDArray[Any]:
        """The tasks, [tasks]."""
        return self.released.task_ids

    def predict(self, task: Any, features: ArrayLike | None = None) -> Array:
        """Predicted labels of examples with these features [rows, d] and task ids [rows], or one id.

        Means of labels; for losses of labels -1 and 1 the more likely one. See ``decision_function``. A
        ``TaskData`` with the same catalog takes the place of both.
        """
        return self._prediction.labels(self.decision_function(task, features))

    def decision_function(self, task: Any, features: ArrayLike | None = None) -> Array:
        """The margins theta_i . x of examples with these features and tasks, as for ``predict``, [rows]."""
        if features is None:
            return self._margins_of(task)
        if getattr(task, "ndim", 1) > 1:
            raise DataError(
                "task must be one id, or one id for each row of features; features come second"
            )
        rows = self._features(features)
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
        return self._prediction.score(margins, data.labels)

    @property
    def _prediction(self) -> Prediction:
        prediction = self.released.prediction
        assert prediction is not None
        return prediction

    def _margins_of(self, data: TaskData) -> Array:
        task_ids = self.task_ids_
        if not isinstance(data, TaskData):
            raise DataError(
                "give tasks and features, or a TaskData that holds both, got a "
                f"{type(data).__name__} alone"
            )
        if not np.array_equal(data.task_ids, task_ids):
            raise DataError("the data has another catalog of tasks than the model")
        return self._margins(data.features[data.feature_row], data.task)

    def _margins(self, features: Array, task: Integers) -> Array:
        self._check_columns(features)
        margins = np.einsum("ij,ij->i", features, self.coef_[task])
        return np.asarray(margins + self.intercept_[task])


class ClassModels(Released):
    """One model for each class against the rest, as ``MultiTaskClassifier`` trains them."""

    _of = "classes"

    @property
    def classes_(self) -> NDArray[Any]:
        """The public classes, [classes]."""
        return self.released.task_ids

    def decision_function(self, features: ArrayLike | TaskData) -> Array:
        """Log-odds of each class against the rest, of features or a ``TaskData``, [rows, classes]."""
        released = self.released
        return np.asarray(self._features(features) @ released.coef.T + released.intercept)

    def predict(self, features: ArrayLike | TaskData) -> NDArray[Any]:
        """The most likely class of each row of features, or of a ``TaskData``, [rows]."""
        best = np.argmax(self.decision_function(features), axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, features: ArrayLike | TaskData) -> Array:
        """Probabilities of the classes: one-against-rest, scaled to sum to one, [rows, classes]."""
        odds = 1 / (1 + np.exp(-np.clip(self.decision_function(features), -700, 700)))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    def score(self, data: TaskData) -> float:
        """The share of rows whose class is predicted. An exact statistic of the data: not a release."""
        if not len(data.task):
            raise DataError("score needs at least one row")
        return float(np.mean(self.predict(data) == data.task_ids[data.task]))
