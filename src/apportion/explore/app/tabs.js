// Views behind tabs, as the ARIA practices describe them. The address says which one is open.

import { make } from "./dom.js";
import { TEXT } from "./text.js";

/** The bar of tabs for panels {name: element}, and what opens one. */
export function makeTabs(panels) {
  const names = Object.keys(panels);
  const tabs = names.map((name) =>
    make(
      "button",
      { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `view-${name}`, onclick: () => open(name), onkeydown: press },
      TEXT.tabs[name],
    ),
  );
  for (const name of names) {
    const panel = panels[name];
    panel.id = `view-${name}`;
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", `tab-${name}`);
  }

  function open(name) {
    names.forEach((each, place) => {
      tabs[place].setAttribute("aria-selected", String(each === name));
      tabs[place].tabIndex = each === name ? 0 : -1;
      panels[each].hidden = each !== name;
    });
    history.replaceState(null, "", `#${name}`);
    panels[name].dispatchEvent(new Event("opened"));
  }

  function press(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = (tabs.indexOf(event.target) + step + tabs.length) % tabs.length;
    tabs[next].focus();
    open(names[next]);
  }

  const bar = make("div.tabs", { role: "tablist", "aria-label": TEXT.tabsLabel }, ...tabs);
  const wanted = location.hash.slice(1);
  open(names.includes(wanted) ? wanted : names[0]);
  return { bar, open };
}
