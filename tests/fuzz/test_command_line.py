"""The command line: whatever the options, exit code 0, or 1 or 2 with a message; nothing half-written."""

import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import apportion as ap
from apportion import cli
from tests.fuzz.harness import OUTSIDE, RATING, USER, Fuzz, check_secrets, seeds, tree

WORDS = (
    "",
    "0",
    "1",
    "-1",
    "2",
    "nan",
    "inf",
    "-inf",
    "1e-5",
    "1e400",
    "x",
    "ratings.csv",
    "model",
    "none",
    "public",
    "private",
    "items.txt",
    ".",
    "/dev/null/x",
    "\u00e9",
    "[bold]",
    "budget.db",
    "--",
    "1=5",
    "1=5,2=9",
    "1,2",
    "=",
    ",",
    "a=b",
    "1=nan",
    "9" * 30,
    "ml-1m",
    "plan.json",
    "bad.csv",
    "bad.parquet",
    "out.csv",
    "ratings.parquet",
)
COMMANDS: dict[str, tuple[str, ...]] = {
    "fit": (
        "--out",
        "--epsilon",
        "--delta",
        "--rating-range",
        "--items",
        "--factors",
        "--sweeps",
        "--implicit",
        "--positives",
        "--top-share",
        "--titles",
        "--budget",
        "--not-private",
        "--preparation",
        "--allocation",
        "--k",
        "--solver",
        "--statistics",
        "--regularization",
        "--feature-bound",
        "--seed",
        "--data-set",
        "--user",
        "--overwrite",
        "--weight-exponent",
        "--intercept-share",
        "--outside",
    ),
    "plan": (
        "--epsilon",
        "--delta",
        "--rating-range",
        "--items",
        "--users",
        "--rows",
        "--implicit",
        "--factors",
    ),
    "prepare": (
        "--out",
        "--epsilon",
        "--delta",
        "--rating-range",
        "--items",
        "--implicit",
        "--budget",
        "--yes",
        "--factors",
    ),
    "evaluate": ("--test", "--hold-out", "--history", "-k", "--json", "--positives", "--data-set"),
    "recommend": ("--history", "--histories", "--out", "-k", "--json", "--item"),
    "similar": ("-k", "--by", "--json"),
    "report": ("--json", "--verify"),
    "budget": ("create", "show", "reserve", "history", "--epsilon", "--delta", "--what", "--json"),
    "data": (
        "list",
        "simulate",
        "split",
        "--out",
        "--like",
        "--users",
        "--items",
        "--rows",
        "--share",
        "--csv",
        "--seed",
    ),
}
FLAGS = {"--implicit", "--not-private", "--overwrite", "--json", "--verify", "--csv"}
# Starting points that work, to be changed in a place or two.
RIGHT = (
    "fit ratings.csv --rating-range 1 5 --items items.txt --epsilon 3 --factors 2 --sweeps 1 --out new",
    "fit ratings.parquet --implicit --items public --factors 2 --sweeps 1 --budget budget.db --out new",
    "plan ratings.csv --rating-range 1 5 --items public --out new.json",
    "evaluate model ratings.csv --test ratings.csv",
    "recommend model --history 1=5,2=1 -k 3",
    "recommend model --histories ratings.csv --out new.csv",
    "similar model 1 -k 2 --json",
    "report model --verify",
    "budget show budget.db",
    "budget create new.db --epsilon 1 --delta 1e-5",
    "budget reserve budget.db --epsilon 0.1 --delta 1e-5",
    "data split ratings.csv --out parts",
    "data simulate --users 20 --items 5 --rows 60 --out new.csv",
)
MADE = {"new", "new.json", "new.csv", "new.db", "parts", "out.csv", "x", "apportion-data"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("commands")
    rows = [f"{USER},{item % 6},{1 + item % 5}" for item in range(6)]
    rows += [
        f"u{user},{(user + step) % 6},{1 + (user * step) % 5}"
        for user in range(30)
        for step in (1, 2, 4)
    ]
    (folder / "ratings.csv").write_text("\n".join(["user,item,rating", *rows]))
    (folder / "bad.csv").write_text(f"user,item,rating\n{USER},1,{OUTSIDE}\n{USER},x,{RATING}z\n")
    (folder / "bad.parquet").write_bytes(b"PAR1" + bytes(50) + b"PAR1")
    (folder / "items.txt").write_text("\n".join(str(item) for item in range(6)))
    data = ap.Interactions.from_path(folder / "ratings.csv", items="public", rating_range=(1, 5))
    import polars as pl

    pl.read_csv(folder / "ratings.csv").write_parquet(folder / "ratings.parquet")
    model = ap.MatrixFactorization(factors=2, sweeps=1, epsilon=5.0, delta=1e-5)
    model.fit(data).save(folder / "model", {1: "[red]one"})
    (folder / "plan.json").write_text(model.prepare(data).to_json())
    ap.Budget.create(folder / "budget.db", ap.PrivacyTarget(2.0, 1e-5))
    return folder


def line(source: random.Random) -> list[str]:
    """A command line that works, with a place or two changed; or one that is all random."""
    if source.random() < 0.8:
        words = source.choice(RIGHT).split()
        for _ in range(source.choice((0, 1, 1, 2))):
            where = source.randrange(1, len(words) + 1)
            what = source.randrange(4)
            if what == 0:
                words[where:where] = option(source, words[0])
            elif what == 1 and where < len(words):
                del words[where]
            else:
                words[where : where + 1] = [source.choice(WORDS)]
        return words
    command = source.choice(tuple(COMMANDS))
    words = [command]
    for _ in range(source.randrange(5)):
        words += option(source, command) if source.random() < 0.6 else [source.choice(WORDS)]
    return words


def option(source: random.Random, command: str) -> list[str]:
    name = source.choice(COMMANDS[command])
    return [name] if name in FLAGS or not name.startswith("-") else [name, source.choice(WORDS)]


def too_large(words: list[str]) -> bool:
    """Simulating a known data set, or training with thousands of sweeps, is right and takes for ever."""
    sizes = {"--users", "--items", "--rows"}
    return words[:2] == ["data", "simulate"] and not sizes <= set(words)


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """The command line sets its own: those of the tests come back."""
    kept = {number: signal.getsignal(number) for number in signal.valid_signals()}
    yield
    for number, handler in kept.items():
        if handler is not None and signal.getsignal(number) != handler:
            signal.signal(number, handler)


def run(words: list[str]) -> int:
    try:
        cli.main(words)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_any_options(
    fuzz: Fuzz,
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    work = tmp_path / "work"
    for source in seeds(160):
        words = line(source)
        if too_large(words):
            continue
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(place, work)
        monkeypatch.chdir(work)
        before = set(tree(work))
        fuzz.cases += 1
        code = run(words)
        out, err = capfd.readouterr()
        told = f"{words}: {code}\n{out}{err}"
        assert code in (0, 1, 2), told
        assert "Traceback" not in out + err, told
        assert "panicked" not in err, told
        if code:
            assert err.strip() or "NOT VERIFIED" in out or "Usage" in out, told
            check_secrets(err)
            left = {name for name in set(tree(work)) - before if not name.startswith("budget.db-")}
            assert not left, f"left behind {left} by {told}"
        assert not any(".writing-" in name for name in tree(work)), told


@pytest.mark.parametrize("text", ["\ud800", "a\0b", "x" * 5000, "\x1b[31m"])
def test_odd_arguments(
    fuzz: Fuzz,
    place: Path,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(place)
    for words in (
        ["report", text],
        ["similar", "model", text],
        ["recommend", "model", "--history", text],
        ["budget", "show", text],
        ["fit", text, "--items", "public", "--rating-range", "1", "5", "--out", "new"],
        ["fit", "ratings.csv", "--items", text, "--rating-range", "1", "5", "--out", "new"],
        [
            "fit",
            "ratings.csv",
            "--user",
            text,
            "--items",
            "public",
            "--rating-range",
            "1",
            "5",
            "--out",
            "new",
        ],
        [
            "fit",
            "ratings.csv",
            "--items",
            "public",
            "--rating-range",
            "1",
            "5",
            "--out",
            text,
            "--epsilon",
            "0",
        ],
        ["data", "split", text, "--out", "parts"],
    ):
        fuzz.cases += 1
        assert run(words) in (1, 2), words
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
    assert not MADE & {path.name for path in place.iterdir()}
