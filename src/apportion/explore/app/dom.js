// Elements. Text becomes text nodes, never markup: nothing here takes HTML.

import { TEXT } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";
export const PLUS = "M12 5v14M5 12h14";
export const MINUS = "M5 12h14";
export const CROSS = "M6 6l12 12M18 6L6 18";
export const FRAME = "M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5";

/** An element: make("button.quiet", { type: "button", onclick }, "text", child, ...). */
export function make(name, settings = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  return filled(document.createElement(tag), classes, settings, children);
}

/** A mark of the page's own: paths within a square of 24 units. */
export function icon(...paths) {
  const svg = document.createElementNS(SVG, "svg");
  for (const [name, value] of [["viewBox", "0 0 24 24"], ["aria-hidden", "true"], ["class", "icon"]]) {
    svg.setAttribute(name, value);
  }
  for (const d of paths) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", d);
    svg.append(path);
  }
  return svg;
}

function filled(element, classes, settings, children) {
  if (classes.length) element.className = classes.join(" ");
  for (const [name, value] of Object.entries(settings)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** An item's title, which may be in a script that is written from right to left. */
export function titleOf(model, place) {
  return make("bdi.title", {}, model.titles[place]);
}

/** About how many people have an item, if the model says so. */
export function peopleOf(model, place) {
  return model.popularity && make("span.dim.people", {}, TEXT.people(model.popularity[place]));
}

/** Tell screen readers, without moving the focus. */
export function say(text) {
  document.getElementById("said").textContent = text;
}
