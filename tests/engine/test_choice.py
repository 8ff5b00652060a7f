"""Which engine runs is what the caller says, and nothing else."""

from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.engine import CpuEngine, Engine, ReferenceEngine, find_engine
from apportion.engine.choice import ENGINES
from apportion.native import kernels
from tests.machines import nothing_compiled

compiled = pytest.mark.skipif(kernels is None, reason="no compiled kernels")


@compiled
def test_by_name() -> None:
    assert isinstance(find_engine("auto"), CpuEngine)
    assert isinstance(find_engine("cpu"), CpuEngine)
    assert isinstance(find_engine("reference"), ReferenceEngine)
    assert all(repr(find_engine(name)).endswith("Engine()") for name in ENGINES)


def test_an_engine_is_itself() -> None:
    engine = ReferenceEngine()
    assert find_engine(engine) is engine


def test_where_nothing_is_compiled() -> None:
    with nothing_compiled():
        with pytest.warns(UserWarning, match="apportion doctor says what to install"):
            assert isinstance(find_engine("auto"), ReferenceEngine)
        assert isinstance(find_engine("auto"), ReferenceEngine)  # and says it once
        with pytest.raises(ap.ParameterError, match='use engine="reference"'):
            find_engine("cpu")


@pytest.mark.parametrize(
    "wrong", ["gpu2", "", "Auto", None, 3, CpuEngine, ["cpu"], np.array("cpu")]
)
def test_anything_else_is_refused(wrong: Any) -> None:
    with pytest.raises(ap.ParameterError, match='engine must be an Engine or one of "auto", "cpu"'):
        find_engine(wrong)
    data = ap.simulate_tasks(users=20, tasks=3, tasks_per_user=1)
    with pytest.raises(ap.ParameterError, match="engine must be"):
        ap.MultiTaskRidge(engine=wrong).fit(data)


@compiled
def test_engines_are_told_apart() -> None:
    identities = [find_engine(name).identity() for name in ("cpu", "reference")]
    assert identities[0] != identities[1]
    assert identities[0] == CpuEngine().identity()
    assert kernels is not None
    assert identities[0]["kernels"] == kernels.digest[:16]


@compiled
@pytest.mark.parametrize("statistics", ["per-task", "shrunk"])
def test_the_same_noise_gives_the_same_models_on_both(statistics: Any) -> None:
    """Loaded features: the whole numbers are the same, and so is everything that follows."""
    data = ap.simulate_tasks(users=300, tasks=6, tasks_per_user=3)
    engines: list[str | Engine] = ["cpu", "reference", ReferenceEngine()]
    models = [
        ap.MultiTaskRidge(statistics=statistics, engine=engine, noise_seed=1).fit(data)
        for engine in engines
    ]
    for model in models[1:]:
        np.testing.assert_array_equal(model.coef_, models[0].coef_)
