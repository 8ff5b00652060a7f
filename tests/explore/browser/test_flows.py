"""The page as somebody uses it: clicked and typed through, in each of its forms."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apportion.explore import (
    Explorer,
    Line,
    Quality,
    chosen_panel,
    write_folder,
    write_single_file,
)
from tests.explore.browser.conftest import Watched
from tests.explore.models import HOSTILE, changed, film_model, hostile_model, page_of, place_of

Serve = Callable[[Explorer], str]


def address(form: str, explorer: Explorer, folder: Path, served: Serve) -> str:
    if form == "served":
        return served(explorer)
    write_single_file(explorer, folder / "page.html")
    return place_of(folder / "page.html")


def best_titles(page: Any) -> list[str]:
    found: list[str] = page.locator("#best .title").all_inner_texts()
    return found


def add(page: Any, text: str) -> None:
    page.get_by_role("combobox", name="Search").fill(text)
    page.get_by_role("option").first.wait_for()
    page.keyboard.press("Enter")


@pytest.mark.parametrize("form", ["served", "single file"])
def test_a_list_leads_to_recommendations_and_nothing_is_sent(
    form: str, watched: Watched, served: Serve, tmp_path: Path
) -> None:
    model = film_model(intercepts=True)
    page = watched.open(address(form, page_of(model), tmp_path, served))
    asked = len(watched.requests)
    add(page, "Film C02")
    page.get_by_role("radio", name="5").check(force=True)
    add(page, "film d")
    page.locator(".mine li").nth(1).wait_for()
    ids = {model.released.titles[place]: 100 + place for place in range(60)}
    mine = page.locator(".mine .title").all_inner_texts()
    history = dict(zip([ids[title] for title in mine], [4.0, 5.0], strict=True))
    expected, _ = model.recommend(history, 20)
    page.locator("#best li").nth(len(expected) - 1).wait_for()
    assert [ids[title] for title in best_titles(page)] == expected.tolist()
    page.get_by_role("button", name="Show more").click()
    page.locator("#best li").nth(39).wait_for()
    for tab in ("Map", "Privacy", "For you"):
        page.get_by_role("tab", name=tab).click()
    page.locator("#best li .name").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Show on the map").click()
    page.get_by_role("button", name="Zoom in").click()
    page.wait_for_timeout(100)
    assert watched.requests[asked:] == []
    assert watched.trouble == []


def test_what_is_loaded_comes_from_the_page_s_own_server(watched: Watched, served: Serve) -> None:
    where = served(page_of(film_model()))
    watched.open(where)
    assert all(url.startswith((where, f"blob:{where}")) for url in watched.requests)
    names = {url.removeprefix(where) for url in watched.requests if not url.startswith("blob:")}
    assert {"", "model/model.json", "model/items.safetensors", "app/worker.js"} <= names


@pytest.mark.parametrize("form", ["served", "single file"])
def test_the_browser_refuses_to_send(
    form: str, watched: Watched, served: Serve, tmp_path: Path
) -> None:
    where = address(form, page_of(film_model()), tmp_path, served)
    page = watched.open(where)
    attempts = """async () => {
      const refused = [];
      document.addEventListener("securitypolicyviolation", (event) => refused.push(event.effectiveDirective));
      const away = "http://127.0.0.1:9/";
      await fetch(away).catch(() => 0);
      navigator.sendBeacon(away, "x");
      try { new WebSocket("ws://127.0.0.1:9/"); } catch {}
      Object.assign(document.createElement("img"), { src: away });
      document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href: away }));
      try { document.body.insertAdjacentHTML("beforeend", "<b>x</b>"); refused.push("missed"); }
      catch { refused.push("markup"); }
      await new Promise((resolve) => setTimeout(resolve, 100));
      return refused;
    }"""
    refused = page.evaluate(attempts)
    assert refused.count("connect-src") >= 3
    assert {"img-src", "style-src-elem", "markup"} <= set(refused)


def test_titles_and_ids_stay_text(watched: Watched, served: Serve, tmp_path: Path) -> None:
    groups = {"names": HOSTILE, "of": [place % 6 for place in range(26)]}
    explorer = page_of(hostile_model(), title=HOSTILE[0], groups=groups)
    write_single_file(explorer, tmp_path / "page.html")
    for where in (served(explorer), place_of(tmp_path / "page.html")):
        page = watched.open(where)
        assert page.inner_text("h1") == HOSTILE[0]
        for text in ("script", "img", "bdi", "javascript"):
            add(page, text)
        page.locator(".mine li").nth(3).wait_for()
        page.locator("#best li").first.wait_for()
        page.locator(".mine .name").first.click()
        page.locator("dialog #item-title").wait_for()
        assert page.locator("#item-title").inner_text() in HOSTILE
        page.get_by_role("button", name="Close").click()
        page.get_by_role("tab", name="Map").click()
        page.locator(".legend").get_by_text(HOSTILE[1]).wait_for()
        assert set(page.locator(".mine .title").all_inner_texts()) <= set(HOSTILE)
        assert page.locator("h1").count() == 1
        assert page.locator("body img, body script:not([id]):not([type=module])").count() <= 1
        assert page.title() == HOSTILE[0]
        assert "\u202e" not in page.content()
    assert watched.trouble == []


def test_an_item_shows_those_that_are_like_it(watched: Watched, served: Serve) -> None:
    model = film_model(intercepts=True)
    page = watched.open(served(page_of(model)))
    add(page, "Film A26")
    page.locator(".mine .name").click()
    dialog = page.get_by_role("dialog")
    dialog.wait_for()
    ids, scores = model.similar_items(126, 10)
    titles = [model.released.titles[place - 100] for place in ids]
    assert dialog.locator(".best .title").all_inner_texts() == titles
    assert "null" not in dialog.inner_text()
    assert dialog.locator(".best .value").first.inner_text() == f"{scores[0]:.2f}"
    dialog.get_by_role("button", name="Remove from your list").click()
    page.keyboard.press("Escape")
    assert page.locator(".mine li").count() == 0


def test_a_model_of_averages_claims_no_likeness(watched: Watched, served: Serve) -> None:
    known = film_model(intercepts=True)
    poor = changed(known, {}, items=np.zeros_like(known.items))
    page = watched.open(served(page_of(poor)))
    assert "averages alone" in page.locator("#state").inner_text()
    assert page.get_by_role("tab", name="Map").count() == 0
    page.locator("#best .name").first.click()
    dialog = page.get_by_role("dialog")
    assert "cannot say which items are alike" in dialog.inner_text()
    assert dialog.get_by_role("listitem").count() == 0
    assert dialog.get_by_role("button", name="Show on the map").count() == 0
    assert not watched.trouble


def test_everything_can_be_done_by_keyboard(watched: Watched, served: Serve) -> None:
    page = watched.open(served(page_of(film_model(intercepts=True))))
    page.get_by_role("combobox").focus()
    page.keyboard.type("film b")
    page.get_by_role("option").first.wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.get_by_role("option", selected=True).count() == 1
    second = page.get_by_role("option", selected=True).locator("bdi").inner_text()
    page.keyboard.press("Enter")
    page.locator(".mine li").wait_for()
    assert page.locator(".mine .title").inner_text() == second
    page.get_by_role("radio", name="4").focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("radio", name="5").is_checked()
    page.get_by_role("tab", name="For you").focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("tab", name="Map", selected=True).count() == 1
    chart = page.locator("canvas")
    chart.focus()
    listed = page.locator("details summary", has_text="in view")
    listed.get_by_text("60;").wait_for()
    for _ in range(6):
        page.keyboard.press("+")
    listed.filter(has_not_text="60;").wait_for()
    listed.click()
    page.get_by_role("tab", name="Map").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_text("Take any one person").wait_for()


def test_every_control_has_a_name(watched: Watched, served: Serve) -> None:
    page = watched.open(served(page_of(film_model(intercepts=True))))
    add(page, "film b")
    page.locator("#best li").first.wait_for()
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, canvas, summary, dialog[open]")]
        .filter((each) => !(each.getAttribute("aria-label") || each.textContent.trim() ||
          each.labels?.length && each.closest("label").textContent.trim()))
        .map((each) => each.outerHTML)"""
    )
    assert nameless == []


