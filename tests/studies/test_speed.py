"""Timing sweeps: what is timed and how it is reported; never how long it takes."""

import math

import pytest

import apportion as ap
from apportion.studies import speed


def test_a_run_reports_everything_that_it_should() -> None:
    said: list[str] = []
    found = speed.run("ml-100k", 4, "implicit", rounds=1, on_step=said.append)
    assert (found.users, found.items, found.rows) == (943, 1682, 100_000)
    assert list(found.seconds) == ["per_item", "shared", "exact", "cg"]
    assert set(found.ratios) == {
        "per_item_vs_exact", "per_item_vs_cg", "shared_vs_exact", "shared_vs_cg",
    }  # fmt: skip
    for name, ratio in found.ratios.items():
        ours, peer = name.split("_vs_")
        assert ratio == found.seconds[ours] / found.seconds[peer]
    assert all(0 < seconds < math.inf for seconds in found.seconds.values())
    assert said[0] == "simulating"
    assert "round 1 of 1: cg" in said
    assert found.machine.threads >= 1
    assert min(found.machine.sgemm_gflops, found.machine.copy_gb_per_second) > 0
    assert all(
        share > 0 for share in (*found.sgemm_share.values(), *found.bandwidth_share.values())
    )


def test_alone() -> None:
    found = speed.run("ml-100k", 2, None, rounds=1)
    assert list(found.seconds) == ["per_item", "shared"]
    assert found.ratios == {}


def test_arithmetic_and_traffic_of_a_sweep() -> None:
    # One item, one row, one factor: four for X'y and squares, four for each of seven steps, two for b.
    shared = 4 + 4 * 7 + 2
    assert speed.arithmetic(1, 1, 1, "shared") == shared
    assert speed.arithmetic(1, 1, 1, "per_item") == pytest.approx(shared + 2 + 4 / 3)
    rows, users = (4 + 4 + 8) + (2 + 4), 8 + 8 + 2
    assert speed.traffic(1, 1, 1, 1, "shared") == rows + users + 32
    assert speed.traffic(1, 1, 1, 1, "per_item") == rows + users + 2 * 32


def test_unknown_shapes_and_peers() -> None:
    with pytest.raises(ap.ParameterError, match="like must be one of"):
        speed.run("netflix")
    with pytest.raises(ap.ParameterError, match="peer must be implicit"):
        speed.run("ml-100k", 2, "spark")
