"""Multi-task models that were killed: the same call gives the same model, at one price."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.errors import CheckpointError
from apportion.privacy import OpenRelease
from tests.reports import undated

DATA = ap.simulate_tasks(users=300, tasks=70, tasks_per_user=5)
MODELS = [
    ap.MultiTaskRidge(2.0),
    ap.MultiTaskRidge(2.0, statistics="shared"),
    ap.MultiTaskDescent(2.0, steps=4),
    ap.MultiTaskClassifier(2.0, steps=4),
    pytest.param(
        ap.MultiTaskDescent(2.0, steps=ap.Steps(4, sampling_rate=0.5)), marks=pytest.mark.slow
    ),  # samples are accounted for slowly
]


class Crash(BaseException):
    """Like a kill, for this process to survive."""


def crash(model: Any, folder: Path, at: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Stop after so many releases of noisy values; what these were."""
    values: dict[str, bytes] = {}
    feed = OpenRelease.feed

    def watched(self: OpenRelease, first: int, *sums: Any) -> Any:
        found = feed(self, first, *sums)
        values[f"{self.records[0].name} {len(values)}"] = b"".join(a.tobytes() for a in found)
        if len(values) == at:
            raise Crash
        return found

    with monkeypatch.context() as patch:
        patch.setattr(OpenRelease, "feed", watched)
        with suppress(Crash):
            model.fit(DATA, checkpoint=folder)
    return values


@pytest.mark.parametrize("model", MODELS)
def test_the_same_noisy_values_and_model(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, bytes] = {}
    for at in (1, 2, 3, 100):
        values = crash(model, tmp_path / "c", at, monkeypatch)
        assert seen.items() <= values.items()
        seen = values
    coef, report = model.coef_, undated(model.privacy)
    assert round(model.privacy.epsilon, 3) == 2.0
    with pytest.warns(UserWarning, match="is finished"):
        model.fit(DATA, checkpoint=tmp_path / "c")
    np.testing.assert_array_equal(model.coef_, coef)
    assert undated(model.privacy) == report


def test_other_data_and_parameters_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash(ap.MultiTaskRidge(2.0), tmp_path / "c", 2, monkeypatch)
    rows = np.arange(len(DATA.task))
    with pytest.raises(CheckpointError, match="other data"):
        ap.MultiTaskRidge(2.0).fit(DATA.take(rows > 0), checkpoint=tmp_path / "c")
    with pytest.raises(CheckpointError, match="another regularization"):
        ap.MultiTaskRidge(2.0, regularization=1.0).fit(DATA, checkpoint=tmp_path / "c")
    with pytest.raises(CheckpointError, match="another kind of model"):
        ap.MultiTaskDescent(2.0).fit(DATA, checkpoint=tmp_path / "c")
