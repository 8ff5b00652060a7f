// What is painted on the map's canvas.

const MOST_LABELS = 28;
const MOST_TRIED = 600;
const LETTER = 12;

/** How many pixels the map's unit is, in width and in height. */
export function scaleOf(width, height, zoom) {
  return [0.47 * zoom * Math.min(width, 1.8 * height), 0.47 * zoom * Math.min(height, 1.4 * width)];
}

/** Paint; returns how many items are in view, and the best known of them. */
export function drawMap(canvas, map) {
  const { model, points, order, coloring, taste, recommended, zoom } = map;
  const [width, height, sharp] = [canvas.clientWidth, canvas.clientHeight, devicePixelRatio || 1];
  if (canvas.width !== Math.round(width * sharp) || canvas.height !== Math.round(height * sharp)) {
    canvas.width = Math.round(width * sharp);
    canvas.height = Math.round(height * sharp);
  }
  const style = getComputedStyle(canvas);
  const color = (name) => style.getPropertyValue(name).trim();
  const pen = canvas.getContext("2d");
  pen.setTransform(sharp, 0, 0, sharp, 0, 0);
  pen.clearRect(0, 0, width, height);

  const [wide, high] = scaleOf(width, height, zoom);
  const x = (place) => width / 2 + (points[2 * place] - map.x) * wide;
  const y = (place) => height / 2 - (points[2 * place + 1] - map.y) * high;
  const inside = (place) => x(place) > -9 && x(place) < width + 9 && y(place) > -9 && y(place) < height + 9;
  const seen = [];
  for (const place of order) if (inside(place)) seen.push(place);

  // The best known last, on top of the others.
  const colors = coloring.colors.map(color);
  const radius = Math.min(7, Math.max(1, (200 * Math.sqrt(zoom)) / Math.sqrt(3600 + model.count)));
  pen.globalAlpha = 0.82;
  for (let rank = seen.length - 1; rank >= 0; rank--) {
    const place = seen[rank];
    pen.fillStyle = colors[coloring.of[place]];
    dot(place, radius * (rank < 60 ? 1.5 : 1));
  }
  pen.globalAlpha = 1;
  for (const place of recommended) ring(place, color("--accent"), 2);
  for (const place of taste.places()) ring(place, color("--mine"), 3);
  if (map.chosen >= 0) ring(map.chosen, color("--ap-ink"), 3);

  const first = [map.hovered, map.chosen, ...taste.places(), ...recommended.slice(0, 8)].filter((p) => p >= 0);
  const labels = [];
  pen.font = `${LETTER}px system-ui, sans-serif`;
  pen.textBaseline = "middle";
  for (const place of [...new Set([...first, ...seen.slice(0, MOST_TRIED)])]) {
    if (labels.length >= MOST_LABELS) break;
    if (inside(place)) label(place);
  }
  return { count: seen.length, known: seen };

  function dot(place, r) {
    pen.beginPath();
    pen.arc(x(place), y(place), r, 0, 2 * Math.PI);
    pen.fill();
  }

  function ring(place, stroke, thick) {
    pen.strokeStyle = stroke;
    pen.lineWidth = thick;
    pen.beginPath();
    pen.arc(x(place), y(place), radius + 4, 0, 2 * Math.PI);
    pen.stroke();
  }

  /** A title beside its point, where no other title is. */
  function label(place) {
    const title = model.titles[place];
    const text = title.length > 30 ? `${title.slice(0, 29)}…` : title;
    const wide = pen.measureText(text).width;
    const right = x(place) + radius + 5;
    const left = right + wide > width ? Math.max(3, x(place) - radius - 5 - wide) : right;
    const box = [left - 3, y(place) - LETTER, left + wide + 3, y(place) + LETTER];
    if (labels.some((b) => b[0] < box[2] && box[0] < b[2] && b[1] < box[3] && box[1] < b[3])) return;
    labels.push(box);
    pen.lineWidth = 4;
    pen.lineJoin = "round";
    pen.strokeStyle = color("--card");
    pen.strokeText(text, left, y(place));
    pen.fillStyle = color("--ap-ink");
    pen.fillText(text, left, y(place));
  }
}
