"""The long form: all of this folder again, with many more cases."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TIMES = 12


@pytest.mark.slow
def test_many_more_cases(record_property: Callable[[str, object], None]) -> None:
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            str(Path(__file__).parent),
        ],
        env={**os.environ, "APPORTION_FUZZ": str(TIMES)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-5000:]
    found = re.search(r"fuzz cases: ([\d,]+)", result.stdout)
    assert found is not None
    record_property("fuzz_cases", int(found[1].replace(",", "")))
