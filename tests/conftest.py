"""What all tests share: no test is timed, and the number of fuzz cases is told at the end."""

import pytest
from hypothesis import settings

# A slow or busy machine is no mistake.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


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
