"""``apportion budget`` and ``--budget``, as a user runs them."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from apportion.accounts.budget import Budget
from apportion.errors import BudgetExceededError, BudgetFileError, ParameterError
from apportion.privacy import PrivacyTarget
from tests.cli.test_commands import apportion
from tests.cli.test_recommend import interactions, run

QUICK = ["--rating-range", 1, 5, "--items", "public", "--factors", 2, "--sweeps", 1]


def test_create_show_reserve_and_history(tmp_path: Path) -> None:
    budget = tmp_path / "budget.db"
    output = run("budget", "create", budget, "--epsilon", 2, "--delta", 1e-5)
    assert "epsilon = 2 at delta = 1e-05" in output
    run("budget", "reserve", budget, "--epsilon", 1, "--delta", 1e-5, "--what", "in [May]")
    output = run("budget", "show", budget)
    assert "counted  epsilon = 1, 1 trainings, of which 0 have not ended" in output
    values = json.loads(run("budget", "show", budget, "--json"))
    assert values["counted"] == pytest.approx(1.0)
    assert values["left"] == pytest.approx(Budget(budget).left)
    assert "in [May]" in run("budget", "history", budget)
    [training] = json.loads(run("budget", "history", budget, "--json"))["trainings"]
    assert (training["what"], training["epsilon"], training["releases"]) == ("in [May]", 1.0, [])
    with pytest.raises(BudgetExceededError, match="Nothing was released"):
        run("budget", "reserve", budget, "--epsilon", 1.9, "--delta", 1e-5)
    with pytest.raises(ParameterError, match="exists already"):
        run("budget", "create", budget, "--epsilon", 2, "--delta", 1e-5)


def test_prepare_and_fit_draw_from_one_budget(tmp_path: Path) -> None:
    data, budget, first = (tmp_path / name for name in ("ratings.csv", "budget.db", "first.json"))
    interactions().write_csv(data)
    run("budget", "create", budget, "--epsilon", 6, "--delta", 1e-5)
    paid = [*QUICK, "--epsilon", 5, "--budget", budget]
    run("prepare", data, *paid, "--out", first)
    spent = Budget(budget).epsilon
    assert 0 < spent < 5
    run("fit", data, *paid, "--preparation", first, "--out", tmp_path / "model")
    assert Budget(budget).epsilon == pytest.approx(5.0)
    with pytest.raises(BudgetExceededError, match="would pass the budget"):
        run("fit", data, *paid, "--out", tmp_path / "second")
    assert not (tmp_path / "second").exists()
    running = Budget(budget).reserve("other", Budget(budget).history()[0].target.__class__(1, 1e-5))
    output = " ".join(run("budget", "history", budget).split())
    assert "no, running: counted in full" in output
    running.settle()


def test_what_does_not_go_with_a_budget(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("user,item,rating\n1,1,3\n")
    fit = ["fit", tmp_path / "r.csv", *QUICK, "--out", tmp_path / "m"]
    output = run(*fit, "--not-private", "--budget", tmp_path / "b.db", code=2)
    assert "does not go with --budget" in output
    with pytest.raises(BudgetFileError, match="there is no budget"):
        run(*fit, "--budget", tmp_path / "b.db")


def test_errors_end_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("text\n" * 1000)
    for words, message in (
        (["show", "none.db"], "there is no budget"),
        (["history", "none/budget.db"], "there is no folder"),
        (["show", "text.db"], "is not a budget"),
        (["create", "x.db", "--epsilon", "inf", "--delta", "1e-5"], "finite epsilon"),
        (["create", "x.db", "--epsilon", "-1", "--delta", "1e-5"], "epsilon must be"),
    ):
        result = apportion("budget", *words, cwd=tmp_path)
        assert (result.returncode, message in result.stderr) == (1, True), result.stderr
        assert result.stderr.count("\n") == 1
    assert not (tmp_path / "x.db").exists()


@pytest.mark.parametrize("kept", [True, False], ids=["resumable", "without a checkpoint"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_training_that_is_told_to_end_settles(tmp_path: Path, number: int, kept: bool) -> None:
    data, path = tmp_path / "ratings.csv", tmp_path / "budget.db"
    interactions().write_csv(data)
    budget = Budget.create(path, PrivacyTarget(6.0, 1e-5))
    words = ["fit", data, "--rating-range", 1, 5, "--items", "public", "--factors", 2, "--sweeps",
             20_000, "--epsilon", 5, "--budget", path, "--out", tmp_path / "m"]  # fmt: skip
    words += [] if kept else ["--no-checkpoint"]
    with subprocess.Popen(
        [sys.executable, "-m", "apportion", *map(str, words)], stderr=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None and not [one for one in budget.history() if one.releases]:
            time.sleep(0.05)
        assert budget.history()[0].ended is None
        process.send_signal(number)
        _, errors = process.communicate(timeout=300)
    assert process.returncode == (4 if kept else 128 + number), errors
    assert "spent before this: epsilon = " in errors
    assert "Traceback" not in errors
    [training] = budget.history()
    if kept:  # it may be resumed, so all of it stays reserved
        assert "resumes from where it was" in errors
        assert training.ended is None
        assert budget.epsilon == pytest.approx(5)
    else:
        assert training.ended is not None
        assert 0 < budget.epsilon < 5
    left = {one.name for one in tmp_path.iterdir() if one.suffix != ".lock"}
    assert left == {"budget.db", "ratings.csv"}


def test_close_ends_what_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    budget = Budget.create(path, PrivacyTarget(2.0, 1e-5))
    reservation = budget.reserve("killed", PrivacyTarget(1.0, 1e-5))
    token = reservation.token[:8]
    with pytest.raises(ParameterError, match="is running"):
        run("budget", "close", path, token)
    reservation.leave()
    assert token in run("budget", "history", path)
    [training] = json.loads(run("budget", "history", path, "--json"))["trainings"]
    assert training["state"] == "dead"
    assert "of which 0 have not ended" in run("budget", "close", path, token)
    assert budget.epsilon == 0
    other = budget.reserve("moved", PrivacyTarget(1.0, 1e-5))
    other.leave()
    moved = path.rename(tmp_path / "moved.db")
    assert "may count less" in " ".join(run("budget", "show", moved).split())
    with pytest.raises(ParameterError, match="cannot be known"):
        run("budget", "close", moved, other.token)
    assert json.loads(run("budget", "close", moved, other.token, "--unknown", "--json")) == {
        "epsilon": 2.0, "delta": 1e-5, "counted": 0.0, "left": pytest.approx(2.0), "trainings": 2,
        "not_ended": 0, "doubt": None, "last_hash": Budget(moved).last_hash,
    }  # fmt: skip


@pytest.mark.parametrize("command", ["create", "show", "reserve", "history", "close"])
def test_help(command: str) -> None:
    assert f"apportion budget {command} budget.db" in run("budget", command, "--help")
