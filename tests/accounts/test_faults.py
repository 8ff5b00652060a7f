"""Every call that writes, syncs or renames fails once, and the power fails after every one of them.

Budgets and checkpoints are whole afterwards, count all that has left, and show nothing a second time with
other noise. ``make audit`` walks through all calls; the short form through some.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.accounts.faults import disk, trainings

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler"
)


def run(folder: Path, *jobs: str) -> list[dict[str, Any]]:
    """What each job found."""
    library = disk.build(folder)
    alone = {"APPORTION_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, trainings.__file__, str(folder), *jobs],
        env={**os.environ, **alone, "LD_PRELOAD": str(library)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return [{**json.loads(line), "errors": result.stderr} for line in result.stdout.splitlines()]


def test_whatever_fails_nothing_that_left_is_lost(tmp_path: Path) -> None:
    failed, failed_going, lost, lost_going, *noticed = run(
        tmp_path, "fail:budget:1:17", "fail:checkpoint:1:41", "lose:budget:0:11", "lose:checkpoint:3:37",
        "fail:budget:1:3:errors ignored", "lose:budget:0:1:unsynced -wal",
    )  # fmt: skip
    assert failed["cases"] > 40, failed
    # Either an error of ours, or all was well in spite of it.
    assert set(failed["endings"]) == {"BudgetFileError, -", "done, -"}
    assert failed_going["cases"] > 15, failed_going
    assert {ending.split(", ")[1] for ending in failed_going["endings"]} == {"finished"}
    assert lost["cases"] > 130, lost
    assert lost_going["endings"] == {"finished": lost_going["cases"]}
    assert lost_going["cases"] > 30
    # SQLite and Python are both heard, and what is planted is noticed.
    assert lost_going["kinds"].keys() >= {"write", "sync", "create", "unlink", "rename", "cut"}
    assert ["wrong" in found for found in noticed] == [True, True], noticed


@pytest.mark.slow
def test_every_call_fails_once_and_the_power_after_each(tmp_path: Path) -> None:
    found = run(
        tmp_path, "fail:budget:1:1", "fail:checkpoint:1:1", "lose:budget:0:1", "lose:checkpoint:0:1"
    )
    assert [each.get("wrong") for each in found] == [None] * 4, found
    cases = [each["cases"] for each in found]
    print("cases of failing calls and of power losses:", cases)
    assert all(many >= few for many, few in zip(cases, (700, 700, 1500, 1500), strict=True)), cases
