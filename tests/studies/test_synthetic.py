"""The synthetic study: what it finds and what it writes."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apportion.studies.output import write_table
from apportion.studies.synthetic import VERSIONS, Synthetic, summarize, write


@pytest.fixture(scope="module")
def study() -> Synthetic:
    return Synthetic(epsilons=(1.0, 2.0), exponents=(0.0, 0.5, 1.0), skews=(1.0,), seeds=3)


@pytest.fixture(scope="module")
def rows(study: Synthetic) -> list[dict[str, float]]:
    calls: list[None] = []
    rows = study.run(on_fit=lambda: calls.append(None))
    assert len(rows) == study.fits == len(calls) == 36
    return rows


def of(version: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["algorithm"] == version]


def test_exponent_one_half_is_best_and_uniform_clearly_worse(rows: list[dict[str, float]]) -> None:
    for entry in summarize(of("ours", rows)):
        if entry["exponent"] == 0.5:
            assert entry["excess"] == 0.0
        else:
            assert entry["excess"] > 3 * entry["excess_error"]


def test_the_paper_s_algorithm_stands_beside_ours() -> None:
    models = {version: Synthetic().model(version, 1.0, 0.5, 0).get_params() for version in VERSIONS}
    assert all(params["statistics"] == "per-task" for params in models.values())
    assert (models["as written"]["noise_ridge"], models["as written"]["gram_share"]) == (0.0, 0.5)
    assert models["ours"]["noise_ridge"] == 1.0


def test_the_paper_s_effect_is_large_where_nothing_hides_it(rows: list[dict[str, float]]) -> None:
    # Uniform weights at epsilon 1: the pseudo-inverse blows up the noise of small tasks.
    def rmse_of(version: str, exponent: float) -> float:
        shown = summarize(of(version, rows))
        [entry] = [e for e in shown if (e["epsilon"], e["exponent"]) == (1.0, exponent)]
        return float(entry["rmse"])

    assert rmse_of("as written", 0.0) > 1.8 * rmse_of("as written", 0.5)
    assert rmse_of("ours", 0.0) < 1.3 * rmse_of("ours", 0.5)
    assert rmse_of("as written", 0.5) > rmse_of("ours", 0.5)


def test_the_tail_gains_most(rows: list[dict[str, float]]) -> None:
    def mean(exponent: float, bucket: int) -> float:
        ours = of("ours", rows)
        return float(
            np.mean([r[f"rmse_bucket_{bucket}"] for r in ours if r["exponent"] == exponent])
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
    for entry in summarize(of("ours", Synthetic().run())):
        if entry["exponent"] == 0.0:
            assert entry["excess"] > 5 * entry["excess_error"]
        if entry["epsilon"] in (1.0, 2.0):
            assert entry["excess"] >= 0
        assert entry["excess"] > -0.01
