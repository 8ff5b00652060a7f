// What the map's colors may tell, and their legend. Colors are those of the page's style, by name.

import { make } from "./dom.js";
import { printable } from "./model.js";
import { TEXT } from "./text.js";

const STEPS = 6; // --scale-1 to --scale-6
const GROUPS = 8; // --group-1 to --group-8

/** Ways to color: {name, colors: [names of the style], of: Uint8Array of a color per item, ends or groups}. */
export function coloringsOf(model) {
  const words = TEXT.map;
  const found = [];
  if (model.groups) {
    const of = Uint8Array.from(model.groups.of, (group) => (group >= 0 && group < GROUPS ? group + 1 : 0));
    const colors = ["--group-0", ...model.groups.names.map((_, place) => `--group-${place + 1}`)];
    found.push({ name: words.byGroup, colors, of, names: [words.other, ...model.groups.names.map(printable)] });
  }
  if (model.popularity) {
    const logs = Array.from(model.popularity, (count) => Math.log(Math.max(count, 1)));
    found.push(scaleOf(words.byPopularity, logs, [words.least, words.most]));
  }
  if (model.intercepts) {
    found.push(scaleOf(words.byRating, Array.from(model.intercepts), [words.worst, words.liked]));
  }
  if (!found.length) found.push(scaleOf(words.byPopularity, new Array(model.count).fill(0), ["", ""]));
  return found;
}

/** Evenly between the first and the last hundredth of the values. */
function scaleOf(name, values, ends) {
  const sorted = [...values].sort((a, b) => a - b);
  const low = sorted[Math.floor(0.01 * (sorted.length - 1))];
  const high = sorted[Math.ceil(0.99 * (sorted.length - 1))];
  const of = Uint8Array.from(values, (value) => {
    const part = high > low ? (value - low) / (high - low) : 0.5;
    return Math.min(Math.max(Math.floor(part * STEPS), 0), STEPS - 1);
  });
  const colors = Array.from({ length: STEPS }, (_, step) => `--scale-${step + 1}`);
  return { name, colors, of, ends };
}

/** Elements that say what the colors mean. */
export function legendOf({ colors, names, ends }) {
  const spot = (color) => {
    const mark = make("span.spot", { "aria-hidden": "true" });
    mark.style.background = `var(${color})`;
    return mark;
  };
  if (names) return colors.map((color, place) => make("span", {}, spot(color), make("bdi", {}, names[place])));
  return [make("span", {}, ends[0]), make("span.scale", {}, ...colors.map(spot)), make("span", {}, ends[1])];
}
