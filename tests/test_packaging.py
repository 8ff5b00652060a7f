"""The source distribution, and what a package index shows of it."""

import importlib.util
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


@pytest.fixture(scope="module")
def index_readme() -> ModuleType:
    path = ROOT / "packaging" / "index_readme.py"
    spec = importlib.util.spec_from_file_location("index_readme", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_index_page_has_no_link_that_leads_nowhere(index_readme: ModuleType) -> None:
    text = index_readme.without_links((ROOT / "README.md").read_text("utf-8"))
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert all(link.startswith("https://") for link in links)
    assert "`docs/explanation/guarantee.md`" in text
    assert "## In Python" in text
    shown = index_readme.without_links(
        "![a\nb](x.svg)\n\n[one](docs/a.md#b), [docs/b.md](docs/b.md), [c](https://c)"
    )
    assert shown == "one (`docs/a.md`), `docs/b.md`, [c](https://c)"


def test_the_source_distribution_has_what_its_tests_need(tmp_path: Path) -> None:
    pytest.importorskip("scikit_build_core")
    code = "import sys, scikit_build_core.build as b; b.build_sdist(sys.argv[1])"
    command = [sys.executable, "-c", code, str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [path] = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        page = archive.extractfile(f"{path.name.removesuffix('.tar.gz')}/PKG-INFO")
        assert page is not None
        metadata = page.read().decode()
    for folder in ("tests", "docs", "native", "benchmarks", "packaging", "src"):
        present = {
            str(file.relative_to(ROOT))
            for file in (ROOT / folder).rglob("*")
            if file.suffix in (".py", ".md", ".cpp", ".hpp", ".txt", ".json", ".safetensors", ".db")
        } - {"docs/reference/command-line.md"}  # which `make docs` writes
        assert present <= names, sorted(present - names)
    assert not {name for name in names if name.startswith((".venv", "build/"))}
    assert not {name for name in names if name.endswith((".so", ".pyc"))}
    assert "](docs/" not in metadata
    assert "Author: The Apportion developers" in metadata
    assert "Author-Email" not in metadata


def test_who_needs_no_pictures_gets_no_matplotlib() -> None:
    project = PROJECT["project"]
    assert not any(each.startswith("matplotlib") for each in project["dependencies"])
    assert any(
        each.startswith("matplotlib") for each in project["optional-dependencies"]["figures"]
    )
