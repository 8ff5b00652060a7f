// One item: what the model says of it, and the items that are most like it.

import { CROSS, icon, make, peopleOf, titleOf } from "./dom.js";
import { likedRating } from "./taste.js";
import { TEXT } from "./text.js";

const NEIGHBORS = 10;
const FEW = 100; // people

/** A dialog; open(place) shows an item in it. showOnMap(place) is called when that is asked for. */
export function makeItemDialog(model, taste, ask, showOnMap) {
  const words = TEXT.item;
  const body = make("div.body");
  const dialog = make(
    "dialog.item",
    { "aria-labelledby": "item-title" },
    make("button.round.close", { type: "button", "aria-label": words.close, onclick: () => dialog.close() }, icon(CROSS)),
    body,
  );
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  let current = -1;

  async function open(place) {
    current = place;
    const [similar, [score]] = await Promise.all([
      model.tastes ? ask("neighbors", place, NEIGHBORS) : [],
      ask("predict", taste.history(), [place]),
    ]);
    if (current !== place) return;
    const people = model.popularity?.[place];
    body.replaceChildren(
      make("h2", { id: "item-title" }, titleOf(model, place)),
      make("p.dim", {}, [
        words.id(model.ids[place]),
        people === undefined ? null : words.users(people),
        taste.size === 0 ? null : model.explicit ? words.expected(score) : words.score(score),
      ].filter(Boolean).join(" · ")),
      ...(people < FEW ? [make("p.warn", {}, words.few)] : []),
      make("div.actions", {}, toggle(place), ...(model.tastes ? [onMap(place)] : [])),
      ...(model.tastes
        ? [make("h3", {}, words.neighbors), make("ol.best", {}, ...similar.map((other) => row(other)))]
        : [make("p.dim", {}, words.noNeighbors)]),
    );
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  }

  function onMap(place) {
    return make("button", { type: "button", onclick: () => {
      dialog.close();
      showOnMap(place);
    } }, words.show);
  }

  function toggle(place) {
    const text = () => (taste.has(place) ? words.remove : words.add);
    const button = make("button.main", { type: "button", onclick: () => {
      if (taste.has(place)) taste.remove(place);
      else taste.rate(place, likedRating(model));
      button.textContent = text();
    } }, text());
    return button;
  }

  function row({ place, score }) {
    const bar = make("span.bar", { "aria-hidden": "true" }, make("span"));
    bar.firstChild.style.width = `${Math.round(100 * Math.min(Math.max(score, 0), 1))}%`;
    return make(
      "li",
      { "data-place": place },
      make(
        "button.name",
        { type: "button", onclick: () => open(place) },
        titleOf(model, place),
        peopleOf(model, place),
      ),
      make("span.score", {}, bar, make("span.value", {}, TEXT.score(score))),
    );
  }

  return open;
}
