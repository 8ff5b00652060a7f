"""``apportion audit``, as a user runs it."""

import json
from pathlib import Path

import pytest

from tests.cli.test_commands import apportion

SHORT = ["audit", "--estimator", "ridge-per-task", "--runs", "40", "--quick"]


def test_table_and_page(tmp_path: Path) -> None:
    result = apportion(*SHORT, "--output", "audit.html", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    for piece in ("statistics.b", "all releases", "whole fit", "PASS: no claim was refuted"):
        assert piece in result.stdout
    page = (tmp_path / "audit.html").read_text()
    assert page.count("<svg") == 1
    assert "statistics.b" in page


def test_json_and_markdown(tmp_path: Path) -> None:
    result = apportion(*SHORT, "--json", "--output", "here/audit.md", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert (report["passed"], report["runs"], report["epsilon"]) == (True, 40, 10.0)
    text = (tmp_path / "here" / "audit.md").read_text()
    assert "(audit.svg)" in text
    assert (tmp_path / "here" / "audit.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--estimator", "nothing"], 2, "Invalid value for '--estimator'"),
        (["--quick", "--long"], 1, "exclude each other"),
        (["--runs", "3"], 2, "Invalid value for '--runs'"),
        (["--epsilon", "inf"], 1, "nothing to audit"),
        (["--output", "audit.pdf"], 1, ".html or .md"),
    ],
)
def test_mistakes(arguments: list[str], code: int, message: str, tmp_path: Path) -> None:
    result = apportion("audit", *arguments, cwd=tmp_path)
    assert result.returncode == code
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == []
