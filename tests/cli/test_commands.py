"""The command line, as a user runs it."""

import json
import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from apportion.cli import app
from apportion.recommend.files import load
from apportion.version import __version__
from tests.commands import unknown


def apportion(
    *arguments: str, cwd: Path | None = None, answer: str | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from apportion.cli import main; main()", *arguments]
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env=environment, check=False, input=answer
    )


def test_version() -> None:
    result = apportion("--version")
    assert (result.returncode, result.stdout) == (0, f"apportion {__version__}\n")


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["demo", "--help"], ["reproduce", "--help"], ["reproduce", "synthetic", "-h"]],
)
def test_help(arguments: list[str]) -> None:
    result = apportion(*arguments)
    assert result.returncode == 0
    assert "Usage: apportion" in result.stdout
    if arguments[-2:] not in (["--help"], ["reproduce", "--help"]):
        assert "Examples" in result.stdout


@pytest.mark.parametrize("name", ["explore", "fit", "demo"])
def test_sentences_of_the_help_break_where_the_terminal_ends(name: str) -> None:
    said = apportion(name, "--help").stdout.partition("Examples")[0].splitlines()[2:]
    for line, following in pairwise(said):
        if line.strip() and following.strip():
            assert len(line.rstrip()) + 1 + len(following.split()[0]) > 98, line


@pytest.mark.parametrize("words", [["report"], ["data"], []])
def test_help_shows_no_value_for_what_takes_none(words: list[str]) -> None:
    said = apportion(*words, "--help").stdout
    assert "--help" in said
    assert "bool" not in said


@pytest.mark.parametrize("words", [["fit"], ["plan"], ["budget", "reserve"], ["fit-tasks"]])
def test_examples_of_the_help_can_be_copied(words: list[str]) -> None:
    narrow = {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}
    said = CliRunner().invoke(app, [*words, "--help"], env=narrow).output
    examples = said.partition("Examples")[2].partition("\u256d")[0]
    whole = re.sub(r" \\ *\n *", " ", examples)
    assert "\\" in examples
    assert "\\" not in whole
    assert not re.search(r"^ *-", whole, re.MULTILINE)
    for line in whole.splitlines():
        if line.split()[:1] == ["apportion"]:
            assert not unknown(shlex.split(line))


def test_shells_complete_commands_and_options() -> None:
    command = [sys.executable, "-c", "from apportion.cli import main; main()"]
    for line, place, expected in (
        ("apportion fi", "1", {"fit", "fit-tasks"}),
        ("apportion recommend --hist", "2", {"--history", "--histories"}),
        ("apportion fit x --engine c", "4", {"cpu"}),
    ):
        asked = {"_APPORTION_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": place}
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, **asked}, check=True
        )
        assert set(done.stdout.split()) == expected
    # The shell is named here: it would be found among the processes that a test has no part in.
    named = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = subprocess.run(
        [*command, "--show-completion", "bash"], capture_output=True, text=True, env=named
    )
    assert "complete -o default -F" in done.stdout


def test_demo(tmp_path: Path) -> None:
    result = apportion("demo", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    said = " ".join(result.stdout.split())  # lines end where the terminal does
    for piece in (
        "noisy averages",
        "not private",
        "rarest",
        "epsilon = 1 at delta = 1e-05",
        "and is recommended",
        "what a model without privacy would gain",
    ):
        assert piece in said
    folder = tmp_path / "apportion-results" / "demo"
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((folder / "privacy.json").read_text())["private"] is True
    assert "explorer.html in a browser" in said
    page = (folder / "explorer.html").read_text()
    for piece in (
        "invented films",
        "By popularity, at epsilon = 1",
        "noisy averages",
        "What this promises",
    ):
        assert piece in page
    titles = load(folder / "model").released.titles
    assert titles is not None
    assert len(set(titles.tolist())) == len(titles) == 500


def test_reproduce_synthetic(tmp_path: Path) -> None:
    arguments = ["--seeds", "2", "--epsilon", "2", "--skew", "1", "--users", "500", "--out", "here"]
    result = apportion("reproduce", "synthetic", *arguments, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""  # progress is for terminals
    assert "skew a = 1" in result.stdout
    assert (tmp_path / "here" / "synthetic.csv").exists()
    assert (tmp_path / "here" / "synthetic.png").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["demo", "--epsilon", "0"], 1, "epsilon must be a number of at least"),
        (["demo", "--epsilon", "-1"], 1, "epsilon must be a number of at least"),
        (["demo", "--epsilon", "nan"], 1, "epsilon must be a number of at least"),
        (["demo", "--delta", "2"], 1, "delta must be a number of at least"),
        (["demo", "--epsilon", "many"], 2, "Invalid value for '--epsilon'"),
        (["demo", "--nonsense"], 2, "No such option"),
        (["nonsense"], 2, "No such command"),
        (["reproduce", "synthetic", "--seeds", "0"], 2, "Invalid value for '--seeds'"),
        (["reproduce", "synthetic", "--skew", "-1"], 1, "skew must be a number of at least"),
        (["demo", "--out", "/dev/null/x"], 1, "/dev/null"),
    ],
)
def test_mistakes_end_in_one_message(
    arguments: list[str], code: int, message: str, tmp_path: Path
) -> None:
    result = apportion(*arguments, cwd=tmp_path)
    assert result.returncode == code
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_the_traceback() -> None:
    result = apportion("--debug", "demo", "--epsilon", "0")
    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert "ParameterError" in result.stderr


# Ctrl-C two seconds after the command begins, however long a busy machine takes to get there.
INTERRUPTED = """
import os, signal, threading
from apportion.cli import main
threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT)).start()
main()
"""


def test_an_interrupted_study_leaves_nothing_half_written(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    arguments = ["reproduce", "synthetic", "--seeds", "100000"]
    result = subprocess.run(
        [*command, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 130
    assert "interrupted" in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []
