"""What options take is what the library has."""

from apportion.cli.options import EngineName
from apportion.cli.reading import Name
from apportion.cli.tasks import LossName
from apportion.data import SHAPES
from apportion.data.datasets import DATA_SETS
from apportion.engine.choice import ENGINES
from apportion.tasks.losses import LOSSES


def test_every_data_set_has_its_name_and_its_shape() -> None:
    assert {name.value for name in Name} == set(DATA_SETS) == set(SHAPES)


def test_every_loss_has_its_name() -> None:
    assert {name.value for name in LossName} == set(LOSSES)


def test_every_engine_has_its_name_and_so_has_a_cluster() -> None:
    assert {name.value for name in EngineName} == {*ENGINES, "spark"}
