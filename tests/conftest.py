"""What all tests share: no test is timed, and the number of fuzz cases is told at the end."""

import os
import shutil
import tempfile

import pytest
from hypothesis import settings

# A slow or busy machine is no mistake.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


_STATE = "XDG_STATE_HOME"


def pytest_configure(config: pytest.Config) -> None:
    """Checkpoints that nobody gave a place lie among the files of this run."""
    os.environ[_STATE] = tempfile.mkdtemp(prefix="apportion-tests-")
    config.add_cleanup(lambda: shutil.rmtree(os.environ[_STATE], ignore_errors=True))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Add up what the tests of tests/fuzz recorded, also from several processes."""
    cases = sum(
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "fuzz_cases" and report.when == "teardown"
    )
    if cases:
        terminalreporter.write_line(f"fuzz cases: {cases:,}")
