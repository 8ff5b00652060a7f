"""Sessions of Spark; where it is missing, its tests are skipped and say why."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.spark.running import make_session, missing

WHY_NOT = missing()


# Where these tests must not be left out, as in .ci/run.
if WHY_NOT and os.environ.get("APPORTION_NEEDS_ENGINES"):
    raise RuntimeError(f"the tests of Spark would be skipped: {WHY_NOT}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if WHY_NOT and item.path.is_relative_to(here):
            item.add_marker(pytest.mark.skip(reason=f"Spark: {WHY_NOT}"))


@pytest.fixture(scope="package")  # starting Spark takes longer than most of these tests
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    session = make_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
