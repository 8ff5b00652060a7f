"""Sessions of Spark; where it is missing, its tests are skipped and say why."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.spark.running import make_session, missing

WHY_NOT = missing()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if WHY_NOT and item.path.is_relative_to(here):
            item.add_marker(pytest.mark.skip(reason=f"Spark: {WHY_NOT}"))


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    session = make_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
