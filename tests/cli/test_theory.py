"""apportion theory: from counts, a data set, or a power law."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import apportion as ap
from apportion import theory
from apportion.cli import app
from apportion.data.simulate import simulate_graph
from apportion.studies import theory as study
from tests.studies.test_benchmark import write_ml_20m


def run(tmp_path: Path, *options: str) -> str:
    result = CliRunner().invoke(app, ["theory", *options, "--out", str(tmp_path / "out")])
    if isinstance(result.exception, ap.ApportionError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_power_law(tmp_path: Path) -> None:
    printed = run(tmp_path, "--users", "500", "--tasks", "20", "--rows", "2000", "--power", "0.7")
    for piece in ("R_0, convex", "R_1, strongly convex", "Theorem 3.8", "Theorem 4.2 (a)", "c(n)"):
        assert piece in printed
    out = tmp_path / "out"
    assert (out / "theory.png").read_bytes().startswith(b"\x89PNG")
    sizes = study.power_law(500, 20, 2000, 0.7)
    beta = theory.rdp_budget(ap.mu_from_epsilon(1.0, 1e-5))
    by_name = {row[""]: row for row in read(out / "theory-bounds.csv")}
    weights = theory.optimal_task_weights(sizes, 0.5, 500, beta)
    expected = theory.ssp_bound(weights, sizes, dimension=32, strong_convexity=0.1)
    found = float(by_name["Theorem 3.8, Algorithm 1"]["exponent 0.5"])
    assert found == pytest.approx(expected)
    ratio = float(by_name["Theorem 3.8, Algorithm 1"]["exponent 0"]) / found
    assert ratio == pytest.approx(theory.improvement_strongly_convex(sizes))
    by_size = read(out / "theory-weights.csv")
    assert [float(row["users n_i"]) for row in by_size] == sizes.tolist()
    assert [float(row["omega, exponent 0.5"]) for row in by_size] == pytest.approx(weights)
    for row in read(out / "theory-spending.csv"):
        assert 1 <= float(row["c(n)"]) <= float(row["c(n) at most"])


@pytest.mark.parametrize("power", [0.0, 0.7, 1.0, 2.0])
def test_a_power_law_has_all_rows_that_are_asked_for(power: float) -> None:
    """Where a task would have more users than there are, the others have the rest."""
    sizes = study.power_law(10_000, 100, 200_000, power)
    assert abs(sizes.sum() - 200_000) <= 50
    assert sizes.max() <= 10_000
    assert (np.diff(sizes) <= 0).all()
    assert study.power_law(50, 4, 200, power).tolist() == [50, 50, 50, 50]


@pytest.mark.parametrize("rows", [99, 1_000_001])
def test_too_few_or_too_many_rows_are_refused(rows: int) -> None:
    with pytest.raises(ap.ParameterError, match="rows"):
        study.power_law(10_000, 100, rows, 1.0)


def test_counts_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "sizes.csv"
    path.write_text("task,people\na,40\nb,0\nc,160\n")
    printed = run(tmp_path, "--counts", str(path), "--column", "people", "--users", "400")
    sizes = np.array([40.0, 160.0])
    assert "tasks m │ 2 " in printed
    assert f"R_0, convex │ {theory.improvement_convex(sizes):.4g}" in printed


def test_the_graph_of_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apportion.studies.benchmark.read_settings", _few_held_out)
    write_ml_20m(tmp_path / "ml-20m.zip")
    printed = run(tmp_path, "--data", "ml-20m", "--path", str(tmp_path / "ml-20m.zip"))
    assert "users of the data" in printed
    assert "tasks m │ 44 " in printed
    assert "users n │ 80 " in printed  # 100 less those held out


def _few_held_out(name: str) -> dict[str, dict[str, object]]:
    del name
    return {"top-k": {"positive": 4.0, "user_events": 5, "held_out": 10}}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give one of --counts"),
        (("--tasks", "5", "--users", "9"), "--tasks needs --rows"),
        (("--tasks", "5", "--rows", "9"), "--users is needed"),
        (("--counts", "sizes.csv", "--users", "10"), "more users than --users 10"),
        (("--counts", "sizes.csv", "--column", "bad", "--users", "10"), "must hold numbers"),
    ],
)
def test_wrong_usage(
    options: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sizes.csv").write_text("count,bad\n40,-1\n3,2\n")
    with pytest.raises((ap.ParameterError, ap.DataError), match=message):
        run(tmp_path, *options)


def test_weights_that_users_scale_themselves_need_no_c_of_n() -> None:
    sizes = np.array([4.0, 900.0, 2000.0, 3000.0])
    setting = study.Setting(sizes, 10_000, graph=simulate_graph(sizes, 10_000, seed=1))
    *_, closed = study.spending(setting)
    own = study.per_user(setting)
    assert own is not None
    assert own["exponent 0.5"] < 0.5 * closed["equation 9, gamma 1"]


def test_equation_9_solved_is_below_every_closed_form() -> None:
    sizes = np.array([4.0, 900.0, 2000.0, 3000.0])
    setting = study.Setting(sizes, 10_000, graph=simulate_graph(sizes, 10_000, seed=1))
    best = study.solved(setting)
    assert best is not None
    for gamma in ("gamma 0", "gamma 1"):
        assert all(best[gamma] <= row[f"equation 9, {gamma}"] for row in study.spending(setting))


def test_the_paper_s_budget_stands_beside_the_exact_one(tmp_path: Path) -> None:
    printed = run(tmp_path, "--users", "500", "--tasks", "20", "--rows", "2000")
    assert "beta (Remark 3.4), exact │ 0.03593" in printed
    assert "beta that suffices (below Theorem 3.3) │ 0.01086" in printed
    assert "epsilon of the exact beta by Renyi's conversion │ 1.322" in printed


def test_a_graph_as_the_paper_assumes_it() -> None:
    sizes = np.array([1.0, 50.0, 400.0])
    graph = simulate_graph(sizes, 400, seed=3)
    np.testing.assert_array_equal(graph.task_sizes(), sizes)
    # A user is in the second task with probability 1/8, also if it is in the first.
    shared = [
        len(np.intersect1d(g.user[g.task == 0], g.user[g.task == 1]))
        for g in (simulate_graph(sizes, 400, seed) for seed in range(400))
    ]
    assert abs(np.mean(shared) - 1 / 8) < 4 * math.sqrt(1 / 8 * 7 / 8 / 400)  # fails once in 15,000
