"""A real Chromium; where there is none, these tests are skipped and say why."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from apportion.explore import Explorer
from apportion.explore.serving import address_of, make_server

# Nothing of the browser's own: no updates, no sync, no first run, no other protocol.
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def _missing() -> str:
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "playwright is not installed: make browser"
    return "" if CHROMIUM else "there is no chromium: make browser"


WHY_NOT = _missing()

# Where these tests must not be left out, as in .ci/run.
if WHY_NOT and os.environ.get("APPORTION_NEEDS_BROWSER"):
    raise RuntimeError(f"the tests in a browser would be skipped: {WHY_NOT}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if WHY_NOT and item.path.is_relative_to(here):
            item.add_marker(pytest.mark.skip(reason=f"browser: {WHY_NOT}"))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


class Watched:
    """A page of the browser, and whatever it asked for, complained about or failed at."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.requests: list[str] = []
        self.trouble: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("websocket", lambda socket: self.requests.append(socket.url))
        page.on("pageerror", lambda error: self.trouble.append(str(error)))
        page.on("console", self._listen)

    def _listen(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.trouble.append(message.text)

    def open(self, address: str) -> Any:
        """The page, once everything in it is ready."""
        self.page.goto(address)
        self.page.wait_for_selector("html[data-ready]")
        assert self.page.get_attribute("html", "data-ready") != "failed", self.trouble
        return self.page


@pytest.fixture
def watched(chromium: Any) -> Iterator[Watched]:
    context = chromium.new_context(viewport={"width": 1200, "height": 900})
    context.set_default_timeout(15_000)
    yield Watched(context.new_page())
    context.close()


@contextmanager
def _served(explorer: Explorer) -> Iterator[str]:
    server = make_server(explorer)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield address_of(server)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def served() -> Iterator[Callable[[Explorer], str]]:
    """Serves pages until the test ends; gives their addresses."""
    with ExitStack() as stack:
        yield lambda explorer: stack.enter_context(_served(explorer))