def test_a_list_is_kept_only_if_asked(watched: Watched, served: Serve) -> None:
    where = served(page_of(film_model(intercepts=True)))
    page = watched.open(where)
    add(page, "Film A00")
    page.locator(".mine li").wait_for()
    assert page.evaluate("localStorage.length + document.cookie.length") == 0
    page = watched.open(where)
    assert page.locator(".mine li").count() == 0
    add(page, "Film A00")
    page.get_by_label("Keep my list").check()
    page = watched.open(where)
    assert page.locator(".mine .title").inner_text() == "Film A00"
    page.get_by_label("Keep my list").uncheck()
    assert page.evaluate("localStorage.length") == 0


def test_a_file_of_one_s_own_is_read_in_the_page(
    watched: Watched, served: Serve, tmp_path: Path
) -> None:
    model = film_model(intercepts=True)
    page = watched.open(served(page_of(model)))
    asked = len(watched.requests)
    file = tmp_path / "mine.csv"
    file.write_text("item,rating\n101,4.5\n120,2\n7777,1\n130,99\n")
    page.locator("summary", has_text="file of yours").click()
    page.locator("input[type=file]").set_input_files(file)
    page.get_by_text("2 items added; 1 item not known to the model").wait_for()
    expected, scores = model.recommend({101: 4.5, 120: 2.0, 7777: 1.0}, 20, unknown="ignore")
    page.locator("#best li").first.get_by_text(f"{scores[0]:.2f}").wait_for()
    titles = [model.released.titles[place - 100] for place in expected]
    assert best_titles(page)[:5] == titles[:5]
    assert watched.requests[asked:] == []


