"""Standard errors of models fitted by descent: as far as noise moves them, from released values alone."""

from typing import Any

import numpy as np
import pytest

import apportion as ap


def examples(loss: str, users: int = 3000) -> ap.TaskData:
    data = ap.simulate_tasks(users=users, tasks=20, tasks_per_user=6, label_noise=0.1, skew=0.6)
    labels = data.labels
    if loss in ("logistic", "hinge"):
        labels = np.where(labels > 0, 1.0, -1.0)
    return data.remade(np.arange(len(data)), data.task, labels)


def ratios(data: ap.TaskData, epsilon: float, **settings: Any) -> np.ndarray:
    """What is said of each task, over how far its models with other noise lie apart, ascending, [tasks]."""
    models, said, width = [], [], 0
    for seed in range(8):
        model = ap.MultiTaskDescent(epsilon, noise_seed=seed, **settings).fit(data)
        assert model.released.errors is not None
        width = model.released.errors.shape[1]
        models.append(np.column_stack([model.coef_, model.intercept_])[:, :width])
        said.append(model.released.errors)
    apart = np.var(models, axis=0, ddof=1).mean(axis=1)
    return np.sort(np.sqrt(np.mean(np.square(said), axis=(0, 2)) / apart))


@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge", "huber"])
@pytest.mark.parametrize("epsilon", [1.0, 5.0])
def test_they_are_about_how_far_noise_moves_models(loss: str, epsilon: float) -> None:
    found = ratios(examples(loss), epsilon, loss=loss, steps=30)
    assert 0.8 < np.median(found) < 1.8
    assert found[0] > 0.5  # too large rather than too small
    assert found[-1] < 5


@pytest.mark.parametrize(
    "settings",
    [
        {"steps": ap.Steps(40, momentum=0.5, average=0.0)},
        {"steps": ap.Steps(40, schedule="1/sqrt(t)", learning_rate=0.01)},
        {"steps": 30, "regularization": 50.0},
        {"steps": 30, "intercept": True, "feature_ranges": [(-1.0, 1.0)] * 5},
        {"steps": 30, "allocation": ap.AdaptiveWeights(0.5, counts=ap.PublicCounts())},
    ],
    ids=str,
)
def test_of_other_steps(settings: dict[str, Any]) -> None:
    found = ratios(examples("squared"), 2.0, **settings)
    assert 0.8 < np.median(found) < 2.2
    assert found[0] > 0.4


def test_the_table_has_them() -> None:
    table = ap.MultiTaskDescent(1.0, steps=20).fit(examples("squared")).table()
    assert table.columns == ["task", "users", "standard_error"]
    by_size = table.sort("users")["standard_error"].to_list()
    assert np.mean(by_size[:5]) > 3 * np.mean(by_size[-5:])
    more = ap.MultiTaskDescent(1.0, steps=20).fit(examples("squared", 12_000)).table()
    assert more["standard_error"].mean() < table["standard_error"].mean()  # type: ignore[operator]
    wide = {"intercept": True, "feature_ranges": [(0.0, 120.0)] * 5}
    assert "intercept_error" in ap.MultiTaskDescent(1.0, **wide).fit(examples("squared")).table()


@pytest.mark.parametrize(
    "settings",
    [{"allocation": ap.UniformWeights()}, {"steps": ap.Steps(2, sampling_rate=0.5)}],
    ids=str,
)
def test_where_they_cannot_be_known_there_are_none(settings: dict[str, Any]) -> None:
    model = ap.MultiTaskDescent(1.0, **{"steps": 2, **settings}).fit(examples("squared", 300))
    assert model.released.errors is None


def test_odd_settings_stop_nothing() -> None:
    data = examples("squared", 200)
    for settings in (
        {"feature_bound": 1e50, "label_bound": 1e50},
        {"steps": ap.Steps(3, schedule="constant", learning_rate=1e30)},
        {"steps": 1, "epsilon": 1e-6},
    ):
        model = ap.MultiTaskDescent(**{"steps": 2, **settings}).fit(data)
        assert model.released.errors is not None
        assert not np.isnan(model.released.errors).any()
