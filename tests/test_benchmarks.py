"""The benchmarks run; how long anything takes is not tested."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import descent, foundation, growth, kernels, memory, reading, solves
from benchmarks.quality import __main__ as quality
from benchmarks.quality import oracle, sets

import apportion as ap


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
    growth.main([0.1, 0.2], factors=4)
    assert capsys.readouterr().out.count("s a million") == 2
    assert "<svg" in Path("growth.svg").read_text()


def test_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    small = kernels.Scale(users=500, items=100, rows=50_000, top_users=50, sizes=(4,))
    kernels.sweeps(small)
    kernels.best_items(small)
    assert len(capsys.readouterr().out.splitlines()) == 5


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_memory(capsys: pytest.CaptureFixture[str]) -> None:
    memory.main(4, "ml-100k")
    assert capsys.readouterr().out.count("MB beyond data and factors") == 2


def test_reading(capfd: pytest.CaptureFixture[str]) -> None:
    reading.main(0.01, people=300, catalog=200)
    assert capfd.readouterr().out.count("MB of the data") == 4


def test_solves(capsys: pytest.CaptureFixture[str]) -> None:
    solves.main([4], systems=70, rounds=1)
    assert "M draws a second" in capsys.readouterr().out


def liked(folder: Path, seed: int) -> ap.Interactions:
    return sets.Simulated(200, 40, 2_000)(folder, seed).positives(2.0)


TINY = {
    each.name: each
    for each in (
        sets.DataSet("ratings", "explicit", sets.Simulated(200, 20, 2_000)),
        sets.DataSet("events", "implicit", liked),
        sets.DataSet("absent", "explicit", sets.ratings("absent.npz", (1, 5)), unseen=True),
    )
}  # fmt: skip


def test_quality(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = "--seeds 2 --trials 2 --epsilons 1 --results {0}/q.jsonl --figure {0}/q.svg"
    words = options.format(tmp_path).split()
    quality.main(words, TINY)
    first = capsys.readouterr().out
    # Ratings: three baselines, the default and three that are tuned, twice; two trials of each of these.
    # Of events there is one baseline.
    assert first.count("\nratings ") + first.startswith("ratings ") == 20
    assert first.count("\nevents ") == 16
    assert "absent: not at hand" in first
    assert "| ratings | 1 |" in first
    assert "<svg" in (tmp_path / "q.svg").read_text()
    quality.main(words, TINY)  # everything is there: only the table
    second = capsys.readouterr().out
    assert second.count("\nratings ") + second.startswith("ratings ") == 0
    assert first.endswith(second.removeprefix("absent: not at hand, skipped\n"))


@pytest.mark.parametrize("method", oracle.METHODS)
@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
def test_trials_are_settings_that_models_take(feedback: Any, method: Any) -> None:
    for number in range(50):
        settings = oracle.trial("a set", feedback, (1.0, 5.0), 1.0, number, method)
        assert settings == oracle.trial("a set", feedback, (1.0, 5.0), 1.0, number, method)
        oracle.model(feedback, 1.0, 0, settings, method).plan()


def test_communities_choose_among_their_own_items() -> None:
    data = sets.Communities(400, 200, communities=10, per_user=12, own=1.0)(Path(), 0)
    place = np.random.default_rng([0, 400, 200, 10]).integers(10, size=200)
    item, start = data.item_ids[data.by_user.other], data.by_user.start
    assert all(
        len(set(place[item[begin:end]].tolist())) <= 2 for begin, end in pairwise(start.tolist())
    )
