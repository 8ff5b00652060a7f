// The first view: what somebody likes on one side, what follows from it on the other.

import { CROSS, PLUS, icon, make, peopleOf, say, titleOf } from "./dom.js";
import { makeRating } from "./rating.js";
import { makeSearch } from "./search.js";
import { likedRating, ratingRange, readLines } from "./taste.js";
import { TEXT } from "./text.js";

const AT_ONCE = 20;
const SUGGESTED = 10;
const ENOUGH = 8; // on a list, to need no suggestions

/** Fill the view; show(place) opens an item. Whoever wants the latest list of places gets it from it. */
export function makeForYou(model, taste, ask, show) {
  const words = TEXT.taste;
  const mine = make("ul.mine");
  const count = make("h2");
  const suggested = make("div.suggested");
  const clear = make("button.quiet", { type: "button", onclick: () => taste.clear() }, words.clear);
  const keep = make("input", { type: "checkbox", id: "keep", onchange: () => taste.keep(keep.checked) });
  const empty = make("p.dim", {}, words.empty);
  const heading = make("h2");
  const best = make("ol.best", { id: "best" });
  const took = make("p.dim.took");
  const more = make("button", { type: "button", onclick: () => refresh((wanted += AT_ONCE)) }, words.more);
  let wanted = AT_ONCE;
  let latest = [];
  let turn = 0;
  const [low, high] = ratingRange(model);
  const like = (place) => {
    taste.rate(place, likedRating(model));
    say(words.added(model.titles[place]));
  };
  keep.checked = taste.kept;

  function listMine() {
    count.textContent = words.list(taste.size);
    empty.hidden = taste.size > 0;
    clear.hidden = taste.size === 0;
    // What is there stays: it may have the focus.
    const present = new Map([...mine.children].map((row) => [Number(row.dataset.place), row]));
    for (const [place, row] of present) if (!taste.has(place)) row.remove();
    for (const place of taste.places()) if (!present.has(place)) mine.prepend(myRow(place));
    suggested.hidden = taste.size >= ENOUGH;
  }

  function myRow(place) {
    const title = model.titles[place];
    const remove = () => {
      taste.remove(place);
      say(words.removed(title));
      document.getElementById("search").focus();
    };
    return make(
      "li",
      { "data-place": place },
      make("button.name", { type: "button", onclick: () => show(place) }, titleOf(model, place)),
      model.explicit
        ? makeRating(model, place, taste.ratingOf(place), (rating) => taste.rate(place, rating))
        : null,
      make("button.round", { type: "button", "aria-label": words.remove(title), onclick: remove }, icon(CROSS)),
    );
  }

  async function refresh() {
    const mineNow = ++turn;
    const { items, alike, milliseconds } = await ask("recommend", taste.history(), wanted);
    if (mineNow !== turn) return; // a later list is on its way
    latest = items.map(({ place }) => place);
    const anybody = taste.size === 0;
    heading.textContent = !anybody ? words.best : alike ? words.popular : words.well;
    const [bottom, top] = model.explicit ? [low, high] : [0, Math.max(...items.map((i) => i.score), 1e-9)];
    best.replaceChildren(...items.map((item) => bestRow(item, (item.score - bottom) / (top - bottom), alike)));
    took.textContent = items.length ? words.took(milliseconds) : words.nothing;
    more.hidden = items.length < wanted;
    if (items.length && !anybody) say(words.updated(items.length, model.titles[items[0].place]));
    document.dispatchEvent(new CustomEvent("recommended", { detail: latest }));
  }

  function bestRow({ place, score }, part, alike) {
    const bar = make("span.bar", { "aria-hidden": "true" }, make("span"));
    bar.firstChild.style.width = `${Math.round(100 * Math.min(Math.max(part, 0), 1))}%`;
    const title = model.titles[place];
    return make(
      "li",
      { "data-place": place },
      make(
        "button.name",
        { type: "button", onclick: () => show(place), "aria-label": words.similar(title) },
        titleOf(model, place),
        peopleOf(model, place),
      ),
      alike ? null : make("span.score", {}, bar, make("span.value", {}, TEXT.score(score))),
      make("button.round.add", { type: "button", "aria-label": words.like(title), onclick: () => like(place) }, icon(PLUS)),
    );
  }

  const chooser = make("input", {
    type: "file",
    accept: ".csv,.txt,.tsv",
    "aria-label": words.open,
    onchange: async () => {
      const rows = readLines(model, await chooser.files[0].text());
      chooser.value = "";
      opened.textContent = rows.length ? openedText(taste.addAll(rows)) : words.notOpened;
    },
  });
  const opened = make("p.dim", { role: "status" }, words.openHint);
  const openedText = ({ known, unknown }) => words.opened(known, unknown);

  suggested.append(
    make("p.dim", {}, words.start),
    make("div.chips", {}, ...wellKnown(model).map((place) => chip(place))),
  );
  function chip(place) {
    const button = make("button.chip", { type: "button", onclick: () => like(place) }, titleOf(model, place));
    taste.onChange(() => (button.hidden = taste.has(place)));
    return button;
  }

  taste.onChange(() => {
    wanted = AT_ONCE;
    listMine();
    refresh();
  });
  listMine();
  refresh();
  return make(
    "div.columns",
    {},
    make(
      "section.card",
      {},
      makeSearch(model, like),
      make("div.row", {}, count, clear),
      empty,
      mine,
      suggested,
      make("label.check", {}, keep, words.keep),
      make("details", {}, make("summary", {}, words.open), make("label.file", {}, chooser), opened),
    ),
    make("section.card", { "aria-live": "off" }, heading, best, more, took, make("p.dim", {}, TEXT.local)),
  );
}

/** The items that most people know, as far as the model says: the most popular, or the best rated ones. */
export function wellKnown(model, count = SUGGESTED) {
  const by = model.popularity ?? model.intercepts;
  const places = Array.from({ length: model.count }, (_, place) => place);
  if (by) places.sort((a, b) => by[b] - by[a]);
  return places.slice(0, count);
}
