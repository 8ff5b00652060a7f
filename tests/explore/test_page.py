"""The page's files, without a browser: what they hold, what they forbid, where they are written."""

import base64
import hashlib
import http.client
import json
import math
import re
import subprocess
import sys
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from threading import Thread

import pytest

from apportion.data import simulate_interactions
from apportion.errors import DataError, ParameterError
from apportion.explore import exact, folder_files, single_file, write_folder
from apportion.explore.page import FOLDER_POLICY
from apportion.explore.scripts import app_file, module_names
from apportion.explore.serving import make_server
from apportion.recommend import MatrixFactorization
from apportion.recommend.files import load
from tests.cli.test_commands import apportion
from tests.cli.test_recommend import run
from tests.explore.models import film_model, hostile_model, page_of
from tests.recommend.test_files import make_model

PAGE = page_of(film_model(intercepts=True))


class Scripts(HTMLParser):
    """The inline scripts and styles of a page, and its policy."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.policy, self.inside = "", ""
        self.inline: list[tuple[str, str]] = []
        self.outside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if known.get("http-equiv") == "Content-Security-Policy":
            self.policy = known["content"] or ""
        self.inside = tag if tag in ("script", "style") and "src" not in known else ""
        if known.get("type") in ("application/octet-stream", "text/plain"):
            self.inside = ""
        self.outside += [str(known[name]) for name in ("src", "href") if name in known]
        assert not [name for name in known if name.startswith("on") or name == "style"]

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.inline.append((self.inside, data))
            self.inside = ""


def test_a_folder_names_only_its_own_files() -> None:
    files = folder_files(PAGE)
    index = Scripts(files["index.html"].decode())
    assert index.policy == FOLDER_POLICY
    assert {name for name in index.outside if name != "data:,"} <= set(files)
    assert index.inline == []
    assert {f"app/{name}" for name in module_names()} <= set(files)
    for name, content in files.items():
        assert name.startswith("model/") or b"//cdn" not in content
        if name.endswith(".js"):
            assert not re.search(rb"https?://(?!github\.com|www\.w3\.org)", content), name


def test_a_single_file_holds_everything_and_allows_only_that() -> None:
    text = single_file(PAGE).decode()
    found = Scripts(text)
    assert [name for name in found.outside if name != "data:,"] == []
    assert "connect-src 'none'" in found.policy
    assert "default-src 'none'" in found.policy
    assert "unsafe" not in found.policy
    for tag, content in found.inline:
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in found.policy
    [data] = re.findall(r'id="file:model/items.safetensors">([^<]*)<', text)
    assert base64.b64decode(data) == PAGE.model["items.safetensors"]


def test_no_piece_is_taken_for_another() -> None:
    page = page_of(hostile_model(), title="{{privacy}} {{scripts}}", note="{{quality}}")
    text = folder_files(page)["index.html"].decode()
    assert text.count("{{privacy}} {{scripts}}") == 2
    assert "{{quality}}" in text
    assert text.count("What this promises") == 1


def test_scripts_keep_to_what_makes_one_script_of_them() -> None:
    """No default exports, no dynamic imports, no cycles, nothing that makes markup of text."""
    names = module_names()
    for name in names:
        text = app_file(name)
        assert not re.search(
            r"export default|import\(|innerHTML|outerHTML|insertAdjacent|eval\(", text
        )
        imported = re.findall(r'^import .* from "\./([\w-]+\.js)";$', text, re.MULTILINE)
        assert len(imported) == len(re.findall(r"^import ", text, re.MULTILINE)), name
        assert all(names.index(other) < names.index(name) for other in imported)
        assert re.findall(r"^export .*", text, re.MULTILINE) == re.findall(
            r"^export (?:(?:async )?function|const) .*", text, re.MULTILINE
        )


def test_words_are_in_one_place() -> None:
    """Apart from text.js, no script holds a sentence that people read."""
    for name in module_names():
        if name == "text.js":
            continue
        code = re.sub(r"//.*|/\*.*?\*/", "", app_file(name))
        code = re.sub(r"/\*\*.*?\*/", "", code, flags=re.DOTALL)
        code = re.sub(r"new Error\([^)]*\)|new Worker[^;]*|\|\| \"the worker failed\"", "", code)
        for text in re.findall(r'"([^"\n]*)"', code):
            assert not re.match(r"[A-Z][a-z]+ [a-z]+ ", text), f"{name}: {text}"


def test_only_what_may_be_published_is_in_it() -> None:
    names = set(folder_files(PAGE))
    assert {name for name in names if name.startswith("model/")} == {
        "model/model.json",
        "model/items.safetensors",
    }


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("mine")
    with pytest.raises(DataError, match="not empty"):
        write_folder(PAGE, tmp_path)
    write_folder(PAGE, tmp_path / "site")
    write_folder(page_of(make_model()), tmp_path / "site")
    assert (tmp_path / "site/index.html").exists()


def test_the_server_is_for_this_machine_alone() -> None:
    server = make_server(PAGE)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    port = server.server_address[1]
    try:
        assert server.server_address[0] == "127.0.0.1"

        def answer(
            path: str, host: str = f"127.0.0.1:{port}", method: str = "GET"
        ) -> tuple[int, str]:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request(method, path, headers={"Host": host})
            response = connection.getresponse()
            policy = response.headers.get("Content-Security-Policy", "")
            response.read()
            connection.close()
            return response.status, policy

        status, policy = answer("/")
        assert status == 200
        assert "frame-ancestors 'none'" in policy
        assert answer("/app/main.js")[0] == answer("/", f"localhost:{port}")[0] == 200
        assert answer("/", "evil.example:80")[0] == 404  # a name that was made to lead here
        for path in ("/../pyproject.toml", "/app/", "/app/../../page.py", "/model/privacy.json"):
            assert answer(path)[0] == 404
        assert answer("/", method="POST")[0] == 501
        with pytest.raises(ParameterError, match="cannot be used"):
            make_server(PAGE, port)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_command_writes_both_forms(tmp_path: Path) -> None:
    model = tmp_path / "films"
    film_model(intercepts=True).save(model)
    output = run("explore", model, "--out", tmp_path / "site", "--json")
    assert json.loads(output)["files"] == [str(tmp_path / "site/index.html")]
    assert "<title>films</title>" in (tmp_path / "site/index.html").read_text()
    for name, content in exact(load(model).released).items():
        assert (tmp_path / "site/model" / name).read_bytes() == content
    run("explore", model, "--single-file", tmp_path / "one.html", "--title", "A <b> title")
    assert "<title>A &lt;b&gt; title</title>" in (tmp_path / "one.html").read_text()
    run("explore", model, "--single-file", tmp_path / "x", "--out", tmp_path / "y", code=2)


def test_a_model_that_is_not_private_is_shown_with_a_warning(tmp_path: Path) -> None:
    data = simulate_interactions(users=100, items=10, rows=900)
    MatrixFactorization(factors=2, sweeps=1, epsilon=math.inf).fit(data).save(tmp_path / "exact")
    page = tmp_path / "page.html"
    result = apportion("explore", str(tmp_path / "exact"), "--single-file", str(page))
    assert "warning: this model is NOT PRIVATE" in result.stderr
    assert "NOT PRIVATE: no noise was added" in page.read_text()
    private = tmp_path / "films"
    film_model().save(private)
    result = apportion("explore", str(private), "--single-file", str(page))
    assert result.stderr == ""


def test_a_wheel_holds_the_page(tmp_path: Path) -> None:
    """Without the kernels, which take a minute to build."""
    root = Path(__file__).parents[2]
    settings = ["-C", "wheel.cmake=false", "-C", "wheel.py-api=py3"]
    command = [sys.executable, "-m", "pip", "wheel", str(root), "--quiet", "--no-deps"]
    subprocess.run(
        [*command, "--no-build-isolation", "--no-index", *settings, "--wheel-dir", str(tmp_path)],
        check=True,
        cwd=tmp_path,
    )
    [wheel] = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    here = root / "src/apportion/explore/app"
    assert {f"apportion/explore/app/{path.name}" for path in here.iterdir()} <= names
