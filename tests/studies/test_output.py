"""Figures need matplotlib, which not everybody has: nothing else does, and what does says so at once."""

import subprocess
import sys
from pathlib import Path

import pytest

# matplotlib cannot be found, as where it is not installed.
WITHOUT = """
import sys
sys.modules["matplotlib"] = None
from apportion.cli import main
main()
"""
SENTENCE = "pictures need matplotlib; run: pip install 'apportion[figures]'"


def without(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize(
    "line",
    [
        "reproduce synthetic",
        "reproduce all --simulate ml-10m",
        "theory --users 100 --tasks 5 --rows 200",
        "audit --quick --output audit.md",
    ],
)
def test_what_draws_says_what_to_install(line: str, tmp_path: Path) -> None:
    result = without(*line.split(), folder=tmp_path)
    assert result.returncode == 1
    assert SENTENCE in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_draw_needs_none(tmp_path: Path) -> None:
    for line in ("plan --implicit", "data list", "doctor"):
        result = without(*line.split(), folder=tmp_path)
        assert (result.returncode, result.stderr) == (0, "")
