"""The examples of the README and of docs/ run as they stand."""

import importlib
import os
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# By `make docs`; it is no part of the repository.
WRITTEN = ROOT / "docs/reference/command-line.md"
PAGES = [
    *(ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")),
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page != WRITTEN),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # examples may save models
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    names: dict[str, object] = {}
    for block in re.findall(
        r"```(?:python|{code-cell} python)\n(.*?)```", page.read_text(), re.DOTALL
    ):
        exec(block, names)


# What is public besides the package itself.
MODULES = ("datasets", "metrics", "theory")


def headings(page: Path) -> set[str]:
    """What a link may name in a page, as GitHub makes it from headings; blocks of code have none."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    anchors: list[str] = []
    for title in re.findall(r"^#+ +(.*?) *$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        times = anchors.count(anchor)
        anchors.append(anchor if not times else f"{anchor}-{times}")
    return {*anchors, *re.findall(r'<a (?:id|name)="([^"]+)"', text)}


LINKED = [*PAGES, ROOT / "CHANGELOG.md", *ROOT.glob("*/README.md")]


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        place = page.parent / path if path else page
        assert place.exists(), target
        if anchor:
            assert place.suffix == ".md", target
            assert anchor in headings(place), target


@pytest.mark.parametrize("module", ["apportion", *(f"apportion.{name}" for name in MODULES)])
def test_every_public_name_is_in_the_reference(module: str) -> None:
    text = (ROOT / "docs/reference/api.md").read_text()
    parts = re.split(r"^\.\. currentmodule:: (\S+)$", text, flags=re.MULTILINE)
    shown = {
        name
        for place, body in zip(parts[1::2], parts[2::2], strict=True)
        if place == module
        for name in re.findall(r"^\.\. auto\w+:: (\w+)$|^`([A-Z_]+)` has", body, re.MULTILINE)
        for name in name
    }
    public = importlib.import_module(module)
    names = {name for name in public.__all__ if name[0] != "_"} - {*MODULES, "presets"}
    assert names <= shown, sorted(names - shown)


def prose(page: Path) -> list[str]:
    """Lines that can be broken: no tables, headings or code."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [line for line in text.splitlines() if not re.match(r"\||#| {4}", line)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_prose_wraps_at_100_columns(page: Path) -> None:
    assert not [line for line in prose(page) if len(line) > 100]


def test_pages_named_in_sources_exist() -> None:
    for folder, ending in (("src", "*.py"), ("tests", "*.py"), (".", "Makefile")):
        for source in (ROOT / folder).rglob(ending) if ending == "*.py" else [ROOT / ending]:
            for page, anchor in re.findall(
                r"\b(docs/[\w/-]+\.md)(?:#([\w-]+))?", source.read_text()
            ):
                if source.name == "test_packaging.py" or ROOT / page == WRITTEN:
                    continue  # names that are made up
                assert (ROOT / page).exists(), f"{source.name}: {page}"
                assert not anchor or anchor in headings(ROOT / page), (
                    f"{source.name}: {page}#{anchor}"
                )
