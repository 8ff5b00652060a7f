"""Takes the README's picture of the explorer that `apportion demo` writes: make screenshot."""

from pathlib import Path

from playwright.sync_api import sync_playwright
from tests.explore.browser.conftest import CHROMIUM, FLAGS

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "apportion-results" / "demo" / "explorer.html"
# What somebody says of five of its films.
LIKED = {
    "Amber Harbor": 5,
    "Quiet River": 4,
    "Golden Garden": 1,
    "Silver Tower": 5,
    "Last Mirror": 2,
}


def main() -> None:
    """Click through the page and keep what it shows."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1180, "height": 700})
        page.goto(PAGE.as_uri())
        page.wait_for_selector("html[data-ready]")
        for title, stars in LIKED.items():
            page.get_by_role("combobox").fill(title)
            page.get_by_role("option").first.wait_for()
            page.keyboard.press("Enter")
            page.locator(".mine li").first.get_by_role("radio", name=str(stars)).check(force=True)
        page.mouse.click(5, 5)
        page.wait_for_timeout(500)
        page.screenshot(path=HERE / "images" / "explorer.png")
        browser.close()


if __name__ == "__main__":
    main()
