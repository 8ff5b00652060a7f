"""Progress: shown to who watches a terminal or a notebook, after a second, and in no pipe or log."""

import os
import pty
import select
import subprocess
import sys
import time
from typing import Any

import pytest

import apportion as ap
from apportion.errors import ParameterError
from apportion.progress import watched

SLOW = """
import time
from apportion.progress import watched
with watched("training", {wanted}) as told:
    for step in range(4):
        told(step, 4)
        time.sleep({rest})
"""


def on_terminal(code: str) -> str:
    """What a terminal shows of the error stream of this program."""
    theirs, ours = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen([sys.executable, "-c", code], stderr=ours, env=environment) as process:
        os.close(ours)
        shown, end = b"", time.monotonic() + 60
        while time.monotonic() < end:
            if select.select([theirs], [], [], 0.1)[0]:
                try:
                    piece = os.read(theirs, 4096)
                except OSError:  # the other end is closed
                    break
                if not piece:
                    break
                shown += piece
            elif process.poll() is not None:
                break
    os.close(theirs)
    assert process.returncode == 0
    return shown.decode()


def in_pipe(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return done.stdout + done.stderr


def test_a_terminal_shows_a_bar_after_a_second() -> None:
    shown = on_terminal(SLOW.format(wanted=None, rest=0.6))
    assert "training" in shown
    assert "3/4" in shown
    assert on_terminal(SLOW.format(wanted=None, rest=0.01)) == ""
    assert on_terminal(SLOW.format(wanted=False, rest=0.4)) == ""


def test_a_pipe_and_a_log_show_nothing_unless_asked() -> None:
    # Colors that are forced upon programs make no terminal of a pipe.
    assert in_pipe(SLOW.format(wanted=None, rest=0.4), FORCE_COLOR="1") == ""
    assert "training" in in_pipe(SLOW.format(wanted=True, rest=0.6))


def test_every_estimator_tells_its_steps() -> None:
    tasks = ap.simulate_tasks(users=200, tasks=4, tasks_per_user=2)
    data = ap.simulate_interactions(users=200, items=10, rows=1500)
    cases: list[tuple[Any, Any, int]] = [
        (ap.MultiTaskRidge(), tasks, 5),
        (ap.MultiTaskRidge(statistics="shared"), tasks, 3),
        (ap.MultiTaskDescent(steps=7), tasks, 7),
        (ap.MultiTaskClassifier(steps=3), tasks, 3),
        (ap.MatrixFactorization(2, 3), data, 3),
    ]
    for model, rows, steps in cases:
        told: list[tuple[int, int]] = []
        model.fit(rows, progress=lambda done, total, told=told: told.append((done, total)))
        assert {total for _, total in told} == {steps}, model
        assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_on_sweep_is_told_besides() -> None:
    data = ap.simulate_interactions(users=200, items=10, rows=1500)
    one: list[int] = []
    other: list[int] = []
    ap.MatrixFactorization(2, 2).fit(
        data, lambda done, _: one.append(done), progress=lambda done, _: other.append(done)
    )
    assert one == other == [1, 2]


def test_what_is_no_answer_is_refused() -> None:
    with (
        pytest.raises(ParameterError, match="progress must be True, False or a function"),
        watched(
            "training",
            "yes",
        ),
    ):
        pass
