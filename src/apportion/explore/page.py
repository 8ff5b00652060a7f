"""The explorer of a model as files: a folder for any web server, or one file that opens from a disk.

The page may load its own files and nothing else, and a browser holds it to that: its policy forbids
requests to anywhere else, forms, frames, and text that becomes markup. What it shows is public: the model
folder, and what is computed from it.
"""

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from dataclasses import dataclass

from apportion.accounts import PrivacyReport
from apportion.accounts.explained import report_sections, tone_of
from apportion.errors import printable
from apportion.explore.scripts import PAGE, WORKER, app_file, classic_script, module_names
from apportion.pages import as_panels
from apportion.pages.style import PAGE as PAGE_STYLE
from apportion.pages.style import STYLE

# In both forms of the page. No text becomes markup or script, but the worker's, by the policy of that name.
_ALWAYS = (
    "default-src 'none'",
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types worker",
)
FOLDER_POLICY = "; ".join(
    (
        *_ALWAYS,
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "worker-src 'self' blob:",
    )
)
_WITHOUT_SCRIPTS = "This page needs scripts: it computes everything on your own device."


@dataclass(frozen=True)
class Explorer:
    """What a page is made of.

    Attributes
        title: of the page.
        report: the model's guarantee.
        model: the files that the page reads, by name: model.json and items.safetensors.
        groups: names of groups and the group of every item (-1 for none), or None.
        quality: the panel of what to expect at other epsilons, as a piece of HTML, or None.
        note: what else a reader must know, such as that vectors are rounded.
    """

    title: str
    report: PrivacyReport
    model: Mapping[str, bytes]
    groups: Mapping[str, object] | None = None
    quality: str | None = None
    note: str = ""


def folder_files(explorer: Explorer) -> dict[str, bytes]:
    """The files of the page by their names, for any web server."""
    scripts = {f"app/{name}": app_file(name).encode() for name in module_names()}
    index = _index(
        explorer,
        FOLDER_POLICY,
        '<link rel="stylesheet" href="app/style.css">',
        f'<script type="module" src="app/{PAGE}"></script>',
    )
    return {
        "index.html": index.encode(),
        "app/style.css": _style().encode(),
        **scripts,
        **_data(explorer),
    }


def single_file(explorer: Explorer) -> bytes:
    """The page with all that it needs in one file, which sends and fetches nothing at all."""
    style, script, worker = _style(), classic_script(PAGE), classic_script(WORKER)
    policy = "; ".join(
        (
            *_ALWAYS,
            f"script-src {_hash(script)}",
            f"style-src {_hash(style)}",
            "connect-src 'none'",
            "worker-src blob:",
        )
    )
    data = "".join(
        f'<script type="application/octet-stream" id="file:{name}">'
        f"{base64.b64encode(content).decode()}</script>\n"
        for name, content in _data(explorer).items()
    )
    scripts = (
        f'{data}<script type="text/plain" id="worker">{worker}</script>\n<script>{script}</script>'
    )
    return _index(explorer, policy, f"<style>{style}</style>", scripts).encode()


def _data(explorer: Explorer) -> dict[str, bytes]:
    groups = json.dumps(explorer.groups).encode()
    return {
        **{f"model/{name}": content for name, content in explorer.model.items()},
        "groups.json": groups,
    }


def _index(explorer: Explorer, policy: str, styles: str, scripts: str) -> str:
    report = explorer.report
    note = f'<p class="dim">{_text(explorer.note)}</p>' if explorer.note else ""
    quality = explorer.quality
    pieces = {
        "policy": html.escape(policy),
        "title": _text(explorer.title),
        "styles": styles,
        "noscript": _WITHOUT_SCRIPTS,
        "tone": tone_of(report),
        "verdict": _text(report.verdict),
        "note": note,
        "privacy": as_panels(report_sections(report)),
        "quality": f'<div class="view" id="quality" hidden>{quality}</div>' if quality else "",
        "scripts": scripts,
    }
    page = app_file("index.html")
    # In one pass: no piece is searched for the names of others.
    parts = page.split("{{")
    filled = [parts[0]]
    for part in parts[1:]:
        name, _, rest = part.partition("}}")
        filled += [pieces[name], rest]
    return "".join(filled)


def _text(value: object) -> str:
    return html.escape(printable(value))


def _style() -> str:
    return PAGE_STYLE + STYLE + app_file("style.css")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
