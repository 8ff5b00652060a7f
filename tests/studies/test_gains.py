"""Promised gains beside measured ones."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.studies.gains import KINDS, Gains, summarize, write

STUDY = Gains(epsilons=(1.0, 20.0), skews=(1.0, 4.0), seeds=2, users=2000)


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    calls: list[None] = []
    rows = STUDY.run(on_fit=lambda: calls.append(None))
    assert len(rows) == len(calls) == STUDY.fits == 24
    return rows


def test_what_is_promised_is_the_closed_form(rows: list[dict[str, Any]]) -> None:
    sizes = ap.simulate_tasks(users=2000, skew=4.0, seed=1).graph.task_sizes()
    here = [row for row in rows if (row["skew"], row["seed"]) == (4.0, 1)]
    for row in here:
        r = (
            ap.theory.improvement_strongly_convex(sizes)
            if KINDS[row["algorithm"]].gamma
            else ap.theory.improvement_convex(sizes)
        )
        assert row["promised"] == pytest.approx(r)
        # Where users have about as many tasks each, it matters little that each spends its own budget.
        assert row["promised_per_user"] == pytest.approx(r, rel=0.02)


def test_gains_are_ratios_of_excess_risks(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert row["excess_uniform"] > 0
        assert row["excess_adaptive"] > 0
        assert row["gain"] == row["excess_uniform"] / row["excess_adaptive"]


def test_a_large_epsilon_gains_what_is_promised(rows: list[dict[str, Any]]) -> None:
    # Noise is small beside A_i then, as the theorem has it.
    [entry] = [
        e
        for e in summarize(rows)
        if (e["algorithm"], e["skew"], e["epsilon"]) == ("Algorithm 1, as written", 4.0, 20.0)
    ]
    assert entry["gain"] == pytest.approx(entry["promised"], rel=0.2)


def test_means_over_seeds(rows: list[dict[str, Any]]) -> None:
    [entry] = [
        e
        for e in summarize(rows)
        if (e["algorithm"], e["skew"], e["epsilon"]) == ("Algorithm 2, ours", 1.0, 20.0)
    ]
    gains = [
        row["gain"]
        for row in rows
        if (row["algorithm"], row["skew"], row["epsilon"]) == ("Algorithm 2, ours", 1.0, 20.0)
    ]
    assert entry["gain"] == pytest.approx(np.sqrt(gains[0] * gains[1]))
    assert entry["error"] == pytest.approx(abs(np.log(gains[0] / gains[1])) / 2)


def test_files(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    table, picture = write(rows, tmp_path / "new")
    with table.open() as file:
        assert [float(row["gain"]) for row in csv.DictReader(file)] == [r["gain"] for r in rows]
    assert picture.read_bytes().startswith(b"\x89PNG")
