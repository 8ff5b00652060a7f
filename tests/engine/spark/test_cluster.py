"""A standalone cluster whose executors and driver are killed: the same bytes, one ledger."""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apportion.accounts.ledgers import ledger_from_json, ledger_to_json
from tests.engine.spark.cluster import Cluster, cluster
from tests.engine.spark.driver import SWEEPS, data, model


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture(scope="module")
def expected() -> Any:
    """The same training on one machine."""
    return model(noise_seed=1).fit(data())


# Up to eight shards the driver adds sums; of more, executors do, whose shuffle files are lost with them.
FEW, MANY = 4, 9


def killed(running: Cluster, name: str, seed: int, shards: int) -> int:
    """A whole training; after every sweep but the last an executor is killed. How many were."""
    rng, count = np.random.default_rng(seed), 0
    with running.driver(name, "seeded", shards) as driver:
        assert driver.stdout is not None
        for line in driver.stdout:
            if line.startswith("sweep") and line != f"sweep {SWEEPS} of {SWEEPS}\n":
                time.sleep(rng.uniform(0, 0.3))
                count += running.kill_executor(int(rng.integers(2)))
        assert driver.wait() == 0, running.told()
    return count


def check(running: Cluster, name: str, expected: Any) -> None:
    items = np.load(running.folder / f"{name}.npy")
    assert items.tobytes() == expected.items.tobytes()
    ledger = (running.folder / f"{name}.json").read_text()
    assert ledger == ledger_to_json(expected.privacy.ledger)


def test_executors_that_are_killed_change_no_bit(running: Cluster, expected: Any) -> None:
    assert killed(running, "once", 0, MANY) >= 2
    check(running, "once", expected)
    wait_for(lambda: not [*running.folder.rglob("*.arrays")], "rows stay where an executor was")


def wait_for(done: Callable[[], bool], otherwise: str) -> None:
    """Workers tidy up after a training in their own time."""
    for _ in range(300):
        if done():
            return
        time.sleep(0.2)
    raise AssertionError(otherwise)


@pytest.mark.slow
def test_nor_do_twenty_trainings_in_a_row(running: Cluster, expected: Any) -> None:
    count = 0
    for number in range(20):
        count += killed(running, f"run-{number}", number, FEW if number % 2 else MANY)
        check(running, f"run-{number}", expected)
    assert count >= 40


def test_a_driver_that_is_killed_is_resumed_at_one_price(
    running: Cluster, expected: Any, tmp_path: Path
) -> None:
    """Twice from copies of one checkpoint: the same bytes, and the ledger of one training."""
    folder = tmp_path / "checkpoint"
    with running.driver("killed", folder, FEW) as driver:
        assert driver.stdout is not None
        for line in driver.stdout:
            if line.startswith("sweep 2"):
                driver.kill()
                break
    assert not (running.folder / "killed.npy").exists(), running.told()
    shutil.copytree(folder, tmp_path / "copy", copy_function=shutil.copy2)
    found = []
    for name, place in (("first", folder), ("second", tmp_path / "copy")):
        with running.driver(name, place, FEW) as driver:
            said, _ = driver.communicate()
            assert driver.returncode == 0, running.told()
        assert said.startswith(f"sweep 2 of {SWEEPS}\n"), "it is resumed, and not begun again"
        found.append(np.load(running.folder / f"{name}.npy"))
    assert found[0].tobytes() == found[1].tobytes()
    ledger = ledger_from_json((running.folder / "first.json").read_text())
    assert [one.name for one in ledger] == [one.name for one in expected.privacy.ledger]
    assert ledger.epsilon(1e-5) == pytest.approx(8.0)
