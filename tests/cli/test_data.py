"""``apportion data``, as a user runs it; fetches go to a server that the test starts."""

import contextlib
import hashlib
import http.server
import json
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import apportion as ap
from apportion.cli import app
from apportion.cli.reading import Name
from apportion.data import SHAPES, datasets, simulate_interactions
from tests.cli.test_commands import apportion

ARCHIVE = bytes(range(256)) * 20_000  # 5 MB, in more than one block


class Server(http.server.ThreadingHTTPServer):
    """Serves ARCHIVE at any path but /missing.

    Attributes
        ranges: whether it understands Range.
        wrong_range: whether it answers a Range with another part than was asked for.
        breaks_after: bytes after which it breaks off, or None.
        asked: the Range of each request, "" if none.
    """

    ranges = True
    wrong_range = False
    breaks_after: int | None = None

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/archive.zip"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        wanted = self.headers.get("Range", "")
        server.asked.append(wanted)
        if self.path == "/missing":
            self.send_error(404)
            return
        found = re.fullmatch(r"bytes=(\d+)-", wanted) if server.ranges else None
        start = int(found[1]) if found else 0
        if start >= len(ARCHIVE):
            self.send_error(416)
            return
        if found and server.wrong_range:
            start = 1
        body = ARCHIVE[start:]
        self.send_response(206 if found else 200)
        self.send_header("Content-Length", str(len(body)))
        if found:
            self.send_header("Content-Range", f"bytes {start}-{len(ARCHIVE) - 1}/{len(ARCHIVE)}")
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # the client may give up first
            self.wfile.write(body if server.breaks_after is None else body[: server.breaks_after])

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _checksum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ml-1m have the checksum of ARCHIVE."""
    md5 = hashlib.md5(ARCHIVE).hexdigest()
    changed = replace(datasets.DATA_SETS["ml-1m"], md5=md5)
    monkeypatch.setitem(datasets.DATA_SETS, "ml-1m", changed)


def fetch(url: str, out: Path, *, answer: str | None = None, name: str = "ml-1m") -> str:
    """Fetch, and return what is printed. Errors that the command line would print are raised."""
    arguments = ["data", "fetch", name, "--url", url, "--out", str(out)]
    arguments += ["--yes"] if answer is None else []
    result = CliRunner().invoke(app, arguments, input=answer)
    if isinstance(result.exception, ap.ApportionError):
        raise result.exception
    return result.output


def test_a_fetch(server: Server, tmp_path: Path) -> None:
    output = fetch(server.url, tmp_path / "new" / "folder")
    assert "MovieLens data is for research" in output
    assert "wrote" in output
    assert (tmp_path / "new" / "folder" / "ml-1m.zip").read_bytes() == ARCHIVE
    assert server.asked == [""]
    fetch(server.url, tmp_path / "new" / "folder")
    assert server.asked == [""]  # it is there already


@pytest.mark.parametrize(("answer", "requests"), [("y\n", 1), ("n\n", 0), ("", 0)])
def test_the_license_has_to_be_accepted(
    server: Server, tmp_path: Path, answer: str, requests: int
) -> None:
    output = fetch(server.url, tmp_path, answer=answer)
    assert "MovieLens data is for research" in output
    assert len(server.asked) == requests
    assert (tmp_path / "ml-1m.zip").exists() == bool(requests)


def test_an_interrupted_fetch_goes_on(server: Server, tmp_path: Path) -> None:
    server.breaks_after = 3_000_000
    with pytest.raises(ap.DataError, match="broke off after 3,000,000 of 5,120,000 bytes"):
        fetch(server.url, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["ml-1m.zip.part"]
    server.breaks_after = None
    fetch(server.url, tmp_path)
    assert server.asked == ["", "bytes=3000000-"]
    assert [path.name for path in tmp_path.iterdir()] == ["ml-1m.zip"]
    assert (tmp_path / "ml-1m.zip").read_bytes() == ARCHIVE


@pytest.mark.parametrize("kind", ["ranges", "wrong_range"])
def test_a_server_that_cannot_go_on_starts_again(server: Server, tmp_path: Path, kind: str) -> None:
    setattr(server, kind, kind == "wrong_range")
    (tmp_path / "ml-1m.zip.part").write_bytes(b"x" * 1000)
    fetch(server.url, tmp_path)
    assert server.asked[0] == "bytes=1000-"
    assert (tmp_path / "ml-1m.zip").read_bytes() == ARCHIVE


@pytest.mark.parametrize("more", [0, 10])
def test_a_part_as_long_as_the_archive_or_longer_starts_again(
    server: Server, tmp_path: Path, more: int
) -> None:
    (tmp_path / "ml-1m.zip.part").write_bytes(b"x" * (len(ARCHIVE) + more))
    fetch(server.url, tmp_path)
    assert (tmp_path / "ml-1m.zip").read_bytes() == ARCHIVE


def test_a_wrong_checksum_deletes_what_came(server: Server, tmp_path: Path) -> None:
    (tmp_path / "ml-1m.zip.part").write_bytes(b"x" * 1000)
    with pytest.raises(ap.DataError, match="wrong checksum and was deleted"):
        fetch(server.url, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_archive_without_a_published_checksum(server: Server, tmp_path: Path) -> None:
    assert "no published checksum" in fetch(server.url, tmp_path, name="msd")
    assert (tmp_path / "msd.zip").read_bytes() == ARCHIVE


def test_a_missing_page(server: Server, tmp_path: Path) -> None:
    with pytest.raises(ap.DataError, match="/missing answered 404 Not Found"):
        fetch(server.url.replace("archive.zip", "missing"), tmp_path)


def test_a_refused_connection(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/x.zip"
        with pytest.raises(ap.DataError, match=r"cannot reach http.*refused.*give another --url"):
            fetch(url, tmp_path)


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://127.0.0.1/x", "x.zip"])
def test_other_kinds_of_addresses(tmp_path: Path, url: str) -> None:
    with pytest.raises(ap.ParameterError, match="url must begin with http"):
        fetch(url, tmp_path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk(server: Server, tmp_path: Path) -> None:
    (tmp_path / "ml-1m.zip.part").symlink_to("/dev/full")
    with pytest.raises(ap.DataError, match=r"cannot write .*: No space left on device"):
        fetch(server.url, tmp_path)


def test_errors_end_in_one_line(server: Server, tmp_path: Path) -> None:
    url = server.url.replace("archive.zip", "missing")
    result = apportion("data", "fetch", "ml-1m", "--url", url, "--yes", cwd=tmp_path)
    assert result.returncode == 1
    assert "error: http://127.0.0.1" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("implicit", [False, True])
def test_simulating(tmp_path: Path, ending: str, implicit: bool) -> None:
    out = tmp_path / "new" / f"rows.{ending}"
    arguments = ["--like", "ml-100k", "--users", "50", "--items", "30", "--rows", "400"]
    arguments += ["--implicit"] * implicit
    result = CliRunner().invoke(app, ["data", "simulate", *arguments, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert list(out.parent.iterdir()) == [out]
    data = ap.Interactions.from_path(out, rating=None if implicit else "rating", items=30)
    assert (data.users, len(data.by_user.other)) == (50, 400)
    columns = (pl.read_csv if ending == "csv" else pl.read_parquet)(out).columns
    assert columns == ["user", "item", "rating"][: 2 if implicit else 3]


def test_simulating_is_repeatable(tmp_path: Path) -> None:
    files = [tmp_path / f"{n}.csv" for n in range(3)]
    for file, seed in zip(files, ("1", "1", "2"), strict=True):
        arguments = ["--users", "50", "--items", "30", "--rows", "400", "--seed", seed]
        CliRunner().invoke(app, ["data", "simulate", *arguments, "--out", str(file)])
    assert files[0].read_bytes() == files[1].read_bytes() != files[2].read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--out", "x.xlsx"], 2, "must end in .parquet or .csv"),
        (["--out", "x.csv", "--rows", "10"], 1, "rows must be a whole number of at least"),
        (["--out", "x.csv", "--like", "netflix"], 2, "Invalid value for '--like'"),
        (["--out", "/dev/null/x.csv"], 1, "/dev/null"),
        ([], 2, "Missing option '--out'"),
    ],
)
def test_mistakes_in_simulating(
    tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    result = apportion("data", "simulate", *arguments, cwd=tmp_path)
    assert (result.returncode, message in result.stderr) == (code, True), result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_list() -> None:
    result = apportion("data", "list")
    assert result.returncode == 0
    for piece in ("ml-100k", "1,000,209", "136,677", "msd", "GroupLens"):
        assert piece in result.stdout


def test_the_names_agree() -> None:
    assert {name.value for name in Name} == set(datasets.DATA_SETS) == set(SHAPES)


@pytest.mark.parametrize("command", ["fetch", "simulate", "list"])
def test_help(command: str) -> None:
    result = apportion("data", command, "--help")
    assert result.returncode == 0
    assert "Examples" in result.stdout
    assert f"apportion data {command}" in result.stdout


@pytest.mark.parametrize("csv", [True, False])
def test_split_by_rows(tmp_path: Path, csv: bool) -> None:
    write_rows(tmp_path / "rows.csv")
    apportion_data(tmp_path, "split", "rows.csv", "--out", "parts", *(["--csv"] if csv else []))
    whole, train, test = read_parts(tmp_path, "train", "test", csv)
    assert len(train) + len(test) == len(whole)
    assert pl.concat([train, test]).sort("user", "item").equals(whole.sort("user", "item"))
    assert 0.15 < len(test) / len(whole) < 0.25
    assert len(set(train["user"]) & set(test["user"])) > 30  # of 60: rows are split, not users


def test_split_by_users(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.csv")
    apportion_data(tmp_path, "split", "rows.csv", "--users", "--share", "0.3", "--out", "parts")
    whole, train, others = read_parts(tmp_path, "train", "others", csv=False)
    assert pl.concat([train, others]).sort("user", "item").equals(whole.sort("user", "item"))
    assert not set(train["user"]) & set(others["user"])
    assert 0.1 < others["user"].n_unique() / whole["user"].n_unique() < 0.5


def test_split_replaces_nothing_unasked(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.csv")
    write_rows(tmp_path / "train.csv")
    before = (tmp_path / "train.csv").read_bytes()
    for source, options, message in (
        ("train.csv", ["--overwrite"], "is what is to be split"),
        ("rows.csv", [], "--overwrite replaces it"),
    ):
        arguments = [str(tmp_path / source), "--csv", "--out", str(tmp_path), *options]
        result = CliRunner().invoke(app, ["data", "split", *arguments])
        assert message in str(result.exception)
        assert (tmp_path / "train.csv").read_bytes() == before
        assert not (tmp_path / "test.csv").exists()
    arguments = [str(tmp_path / "rows.csv"), "--csv", "--out", str(tmp_path), "--overwrite"]
    assert CliRunner().invoke(app, ["data", "split", *arguments]).exit_code == 0
    assert (tmp_path / "train.csv").read_bytes() != before


def test_split_mistakes(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.csv")
    for arguments, message in (
        (["rows.csv", "--out", "parts", "--share", "1"], "between 0 and 1"),
        (["none.csv", "--out", "parts"], "there is no file or folder"),
        (["rows.csv", "--out", "parts", "--user", "who"], "no column 'who'"),
    ):
        result = CliRunner().invoke(app, ["data", "split", *at(tmp_path, arguments)])
        assert result.exit_code != 0
        assert message in (result.output + str(result.exception)).replace("\n", " ")
        assert not (tmp_path / "parts").exists()


def write_rows(path: Path) -> None:
    data = simulate_interactions(users=60, items=40, rows=1200)
    columns = {"user": data.user_of_row, "item": data.by_user.other, "rating": data.by_user.rating}
    pl.DataFrame(columns).write_csv(path)


def at(folder: Path, arguments: list[str]) -> list[str]:
    names = ("rows.csv", "none.csv", "parts")
    return [str(folder / name) if name in names else name for name in arguments]


def apportion_data(folder: Path, *arguments: str) -> None:
    result = CliRunner().invoke(app, ["data", *at(folder, list(arguments))])
    assert result.exit_code == 0, result.output


def read_parts(folder: Path, first: str, second: str, csv: bool) -> list[pl.DataFrame]:
    frames = [pl.read_csv(folder / "rows.csv")]
    for name in (first, second):
        path = folder / "parts" / f"{name}.{'csv' if csv else 'parquet'}"
        frames.append(pl.read_csv(path) if csv else pl.read_parquet(path))
    return [
        frame.with_columns(pl.col("user", "item").cast(pl.Int64), pl.col("rating").cast(pl.Float32))
        for frame in frames
    ]


def write_times(tmp_path: Path) -> None:
    frame = pl.DataFrame({
        "user": [1, 1, 1, 2, 2, 3], "item": [1, 2, 3, 1, 2, 1],
        "when": [f"2024-05-0{day}" for day in (1, 3, 2, 5, 4, 9)],
    })  # fmt: skip
    frame.write_csv(tmp_path / "rows.csv", separator=";")


@pytest.mark.parametrize(
    ("options", "taken"),
    [
        (["--before", "2024-05-04"], [(2, 1), (2, 2), (3, 1)]),
        (["--last", "1"], [(1, 2), (2, 1)]),
        (["--last", "2"], [(1, 2), (1, 3), (2, 1)]),
    ],
)
def test_split_by_time(tmp_path: Path, options: list[str], taken: list[tuple[int, int]]) -> None:
    write_times(tmp_path)
    more = ["--implicit", "--timestamp", "when", "--out", "parts", "--csv"]
    apportion_data(tmp_path, "split", "rows.csv", *options, *more)
    train, test = (pl.read_csv(tmp_path / "parts" / f"{name}.csv") for name in ("train", "test"))
    assert test.select("user", "item").rows() == taken
    assert (len(train) + len(test), train.columns) == (6, ["user", "item", "timestamp"])


def test_split_leaves_some_out(tmp_path: Path) -> None:
    write_times(tmp_path)
    more = ["--leave-out", "1", "--implicit", "--out", "parts", "--csv"]
    apportion_data(tmp_path, "split", "rows.csv", *more)
    assert sorted(pl.read_csv(tmp_path / "parts" / "test.csv")["user"]) == [1, 2]


def test_summary(tmp_path: Path) -> None:
    write_times(tmp_path)
    more = ["--implicit", "--timestamp", "when"]
    result = apportion("data", "summary", str(tmp_path / "rows.csv"), *more)
    assert result.returncode == 0, result.stderr
    for piece in ("users", "density", "66.667%", "in no ledger"):
        assert piece in result.stdout
    result = apportion("data", "summary", str(tmp_path / "rows.csv"), *more, "--json")
    assert json.loads(result.stdout)["rows"] == 6
