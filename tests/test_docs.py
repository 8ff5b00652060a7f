"""The examples of the README and of docs/ run as they stand."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # examples may save models
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(block, names)


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


LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *ROOT.glob("*/README.md")]


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


def test_links_in_docstrings_lead_somewhere() -> None:
    for source in (ROOT / "src").rglob("*.py"):
        for page, anchor in re.findall(r"(docs/\w+\.md)(?:#([\w-]+))?", source.read_text()):
            if anchor:
                assert anchor in headings(ROOT / page), f"{source.name}: {page}#{anchor}"
