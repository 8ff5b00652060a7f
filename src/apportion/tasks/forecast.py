"""What to expect of a training of many tasks: a rehearsal on simulated ones of the same size."""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from apportion.data import TaskData, simulate_tasks
from apportion.data.simulate import simulate_classes
from apportion.errors import DataError
from apportion.tasks.predictions import Prediction
from apportion.tasks.scaling import Ranges, check_ranges

if TYPE_CHECKING:
    from rich.console import RenderableType

    from apportion.tasks.base import MultiTaskLinear
    from apportion.tasks.classifier import MultiTaskClassifier

Array = NDArray[np.float64]
# The standard deviation of what features do not explain, where labels are between -1 and 1.
_LABEL_NOISE = 0.1
_HEAD = ("tasks", "users each", "with privacy", "without")
_FIFTHS = ("rarest fifth", "2nd", "3rd", "4th", "top fifth")


@dataclass(frozen=True)
class TaskForecast:
    """Scores on held-out rows of simulated tasks: 1 is best, 0 what a constant explains.

    For labels -1 and 1, and for classes, they are the shares that are right.

    Attributes
        private, exact: of all tasks, with privacy and without.
        rows: (tasks, users of each on average, with privacy, without), by size of the tasks.
        verdict: the guarantee for which this is the forecast.
    """

    private: float
    exact: float
    rows: tuple[tuple[str, float, float, float], ...]
    verdict: str

    def _cells(self) -> list[tuple[str, ...]]:
        found = [(name, f"{users:,.0f}", _text(a), _text(b)) for name, users, a, b in self.rows]
        return [*found, ("all", "", _text(self.private), _text(self.exact))]

    @property
    def _title(self) -> str:
        return f"forecast for {self.verdict}: scores on simulated tasks"

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        names = ("tasks", "users", "private", "exact")
        by_size = [dict(zip(names, row, strict=True)) for row in self.rows]
        return {"private": self.private, "exact": self.exact, "by_size": by_size}

    def __str__(self) -> str:
        rows = ["  {:<14}{:>12}{:>14}{:>10}".format(*row) for row in (_HEAD, *self._cells())]
        return "\n".join([self._title, *rows])

    def __repr__(self) -> str:
        return f"TaskForecast({_text(self.private)} with privacy, {_text(self.exact)} without)"

    def _repr_html_(self) -> str:
        from apportion.pages import card, table

        return card("Forecast", table(_HEAD, self._cells(), numbers=3), verdict=self.verdict)

    def __rich__(self) -> "RenderableType":
        from rich.table import Table

        found = Table(title=self._title, title_justify="left")
        for name in _HEAD:
            found.add_column(name, justify="left" if name == "tasks" else "right")
        for row in self._cells():
            found.add_row(*row)
        return found


def rehearse(model: "MultiTaskLinear", shape: dict[str, Any]) -> TaskForecast:
    """Train on simulated tasks, with noise as in earnest and without, and score held-out rows."""
    data = simulate_tasks(**{"label_noise": _LABEL_NOISE, **shape})
    labels = _labels(data.labels, float(model.label_bound), model._loss.prediction)
    data = _with_features(data, float(model.feature_bound), model.feature_ranges)
    return _rehearse(model, data.remade(np.arange(len(data)), data.task, labels))


def rehearse_classes(model: "MultiTaskClassifier", shape: dict[str, Any]) -> TaskForecast:
    """The same of classes: rows scatter about the middle of their class, which is in a random direction."""
    data = simulate_classes(**shape)
    return _rehearse(model, _with_features(data, float(model.feature_bound), model.feature_ranges))


def _rehearse(model: "MultiTaskLinear | MultiTaskClassifier", data: TaskData) -> TaskForecast:
    train, test = data.split(test=0.3)
    parameters = model.get_params(deep=False)
    # Nobody's data: the noise has to be like the real one, not secret.
    private = type(model)(**{**parameters, "noise_seed": 0}).fit(train, progress=False)
    exact = type(model)(**{**parameters, "epsilon": math.inf}).fit(train, progress=False)
    sizes = train.graph.task_sizes()
    rows = []
    for name, some in zip(_FIFTHS, np.array_split(np.argsort(sizes), 5), strict=True):
        if len(some):
            chosen = np.isin(test.task, some)
            scores = _score(private, test, chosen), _score(exact, test, chosen)
            rows.append((name, float(sizes[some].mean()), *scores))
    everything = np.full(len(test), True)
    return TaskForecast(
        _score(private, test, everything),
        _score(exact, test, everything),
        tuple(rows),
        replace(private.privacy, secret_noise=True).verdict,
    )


def _text(score: float) -> str:
    return "-" if math.isnan(score) else f"{score:.3f}"


def _score(
    model: "MultiTaskLinear | MultiTaskClassifier", data: TaskData, rows: NDArray[np.bool_]
) -> float:
    try:
        return model.score(data.take(rows))
    except DataError:  # no rows, or all of one label
        return math.nan


def _labels(labels: Array, bound: float, prediction: Prediction) -> Array:
    """Numbers between -1 and 1 as labels of a loss."""
    if prediction.predicts == "sign":
        return np.where(labels > 0, 1.0, -1.0)
    if prediction.predicts == "rate":
        return np.asarray(np.round(np.exp(2 * np.clip(labels, -1, 1))), dtype=np.float64)
    return labels * bound


def _with_features(data: TaskData, bound: float, ranges: Ranges | None) -> TaskData:
    """Features of norm at most 1 as features of this norm, or within these ranges."""
    if ranges is None:
        return data.with_features(data.features * bound)
    low, high = check_ranges(ranges).T
    return data.with_features(low + (data.features + 1) / 2 * (high - low))
