"""The synthetic study: what it finds and what it writes."""

import csv
from pathlib import Path

import numpy as np
import pytest

from apportion.studies.output import write_table
from apportion.studies.synthetic import Synthetic, summarize, write


@pytest.fixture(scope="module")
def study() -> Synthetic:
    return Synthetic(epsilons=(1.0, 2.0), exponents=(0.0, 0.5, 1.0), skews=(1.0,), seeds=3)


@pytest.fixture(scope="module")
def rows(study: Synthetic) -> list[dict[str, float]]:
    calls: list[None] = []
    rows = study.run(on_fit=lambda: calls.append(None))
    assert len(rows) == study.fits == len(calls) == 18
    return rows


def test_exponent_one_half_is_best_and_uniform_clearly_worse(rows: list[dict[str, float]]) -> None:
    for entry in summarize(rows):
        if entry["exponent"] == 0.5:
            assert entry["excess"] == 0.0
        else:
            assert entry["excess"] > 3 * entry["excess_error"]


def test_it_is_the_method_of_the_paper() -> None:
    assert Synthetic()._model(1.0, 0.5, 0).get_params()["statistics"] == "per-task"


def test_the_tail_gains_most(rows: list[dict[str, float]]) -> None:
    def mean(exponent: float, bucket: int) -> float:
        return float(
            np.mean([r[f"rmse_bucket_{bucket}"] for r in rows if r["exponent"] == exponent])
        )

    assert mean(0.5, 0) < 0.8 * mean(0.0, 0)
    assert mean(0.5, 4) < 2 * mean(0.0, 4)


def test_files(rows: list[dict[str, float]], study: Synthetic, tmp_path: Path) -> None:
    paths = write(rows, study, tmp_path / "new" / "folder")
    assert [path.name for path in paths] == ["synthetic.csv", "synthetic.png", "task-sizes.png"]
    with paths[0].open() as file:
        read = list(csv.DictReader(file))
    assert [float(row["rmse"]) for row in read] == [row["rmse"] for row in rows]
    for path in paths[1:]:
        assert path.read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in paths[0].parent.iterdir()) == sorted(p.name for p in paths)


def test_a_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    write_table(path, [{"a": 1}])
    with pytest.raises(ValueError, match="dict contains fields"):
        write_table(path, [{"a": 2}, {"b": 3}])
    assert path.read_text() == "a\n1\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
def test_the_whole_study_finds_what_the_documentation_says() -> None:
    for entry in summarize(Synthetic().run()):
        if entry["exponent"] == 0.0:
            assert entry["excess"] > 5 * entry["excess_error"]
        if entry["epsilon"] in (1.0, 2.0):
            assert entry["excess"] >= 0
        assert entry["excess"] > -0.01
