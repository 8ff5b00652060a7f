"""The benchmarks run; how long anything takes is not tested."""

from pathlib import Path

import pytest
from benchmarks import descent, foundation, growth, kernels, memory, reading, solves


def test_descent(capsys: pytest.CaptureFixture[str]) -> None:
    descent.main(rows=2000, dimension=4, tasks=10, per_user=5)
    assert capsys.readouterr().out.count("x reading") == 4


def test_foundation(capsys: pytest.CaptureFixture[str]) -> None:
    foundation.noise(tiles=2)
    foundation.statistics(rows=4000)
    foundation.optimal_weights(users=300)
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_growth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(growth, "FACTORS", 4)
    growth.main([0.1, 0.2])
    assert capsys.readouterr().out.count("s a million") == 2
    assert "<svg" in Path("growth.svg").read_text()


def test_kernels(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"USERS": 500, "ITEMS": 100, "ROWS": 50_000, "TOP_USERS": 50}.items():
        monkeypatch.setattr(kernels, name, value)
    monkeypatch.setattr(kernels, "SIZES", (4,))
    kernels.sweeps()
    kernels.best_items()
    assert len(capsys.readouterr().out.splitlines()) == 5


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_memory(capsys: pytest.CaptureFixture[str]) -> None:
    memory.main(4, "ml-100k")
    assert capsys.readouterr().out.count("MB beyond data and factors") == 2


def test_reading(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "USERS", 300)
    monkeypatch.setattr(reading, "ITEMS", 200)
    reading.main(0.01)
    assert capfd.readouterr().out.count("MB of the data") == 4


def test_solves(capsys: pytest.CaptureFixture[str]) -> None:
    solves.main([4], systems=70, rounds=1)
    assert "M draws a second" in capsys.readouterr().out
