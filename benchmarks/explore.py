"""The page in a real browser: how large it is, how soon it is ready, how long a list takes.

python -m benchmarks.explore    # needs `make browser`
"""

import os
import statistics
import time
from dataclasses import replace
from threading import Thread
from typing import Any

import numpy as np

from apportion.accounts import PrivacyReport
from apportion.explore import Explorer, compact, exact, folder_files
from apportion.explore.serving import address_of, make_server
from apportion.privacy import PrivacyTarget
from apportion.privacy.ledger import Ledger, Record
from apportion.recommend.fold_in import FoldIn
from apportion.recommend.model import ItemModel

TIMES = 20
SHAPES = {"the size of ml-1m": (3_706, 32), "large": (100_000, 64)}
# The user's vector and the best 20 of all items, in the page; the first call compiles the script.
SCRIPT = """async ([times, history, k]) => {
  const [{ makeEngine }, { readModel }, { readFile }] = await Promise.all(
    ["engine", "model", "files"].map((name) => import(new URL(`app/${name}.js`, document.baseURI))));
  const files = await Promise.all(["model/model.json", "model/items.safetensors"].map(readFile));
  const engine = makeEngine(readModel(...files));
  const rows = history.map((place) => ({ place, rating: 4 + (place % 2) }));
  const taken = [];
  for (let turn = 0; turn < times + 3; turn++) taken.push(engine.recommend(rows, k).milliseconds);
  const begun = performance.now();
  engine.map();
  return { taken: taken.slice(3), map: performance.now() - begun };
}"""


def make(items: int, factors: int) -> ItemModel:
    """Random factors, with counts, intercepts and titles of 25 letters."""
    random = np.random.default_rng(0)
    ledger = Ledger(PrivacyTarget(1.0, 1e-5))
    ledger.append(Record("counts", "users per item", (items,), 1.0, "one unit each", 4.0))
    return ItemModel(
        items=random.normal(0, 0.2, (items, factors)).astype(np.float32),
        item_ids=np.arange(items),
        counts=np.sort(random.pareto(1.0, items))[::-1] * 50 + 1,
        titles=np.array([f"The title of item {item:06} is" for item in range(items)], object),
        fold_in=FoldIn("explicit", 0.1, 1.0, mean=3.5, shrinkage=4.0, rating_range=(1.0, 5.0)),
        privacy=PrivacyReport(ledger),
        intercepts=random.normal(0, 0.3, items).astype(np.float32),
    )


def measure(browser: Any, name: str, model: ItemModel, kind: Any = None) -> str:
    """One row of the table."""
    files, lost = (exact(model), None) if kind is None else compact(model, kind)
    page = Explorer("Benchmark", model.privacy, files)
    size = sum(map(len, folder_files(page).values())) / 1e6
    server = make_server(page)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        loads = []
        for _ in range(3):
            context = browser.new_context()
            tab = context.new_page()
            begun = time.perf_counter()
            tab.goto(address_of(server))
            tab.wait_for_selector("html[data-ready]")
            loads.append(time.perf_counter() - begun)
            found = tab.evaluate(SCRIPT, [TIMES, list(range(0, 2000, 40)), 20])
            context.close()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    taken = found["taken"]
    said = (
        ""
        if lost is None
        else f"; {lost.same:.1%} of the best 20 stay, scores within {lost.largest:.2g}"
    )
    return (
        f"{name:<20} {kind or 'float32':<8} {size:6.1f} MB   ready in {statistics.median(loads):.2f} s  "
        f"list {statistics.median(taken):5.1f} ms (at most {max(taken):.1f})  "
        f"map {found['map']:5.0f} ms{said}"
    )


def main() -> None:
    """Print a row for each size and each way to round."""
    from playwright.sync_api import sync_playwright
    from tests.explore.browser.conftest import CHROMIUM, FLAGS

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        print(f"Chromium {browser.version}, {os.cpu_count()} cores")
        for name, shape in SHAPES.items():
            model = make(*shape)
            for kind in (None, "float16", "int8"):
                print(measure(browser, name, model, kind), flush=True)
        bare = replace(make(*SHAPES["large"]), titles=None)
        print(measure(browser, "large, no titles", bare), flush=True)
        browser.close()


if __name__ == "__main__":
    main()
