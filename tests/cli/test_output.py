"""What all commands share: one JSON object that is documented, silence, and exit codes."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from apportion.cli import app
from tests.cli.test_recommend import interactions

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/json.md"


def documented() -> dict[str, set[str]]:
    """The fields of each command on the page."""
    found: dict[str, set[str]] = {}
    for part in PAGE.read_text().split("\n## ")[1:]:
        heading, _, text = part.partition("\n")
        cells = re.findall(r"^\| (`.*?) \| .* \|$", text, re.MULTILINE)
        fields = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
        for command in re.findall(r"`apportion ([a-z -]+)`", heading):
            found[command] = fields
    return found


def commands() -> dict[str, Any]:
    """All commands by their names."""
    root = typer.main.get_command(app)
    found = {}
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        for inner, each in getattr(command, "commands", {"": command}).items():
            found[f"{name} {inner}".strip()] = each
    return found


def test_every_command_has_the_shared_options_and_its_fields_on_the_page() -> None:
    found = commands()
    assert set(found) == set(documented())
    for name, command in found.items():
        options = {each.name for each in command.params}
        assert {"json", "quiet"} <= options, name
        assert ("config" in options) == (name in ("fit", "fit-tasks", "prepare", "evaluate")), name


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("output")
    interactions().write_csv(folder / "ratings.csv")
    return folder


# In this order: some need what those before them made.
RUNS = [
    "plan --rating-range 1 5",
    "plan --rating-range 1 5 --users 500 --items 40 --rows 8000",
    "plan --rating-range 1 5 --users 500 --items 40 --rows 8000 --target-rmse 1.05",
    "plan --implicit --users 3000 --items 400 --rows 60000 --target-recall 0.19 --recall-range 0.18 0.37",
    "budget create budget.db --epsilon 20 --delta 1e-5",
    "prepare ratings.csv --rating-range 1 5 --items public --budget budget.db --out first.json",
    "fit ratings.csv --rating-range 1 5 --items public --budget budget.db --factors 2 --sweeps 1 --out model",
    "evaluate model ratings.csv --test test.csv",
    "recommend model --history 1=5,77=2",
    "recommend model --histories ratings.csv --out lists.csv",
    "similar model 1",
    "report model --verify",
    "budget show budget.db",
    "budget reserve budget.db --epsilon 0.1 --delta 1e-6",
    "budget history budget.db",
    "data list",
    "data simulate --users 50 --items 10 --rows 300 --out simulated.csv",
    "data summary ratings.csv",
    "data split simulated.csv --csv --out parts",
    "plan-tasks --features 2 --users 300 --tasks 5 --tasks-per-user 2",
    "fit-tasks ratings.csv --task item --model classifier --feature rating=1:5 --tasks public --out tasks",
    "predict-tasks tasks ratings.csv --out predicted.csv",
    "theory --users 1000 --tasks 20 --rows 2000 --out theory",
    "doctor",
    "audit --quick --estimator ridge --runs 40",
    "reproduce synthetic --seeds 1 --epsilon 2 --skew 1 --users 200 --out synthetic",
    "reproduce gains --seeds 1 --epsilon 2 --skew 1 --users 200 --out gains",
]


def call(words: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(folder)
    return CliRunner().invoke(app, words, catch_exceptions=False)


@pytest.fixture(scope="module")
def objects(here: Path) -> dict[str, list[dict[str, Any]]]:
    """What every run prints with --json, by command."""
    names = sorted(commands(), key=len, reverse=True)
    frame = interactions()
    frame.head(8000).write_csv(here / "ratings.csv")
    frame.tail(1000).write_csv(here / "test.csv")
    found: dict[str, list[dict[str, Any]]] = {}
    with pytest.MonkeyPatch.context() as patch:
        for line in RUNS:
            result = call([*line.split(), "--json"], here, patch)
            assert result.exit_code == 0, (line, result.output)
            name = next(name for name in names if line.startswith(name))
            found.setdefault(name, []).append(json.loads(result.stdout))
            assert "wrote" not in result.stderr
    return found


def test_one_object_with_documented_fields(objects: dict[str, list[dict[str, Any]]]) -> None:
    fields = documented()
    for name, found in objects.items():
        for each in found:
            assert set(each) <= fields[name], name
    for name in ("plan", "prepare", "fit", "recommend", "similar", "theory", "doctor"):
        assert set().union(*objects[name]) == fields[name], name


@pytest.mark.parametrize("line", ["plan --implicit", "doctor", "similar model 1", "data list"])
def test_quiet_prints_nothing(
    line: str, here: Path, objects: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = call([*line.split(), "--quiet"], here, monkeypatch)
    assert (result.exit_code, result.output) == (0, "")
    result = call([*line.split(), "-q", "--json"], here, monkeypatch)
    assert json.loads(result.stdout)
    assert result.stderr == ""


def test_where_nobody_watches_standard_error_is_empty(here: Path, objects: object) -> None:
    command = [sys.executable, "-c", "from apportion.cli import main; main()"]
    words = [
        "fit",
        "ratings.csv",
        "--items",
        "public",
        "--not-private",
        "--factors",
        "2",
        "--sweeps",
        "1",
        "--out",
        "exact",
    ]
    result = subprocess.run([*command, *words], cwd=here, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "NOT PRIVATE" in result.stdout
    assert "plan" not in result.stdout
    assert "training" not in result.stderr
    assert "Traceback" not in result.stderr
