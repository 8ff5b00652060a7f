// The page: reads the model, then makes the views.

import { startWorker } from "./asking.js";
import { make } from "./dom.js";
import { readFile, workerScript } from "./files.js";
import { makeForYou } from "./foryou.js";
import { makeItemDialog } from "./item.js";
import { makeMap } from "./map.js";
import { readModel } from "./model.js";
import { makeQuality } from "./quality.js";
import { makeTabs } from "./tabs.js";
import { makeTaste } from "./taste.js";
import { TEXT } from "./text.js";

async function start() {
  const state = document.getElementById("state");
  const main = document.querySelector("main");
  state.textContent = TEXT.loading;
  const begun = performance.now();
  try {
    const names = ["model/model.json", "model/items.safetensors", "groups.json"];
    const [settings, tensors, groups] = await Promise.all(names.map(readFile));
    const model = readModel(settings, tensors);
    model.groups = JSON.parse(new TextDecoder().decode(groups));
    const ask = await startWorker(workerScript(), model);
    const taste = makeTaste(model);
    taste.recall();
    let openTab = () => {};
    const map = model.tastes ? makeMap(model, taste, ask, (place) => openItem(place)) : null;
    const openItem = makeItemDialog(model, taste, ask, (place) => {
      openTab("map");
      map.show(place);
    });
    const panels = {
      taste: make("div.view", {}, makeForYou(model, taste, ask, openItem)),
      map: map?.view,
      privacy: document.getElementById("privacy"),
      quality: makeQuality(document.getElementById("quality")),
    };
    for (const [name, panel] of Object.entries(panels)) if (!panel) delete panels[name];
    const tabs = makeTabs(panels);
    openTab = tabs.open;
    document.getElementById("verdict").addEventListener("click", () => openTab("privacy"));
    document.getElementById("tabs").replaceWith(tabs.bar);
    main.append(...Object.values(panels));
    const seconds = (performance.now() - begun) / 1000;
    state.textContent = TEXT.loaded(model, seconds);
    document.documentElement.dataset.ready = String(Math.round(1000 * seconds));
  } catch (error) {
    state.textContent = TEXT.failed(error.message);
    state.className = "warn";
    document.documentElement.dataset.ready = "failed";
  }
}

start();
