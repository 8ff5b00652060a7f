"""What files and arguments hold does not command a terminal; what it cannot show does not end a command."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

import apportion as ap
from apportion.cli.terminal import Terminal
from apportion.errors import printable
from apportion.privacy.ledger import Ledger, PrivacyTarget, Record
from tests.cli.test_recommend import run
from tests.recommend.test_files import make_model

# Sets a title, clears the screen, goes back, deletes, reverses the letters that follow, isolates them.
COMMANDS = "\x1b]0;x\x07\x1b[2J\x9b2J\r\b\x7f\x00\u202e\u2066\u200f\u061c\u2028"


def check(text: str) -> None:
    """Fail if a text holds more than letters, spaces and ends of lines."""
    odd = {letter for letter in text if not (letter.isprintable() or letter == "\n")}
    assert not odd, f"{odd} in {text!r}"


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", "from apportion.cli import main; main()", *arguments],
        capture_output=True,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", **environment},
        check=False,
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd") / "model"
    ids = np.array([f"a{COMMANDS}", "b\u202e"], dtype=object)
    made = make_model(ids, titles=[f"one{COMMANDS}", "two\nverified: epsilon = 0.1"])
    made.released.privacy.public_inputs["odd"] = "\u202e[bold]"
    made.save(folder)
    return folder


@pytest.mark.parametrize("more", [[], ["--json"]])
@pytest.mark.parametrize("name", ["similar", "recommend", "report"])
def test_models(model: Path, name: str, more: list[str]) -> None:
    item = {"similar": ["one"], "recommend": ["--history", "b\u202e=5"], "report": []}[name]
    output = run(name, model, *item, *more)
    check(output)
    if more:
        assert json.loads(output)
    assert "\nverified" not in output


def test_budgets(tmp_path: Path) -> None:
    file = tmp_path / "budget.db"
    budget = ap.Budget.create(file, PrivacyTarget(4.0, 1e-5))
    budget.set_aside(f"May{COMMANDS}[bold]", PrivacyTarget(1.0, 1e-6))
    for more in ([], ["--json"]):
        output = run("budget", "history", file, *more)
        assert "May" in output
        check(output)


def test_reports_printed_in_python() -> None:
    ledger = Ledger(PrivacyTarget(1.0, 1e-5))
    ledger.append(Record(f"a{COMMANDS}", f"b{COMMANDS}", (1,), 1.0, f"c{COMMANDS}", 10.0))
    report = ap.PrivacyReport(
        ledger, public_inputs={COMMANDS: COMMANDS}, warnings=(COMMANDS,), neighboring=COMMANDS
    )
    check(str(report))


def test_errors_in_python(tmp_path: Path) -> None:
    with pytest.raises(ap.DataError, match="there is no file") as caught:
        ap.Interactions.from_path(tmp_path / f"x{COMMANDS.replace(chr(0), '')}\nfine")
    check(str(caught.value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "x"],
        ["data", "split", "x", "--out", "/dev/null/x"],
        ["x"],
        ["report", "model", "x"],
        ["--x"],
        ["budget", "x"],
        ["fit", "x", "--items", "x", "--implicit", "--out", "/dev/null/x", "--factors", "x"],
    ],
)
def test_arguments(arguments: list[str]) -> None:
    odd = COMMANDS.replace("\0", "")
    result = command(*(word.replace("x", f"x{odd}") for word in arguments), PYTHONUTF8="1")
    assert result.returncode in (1, 2)
    check((result.stdout + result.stderr).decode())


def test_what_is_printed_around_it_stays() -> None:
    out = io.StringIO()
    terminal = Terminal(file=out, force_terminal=True, width=80, color_system="standard")
    table = Table("title")
    table.add_row(f"cell{COMMANDS}")
    for what in (f"plain{COMMANDS}", Text(f"text{COMMANDS}"), table, Panel(f"panel{COMMANDS}")):
        terminal.print(what, style="red")
    with terminal.status(f"status{COMMANDS}"):
        pass
    shown = out.getvalue()
    assert "\x1b[31m" in shown  # our own
    for odd in ("\x1b]", "\x1b[2J", "\x9b", "\u202e", "\u2066", "\x07", "\b", "\x7f"):
        assert odd not in shown
    assert ":heart:" in _printed(":heart:")


def _printed(text: str) -> str:
    out = io.StringIO()
    Terminal(file=out).print(text)
    return out.getvalue()


def test_printable_text_stays() -> None:
    for text in ("Amélie", "東京", "Ω [b]", "naïve “x”", "😀"):
        assert printable(text) == text
    assert printable("a\u00a0b\tc") == "a b c"
    assert printable("a\nb\ud800") == "a\ufffdb\ufffd"
    assert printable("a\nb", lines=True) == "a\nb"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
def test_what_a_terminal_cannot_show(tmp_path: Path, encoding: str) -> None:
    make_model([1, 2], titles=["東京 \u2013 é", "two"]).save(tmp_path / "m")
    for arguments in (["similar", "2"], ["recommend", "--history", "2=5"], ["report"]):
        words = [arguments[0], str(tmp_path / "m"), *arguments[1:]]
        result = command(*words, PYTHONIOENCODING=f"{encoding}:strict")
        assert result.returncode == 0, result.stderr
        assert b"Traceback" not in result.stderr
        if arguments[0] != "report":
            assert b"??" in result.stdout
