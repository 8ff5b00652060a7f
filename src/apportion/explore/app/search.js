// Search by title: a combobox, as the ARIA practices describe it.

import { make, peopleOf, say } from "./dom.js";
import { TEXT } from "./text.js";

const SHOWN = 8;

/** The field and its list; choose(place) is called for what is picked. */
export function makeSearch(model, choose) {
  const find = finder(model);
  let places = [];
  let active = -1;
  const list = make("ul.options", { id: "found", role: "listbox", "aria-label": TEXT.taste.searchShort, hidden: true });
  const field = make("input", {
    id: "search",
    type: "search",
    role: "combobox",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: TEXT.taste.search(model.count),
    "aria-label": TEXT.taste.search(model.count),
    "aria-controls": "found",
    "aria-expanded": "false",
    "aria-autocomplete": "list",
    oninput: () => show(find(field.value)),
    onkeydown: press,
    onblur: () => show([]),
    onfocus: () => field.value && show(find(field.value)),
  });

  function show(found) {
    places = found;
    active = -1;
    list.replaceChildren(...places.map(option));
    list.hidden = places.length === 0;
    field.setAttribute("aria-expanded", String(places.length > 0));
    field.removeAttribute("aria-activedescendant");
    if (field.value.trim() && document.activeElement === field) say(TEXT.taste.found(places.length));
  }

  function option(place, number) {
    return make(
      "li",
      {
        id: `found-${number}`,
        role: "option",
        "aria-selected": "false",
        // Before the field loses the focus.
        onpointerdown: (event) => {
          event.preventDefault();
          pick(number);
        },
      },
      make("bdi", {}, model.titles[place]),
      peopleOf(model, place),
    );
  }

  function pick(number) {
    const place = places[number];
    field.value = "";
    show([]);
    choose(place);
  }

  function press(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && places.length) {
      active = (active + step + places.length + (active < 0 && step < 0 ? 1 : 0)) % places.length;
      [...list.children].forEach((child, number) =>
        child.setAttribute("aria-selected", String(number === active)),
      );
      field.setAttribute("aria-activedescendant", `found-${active}`);
      list.children[active].scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter" && places.length) pick(Math.max(active, 0));
    else if (event.key === "Escape") show([]);
    else return;
    event.preventDefault();
  }

  return make("div.search", {}, field, list);
}

/** What finds places by a piece of a title: best known first, titles that begin with it before others. */
function finder(model) {
  const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const titles = model.titles.map(plain);
  const known = (place) => model.popularity?.[place] ?? 0;
  return (text) => {
    const words = plain(text).split(/\s+/).filter(Boolean);
    if (!words.length) return [];
    const begins = [];
    const holds = [];
    for (let place = 0; place < titles.length; place++) {
      const title = titles[place];
      if (!words.every((word) => title.includes(word))) continue;
      (title.startsWith(words[0]) || model.ids[place] === text.trim() ? begins : holds).push(place);
    }
    const byFame = (a, b) => known(b) - known(a) || a - b;
    return [...begins.sort(byFame), ...holds.sort(byFame)].slice(0, SHOWN);
  };
}
