"""The shell examples of the README and of docs/ run as they stand, in a folder that has what they name."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import apportion as ap
from apportion.cli import app
from tests.commands import lines_of, unknown
from tests.test_docs import PAGES, ROOT

# How lines begin that are not run here, and why; their options are checked all the same.
NOT_RUN = {
    "make": "builds, tests or attacks everything; that there is such a target is checked",
    "pip install": "needs the network",
    "curl": "asks a server: tests/recommend/test_onnx.py does",
    "apportion audit": "takes minutes: tests/cli/test_audit.py",
    "apportion data simulate --rows 1000000": "needs Spark: tests/engine/spark/test_commands.py",
    "apportion fit events --engine spark": "needs Spark: tests/engine/spark/test_commands.py",
    "venv-pack": "packs some hundred megabytes for a cluster",
    "export PYSPARK_DRIVER_PYTHON=python": "for a cluster",
    "spark-submit": "needs a cluster",
    "python -m tests.mutants.run": "takes hours; that there is such a module is checked",
}
SERVES = ["apportion", "explore", "model"]  # until it is interrupted: tests/explore/test_page.py


# Python that needs what not everybody has, and the test that runs it.
PY = {
    "serve.md": ["tests/recommend/test_onnx.py"],
    "spark.md": ["tests/engine/spark/test_how_to.py"],
}


def fenced(page: Path) -> list[tuple[str, str]]:
    """What is between fences on a page: its kind, and the text."""
    return re.findall(r"^ *```([^\n]+)\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE)


def blocks(page: Path, kind: str = "sh") -> list[str]:
    return [text for name, text in fenced(page) if name == kind]


SHELL = [page for page in PAGES if blocks(page)]
LINES = [words for page in SHELL for block in blocks(page) for words in lines_of(block)]


def reason(words: list[str]) -> str | None:
    """Why a line is not run, if it is not."""
    if words == SERVES:
        return "serves"
    return next(
        (why for start, why in NOT_RUN.items() if f"{shlex.join(words)} ".startswith(f"{start} ")),
        None,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ratings and stays in hospital, whole and in parts, what there is of both, and a model."""
    path = tmp_path_factory.mktemp("shell")
    ratings = ap.simulate_interactions(users=400, items=20, rows=6000, seed=1)
    train, test = ratings.split((0.8, 0.2))
    for name, data in (("ratings", ratings), ("train", train), ("test", test)):
        data.to_frame().write_csv(path / f"{name}.csv")
    (path / "items.txt").write_text("\n".join(map(str, range(20))))
    patients = range(300)
    pl.DataFrame(
        {
            "patient": patients,
            "ward": [f"ward {each % 5}" for each in patients],
            "age": [20 + each % 70 for each in patients],
            "pulse": [60 + each % 50 for each in patients],
            "stay": [1 + each % 9 for each in patients],
        }
    ).write_csv(path / "visits.csv")
    (path / "wards.txt").write_text("\n".join(f"ward {each}" for each in range(5)))
    model = ap.MatrixFactorization(2, 1, epsilon=5.0).fit(ratings)
    model.save(path / "model")
    (path / "model" / "training.toml").write_text(
        'data = "ratings.csv"\nrating-range = [1, 5]\nitems = "items.txt"\nout = "model"\n'
    )
    return path


def run(words: list[str]) -> tuple[int, str]:
    """The exit code of a line, and what it printed."""
    output = None
    if ">" in words:
        *words, _, output = words
    if (
        words[0] == "apportion" and words[1][0] != "-"
    ):  # here: a process takes most of a second to begin
        result = CliRunner().invoke(app, words[1:])
        code, printed, said = (
            result.exit_code,
            result.stdout,
            f"{result.stderr}{result.exception or ''}",
        )
    else:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            words, capture_output=True, text=True, env={**os.environ, "PATH": path}
        )
        code, printed, said = done.returncode, done.stdout, done.stderr
    if output is not None:
        Path(output).write_text(printed)
    return code, printed + said


@pytest.mark.parametrize("page", SHELL, ids=lambda page: str(page.relative_to(ROOT)))
def test_shell_examples(
    page: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [words for block in blocks(page) for words in lines_of(block) if not reason(words)]
    for words in lines:
        if words[0] != "apportion" and not shutil.which(words[0]):
            pytest.skip(f"there is no {words[0]}")
    here = tmp_path / "here"
    shutil.copytree(folder, here)
    if any("--out model" in shlex.join(words) for words in lines):
        shutil.rmtree(here / "model")  # which the page trains
    monkeypatch.chdir(here)
    for text in blocks(page, "toml"):
        Path(text.partition("\n")[0].removeprefix("# ")).write_text(text)
    for words in lines:
        code, said = run(words)
        assert code == 0, f"{shlex.join(words)}: {said}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_code_is_left_out(page: Path) -> None:
    """Python runs in test_docs.py, lines for the shell and what they read here; ``py`` where it says so."""
    kinds = {kind for kind, _ in fenced(page)}
    known = {"python", "{code-cell} python", "sh", "toml", "text", "{toctree}", "{eval-rst}"}
    for test in PY.get(page.name, ()):
        assert page.name in (ROOT / test).read_text()
        known.add("py")
    assert kinds <= known
    assert "toml" not in kinds or "sh" in kinds


@pytest.mark.parametrize("words", LINES, ids=shlex.join)
def test_commands_and_options_of_shell_examples_exist(words: list[str]) -> None:
    if words[0] == "apportion":
        assert not unknown(words)
    if words[0] == "make":
        assert f"\n{words[1]}:" in (ROOT / "Makefile").read_text()
    if words[:2] == ["python", "-m"]:
        assert importlib.util.find_spec(words[2])


def test_every_reason_has_its_line() -> None:
    said = {reason(words) for words in LINES}
    assert set(NOT_RUN.values()) <= said, "a reason for a line that is on no page"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_sentences_exist(page: Path) -> None:
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for code in re.findall(r"`(apportion [a-z][^`]*)`", text):
        assert not unknown(code.split()), code
