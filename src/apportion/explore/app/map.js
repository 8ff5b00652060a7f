// The map of items: a canvas that is dragged and zoomed, and a list of what is in view for those who see none.

import { drawMap, scaleOf } from "./drawing.js";
import { FRAME, MINUS, PLUS, icon, make, titleOf } from "./dom.js";
import { coloringsOf, legendOf } from "./colors.js";
import { TEXT } from "./text.js";

const MOST_ZOOM = 400;
const REACH = 16; // pixels around a point that count as a click on it
const LISTED = 12;
const MOVE = 60; // pixels for a press of an arrow key

/** The view, and what shows one item on it. */
export function makeMap(model, taste, ask, open) {
  const words = TEXT.map;
  const colorings = coloringsOf(model);
  const canvas = make("canvas", { tabindex: 0, role: "img", "aria-label": words.label(model.count) });
  const choice = make(
    "select",
    { id: "color", onchange: () => draw() },
    ...colorings.map(({ name }, place) => make("option", { value: place }, name)),
  );
  const legend = make("div.legend");
  const inView = make("ul.chips");
  const inViewTitle = make("summary", {}, words.inView(model.count));
  const state = { points: null, x: 0, y: 0, zoom: 1, chosen: -1, hovered: -1, recommended: [] };
  const best = model.popularity ?? model.intercepts ?? new Float64Array(model.count);
  const order = Uint32Array.from({ length: model.count }, (_, place) => place);
  order.sort((a, b) => best[b] - best[a]);
  let waiting = false;

  function draw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      if (view.hidden || !state.points) return;
      const coloring = colorings[Number(choice.value)];
      const seen = drawMap(canvas, { ...state, order, model, taste, coloring });
      legend.replaceChildren(...legendOf(coloring));
      inViewTitle.textContent = words.inView(seen.count);
      inView.replaceChildren(...seen.known.slice(0, LISTED).map((place) => make("li", {},
        make("button.chip", { type: "button", onclick: () => open(place) }, titleOf(model, place)))));
    });
  }

  /** From pixels to the map's units. */
  const size = () => scaleOf(canvas.clientWidth, canvas.clientHeight, state.zoom);
  const toX = (px) => (px - canvas.clientWidth / 2) / size()[0] + state.x;
  const toY = (py) => (canvas.clientHeight / 2 - py) / size()[1] + state.y;

  function zoomBy(factor, px = canvas.clientWidth / 2, py = canvas.clientHeight / 2) {
    const [x, y] = [toX(px), toY(py)];
    state.zoom = Math.min(Math.max(state.zoom * factor, 0.8), MOST_ZOOM);
    state.x += x - toX(px);
    state.y += y - toY(py);
    draw();
  }

  function moveBy(px, py) {
    state.x -= px / size()[0];
    state.y += py / size()[1];
    draw();
  }

  function whole() {
    Object.assign(state, { x: 0, y: 0, zoom: 1, chosen: -1 });
    draw();
  }

  function nearest(px, py) {
    const [x, y, [wide, high]] = [toX(px), toY(py), size()];
    let found = -1;
    let least = REACH * REACH;
    for (let place = 0; place < model.count; place++) {
      const dx = (state.points[2 * place] - x) * wide;
      const dy = (state.points[2 * place + 1] - y) * high;
      if (dx * dx + dy * dy < least) {
        least = dx * dx + dy * dy;
        found = place;
      }
    }
    return found;
  }

  const pointers = new Map();
  let moved = 0;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, event);
    moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const last = pointers.get(event.pointerId);
    if (!last) {
      const hovered = state.points ? nearest(event.offsetX, event.offsetY) : -1;
      if (hovered !== state.hovered) {
        state.hovered = hovered;
        canvas.classList.toggle("over", hovered >= 0);
        draw();
      }
      return;
    }
    const before = spread();
    pointers.set(event.pointerId, event);
    const [dx, dy] = [event.offsetX - last.offsetX, event.offsetY - last.offsetY];
    moved += Math.abs(dx) + Math.abs(dy);
    moveBy(dx / pointers.size, dy / pointers.size);
    if (pointers.size === 2 && before > 0) zoomBy(spread() / before, ...middle());
  });
  const spread = () => {
    const [a, b] = [...pointers.values()];
    return b ? Math.hypot(a.offsetX - b.offsetX, a.offsetY - b.offsetY) : 0;
  };
  const middle = () => {
    const [a, b] = [...pointers.values()];
    return [(a.offsetX + b.offsetX) / 2, (a.offsetY + b.offsetY) / 2];
  };
  canvas.addEventListener("pointerup", (event) => {
    pointers.delete(event.pointerId);
    const place = moved < 6 && state.points ? nearest(event.offsetX, event.offsetY) : -1;
    if (place < 0) return;
    state.chosen = place;
    draw();
    open(place);
  });
  canvas.addEventListener("pointercancel", (event) => pointers.delete(event.pointerId));
  canvas.addEventListener("pointerleave", () => {
    state.hovered = -1;
    draw();
  });
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      zoomBy(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0016)), event.offsetX, event.offsetY);
    },
    { passive: false },
  );
  canvas.addEventListener("keydown", (event) => {
    const keys = {
      ArrowLeft: () => moveBy(MOVE, 0),
      ArrowRight: () => moveBy(-MOVE, 0),
      ArrowUp: () => moveBy(0, MOVE),
      ArrowDown: () => moveBy(0, -MOVE),
      "+": () => zoomBy(1.5),
      "=": () => zoomBy(1.5),
      "-": () => zoomBy(1 / 1.5),
      0: whole,
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });

  const button = (name, path, press) =>
    make("button.round", { type: "button", "aria-label": name, onclick: press }, icon(path));
  const view = make(
    "div.view",
    {},
    make(
      "section.card.map",
      {},
      make("div.row", {}, make("label", {}, `${words.color} `, choice), legend),
      make(
        "div.canvas",
        {},
        canvas,
        make(
          "div.zoom",
          {},
          button(words.zoomIn, PLUS, () => zoomBy(1.6)),
          button(words.zoomOut, MINUS, () => zoomBy(1 / 1.6)),
          button(words.whole, FRAME, whole),
        ),
      ),
      make("p.dim", {}, words.hint),
      make("details", {}, inViewTitle, inView),
      make("p.dim", {}, words.about),
    ),
  );
  view.addEventListener("opened", async () => {
    if (!state.points) state.points = await ask("map");
    draw();
  });
  new ResizeObserver(draw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  taste.onChange(draw);
  document.addEventListener("recommended", ({ detail }) => {
    state.recommended = detail;
    draw();
  });

  async function show(place) {
    if (!state.points) state.points = await ask("map");
    const [x, y] = state.points.subarray(2 * place, 2 * place + 2);
    Object.assign(state, { x, y, zoom: Math.max(state.zoom, 6), chosen: place });
    draw();
    canvas.focus();
  }

  return { view, show };
}