def test_events_need_no_ratings(watched: Watched, served: Serve) -> None:
    model = film_model(feedback="implicit")
    page = watched.open(served(page_of(model)))
    page.get_by_role("heading", name="Popular with everybody").wait_for()
    add(page, "Film C02")
    page.get_by_role("heading", name="Recommended for you").wait_for()
    assert page.locator(".stars").count() == 0
    expected, _ = model.recommend([102], 20)
    titles = [model.released.titles[place - 100] for place in expected]
    page.locator("#best li").first.get_by_text(titles[0]).wait_for()
    assert best_titles(page) == titles


def test_a_folder_works_from_any_server_and_a_broken_one_says_so(
    watched: Watched, tmp_path: Path
) -> None:
    from functools import partial
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
    from threading import Thread

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    write_folder(page_of(film_model(intercepts=True)), tmp_path / "site")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        where = f"http://127.0.0.1:{server.server_address[1]}/site/"
        page = watched.open(where)
        assert len(best_titles(page)) in (0, 20)
        write_folder(page_of(film_model()), tmp_path / "broken")
        (tmp_path / "broken" / "model" / "items.safetensors").write_bytes(b"\xff" * 64)
        page.goto(where.replace("site", "broken"))
        page.get_by_text("The model cannot be shown").wait_for()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_all_of_it(scheme: str, watched: Watched, served: Serve) -> None:
    watched.page.set_viewport_size({"width": 360, "height": 740})
    watched.page.emulate_media(color_scheme=scheme)
    page = watched.open(served(page_of(film_model(intercepts=True))))
    add(page, "Film A00")
    for tab in ("For you", "Map", "Privacy"):
        page.get_by_role("tab", name=tab).click()
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 360, tab
    colors = page.evaluate(
        """() => { const style = getComputedStyle(document.body);
        return [style.color, style.backgroundColor].map((text) => text.match(/\\d+/g).map(Number)); }"""
    )
    ink, ground = (sum(color[:3]) for color in colors)
    assert (ink < ground) == (scheme == "light"), json.dumps(colors)


def test_epsilon_is_moved_and_the_forecast_follows(watched: Watched, served: Serve) -> None:
    lines = {e: Line(1 / e, (1.5 / e, 1.0 / e)) for e in (1.0, 2.0, 4.0)}
    quality = Quality("RMSE", "lower", "Made up.", lines, {"not private": Line(0.1, (0.2, 0.1))})
    page = watched.open(served(page_of(film_model(), quality=chosen_panel(quality, 2.1))))
    page.get_by_role("tab", name="Quality").click()
    shown = page.locator("[data-epsilon]:not([hidden])")
    assert shown.get_attribute("data-epsilon") == "2"
    assert page.locator("output").inner_text() == "epsilon = 2"
    page.get_by_role("slider").focus()
    page.keyboard.press("ArrowRight")
    assert shown.get_attribute("data-epsilon") == "4"
    assert shown.locator("li", has_text="not private: 0.100").count() == 1
    assert page.get_by_role("slider").get_attribute("aria-valuetext") == "epsilon = 4"
    assert watched.trouble == []
