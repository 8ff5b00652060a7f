"""A disk that is full: an error, the old file as it was, and nothing half-written."""

import random
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

import apportion as ap
from apportion.data.files import write_frame, written_whole
from tests.fuzz.harness import Fuzz, tree


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """The system refuses to write on, as it does on a disk that is full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def write_text(path: Path) -> None:
    with written_whole(path) as place:
        place.write_text("x" * 20_000)


FRAME = pl.DataFrame({"user": [random.Random(row).randbytes(9).hex() for row in range(5000)]})
WRITERS: dict[str, Callable[[Path], object]] = {
    "lists.csv": lambda path: write_frame(FRAME, path),
    "lists.parquet": lambda path: write_frame(FRAME, path),
    "plan.json": write_text,
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("size", [0, 1, 100, 4096, 9999])
def test_files(fuzz: Fuzz, tmp_path: Path, name: str, size: int) -> None:
    (tmp_path / name).write_text("as it was")
    before = tree(tmp_path)
    with no_file_larger_than(size):
        found = fuzz.case(lambda: WRITERS[name](tmp_path / name), also=(OSError,))
    assert isinstance(found, Exception)
    assert tree(tmp_path) == before


@pytest.fixture(scope="module")
def model() -> ap.MatrixFactorization:
    data = ap.simulate_interactions(users=60, items=200, rows=600)
    return ap.MatrixFactorization(factors=8, sweeps=1, epsilon=5.0, delta=1e-5).fit(data)


@pytest.mark.parametrize("size", [0, 1, 600, 4000, 8000])
@pytest.mark.parametrize("old", [False, True])
def test_models(
    fuzz: Fuzz, tmp_path: Path, model: ap.MatrixFactorization, size: int, old: bool
) -> None:
    if old:
        model.save(tmp_path / "model")
    before = tree(tmp_path)
    with no_file_larger_than(size):
        found = fuzz.case(lambda: model.save(tmp_path / "model", {1: "one"}), also=(OSError,))
    assert isinstance(found, Exception)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("size", [0, 1, 4096, 20_000])
def test_budgets(fuzz: Fuzz, tmp_path: Path, size: int) -> None:
    budget = ap.Budget.create(tmp_path / "budget.db", ap.PrivacyTarget(2.0, 1e-5))
    with no_file_larger_than(size):
        found = fuzz.case(lambda: budget.reserve("training", ap.PrivacyTarget(1.0, 1e-5)))
    # Refused, and then nothing is reserved; or reserved for good.
    spent = isinstance(found, ap.ApportionError)
    assert budget.epsilon == (0.0 if spent else pytest.approx(1.0))
