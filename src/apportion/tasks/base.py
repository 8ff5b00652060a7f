"""What the estimators share: parameters as in scikit-learn, and the start and end of a private fit."""

import inspect
import math
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.allocation import Allocation
from apportion.data import TaskData
from apportion.privacy import Curator, NoiseSource, PrivacyReport, PrivacyTarget
from apportion.privacy.errors import DataError, NotFittedError, ParameterError


class Estimator:
    """Parameters by name, as scikit-learn's ``clone`` and its searches expect them."""

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters by name; ``deep`` is accepted for scikit-learn and changes nothing."""
        del deep
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name."""
        for name, value in params.items():
            if name not in self._parameter_names():
                raise ParameterError(
                    f"{type(self).__name__} has no parameter {name!r}; "
                    f"it has {', '.join(self._parameter_names())}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({inside})"


class MultiTaskLinear(Estimator):
    """One linear model per task, trained under user-level differential privacy."""

    epsilon: float
    delta: float
    allocation: Allocation
    noise_seed: int | None
    coef_: NDArray[np.float64]
    task_ids_: NDArray[Any]
    privacy_: PrivacyReport
    _public_parameters: ClassVar[tuple[str, ...]]

    def _curator(self, data: TaskData) -> Curator:
        """Check what privacy needs, before anything is computed from the data."""
        target = PrivacyTarget(self.epsilon, self.delta)
        if not isinstance(data, TaskData):
            raise DataError(f"fit takes a TaskData, got {type(data).__name__}")
        if not isinstance(self.allocation, Allocation):
            raise ParameterError(f"allocation must be an Allocation, got {self.allocation!r}")
        if math.isfinite(target.epsilon) and not data.catalogue_is_public:
            raise DataError(
                "the list of tasks must be public, or a user who is alone in a task is given away "
                "by the task's existence; build the data with TaskData(..., tasks=100), "
                'tasks=[ids], or tasks="public" to declare the ids found in the data public'
            )
        seed = self.noise_seed
        return Curator(target, None if seed is None else NoiseSource.from_seed(seed))

    def _report(self, curator: Curator, data: TaskData) -> PrivacyReport:
        catalogue = f"{data.tasks} tasks"
        warnings = self.allocation.warnings()
        if data.catalogue_from_data:
            catalogue += ", read from the data and declared public"
            warnings += ("the catalogue was read from the data: which tasks exist is not covered",)
        return PrivacyReport(
            ledger=curator.ledger,
            secret_noise=curator.noise.secret,
            public_inputs={
                "catalogue": catalogue,
                "dimension": data.dimension,
                **{name: getattr(self, name) for name in self._public_parameters},
                **self.allocation.public_inputs(),
            },
            warnings=warnings,
        )

    @property
    def privacy(self) -> PrivacyReport:
        """The guarantee of the trained models."""
        self._check_fitted()
        return self.privacy_

    def predict(self, task: ArrayLike, features: ArrayLike) -> NDArray[np.float64]:
        """Predicted labels of examples with these task ids [rows] and features [rows, d]."""
        self._check_fitted()
        rows = TaskData(
            user=np.zeros(len(np.atleast_1d(np.asarray(task))), dtype=np.int64),
            task=np.atleast_1d(np.asarray(task)),
            features=np.atleast_2d(np.asarray(features, dtype=np.float64)),
            labels=np.zeros(len(np.atleast_1d(np.asarray(task)))),
            tasks=self.task_ids_,
        )
        return self._predict(rows)

    def score(self, data: TaskData) -> float:
        """R^2, the explained share of the labels' variance over all examples. Not a release."""
        prediction = self.predict_rows(data)
        residual = np.sum((data.labels - prediction) ** 2)
        return float(1 - residual / np.sum((data.labels - data.labels.mean()) ** 2))

    def predict_rows(self, data: TaskData) -> NDArray[np.float64]:
        """Predicted labels of all examples of a data set with the same catalogue, [rows]."""
        self._check_fitted()
        if not np.array_equal(data.task_ids, self.task_ids_):
            raise DataError("the data has another catalogue of tasks than the model")
        return self._predict(data)

    def _predict(self, data: TaskData) -> NDArray[np.float64]:
        if data.dimension != self.coef_.shape[1]:
            raise DataError(
                f"features must have {self.coef_.shape[1]} columns, as in training, got {data.dimension}"
            )
        features = data.features[data.feature_row]
        return np.asarray(np.einsum("ij,ij->i", features, self.coef_[data.task]))

    def _check_fitted(self) -> None:
        if not hasattr(self, "coef_"):
            raise NotFittedError(f"this {type(self).__name__} is not trained yet: call fit first")
