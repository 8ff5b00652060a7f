"""Checkpoint folders that are damaged or odd: refused, or gone on with to the very same model."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import apportion as ap
from tests.fuzz.harness import Fuzz, mutated, seeds


class StopError(Exception):
    pass


def stop_after(sweep: int) -> Callable[[int, int], None]:
    def stop(done: int, total: int) -> None:
        if done == sweep:
            raise StopError

    return stop


@pytest.fixture(scope="module")
def data() -> ap.Interactions:
    return ap.simulate_interactions(users=60, items=6, rows=240)


def fit(data: ap.Interactions, folder: Path, **more: Any) -> ap.MatrixFactorization:
    model = ap.MatrixFactorization(factors=2, sweeps=3, epsilon=5.0, delta=1e-5)
    return model.fit(data, checkpoint=folder, **more)


@pytest.fixture(scope="module")
def begun(data: ap.Interactions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint") / "begun"
    with pytest.raises(StopError):
        fit(data, folder, on_sweep=stop_after(2))
    return folder


def test_files_changed(fuzz: Fuzz, tmp_path: Path, data: ap.Interactions, begun: Path) -> None:
    right = fit(data, Path(shutil.copytree(begun, tmp_path / "right"))).items
    folder = tmp_path / "folder"
    for name in ("key", "state", "releases"):
        for source in seeds(25):
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(begun, folder)
            content = (begun / name).read_bytes()
            (folder / name).write_bytes(mutated(content, source))
            found = fuzz.case(lambda: fit(data, folder))
            if isinstance(found, ap.MatrixFactorization):
                np.testing.assert_array_equal(found.items, right)


def test_files_of_other_kinds(
    fuzz: Fuzz, tmp_path: Path, data: ap.Interactions, begun: Path
) -> None:
    folder = tmp_path / "folder"
    for name in ("key", "state", "releases", "lock"):
        for how in ("missing", "folder", "link", "circle"):
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(begun, folder)
            (folder / name).unlink()
            if how == "folder":
                (folder / name).mkdir()
            elif how == "link":
                (folder / name).symlink_to(begun / name)
            elif how == "circle":
                (folder / name).symlink_to(name)
            fuzz.case(lambda: fit(data, folder), also=(OSError,))
