// How a rating is given: stars where there are few, else a slider.

import { make } from "./dom.js";
import { ratingRange } from "./taste.js";
import { TEXT } from "./text.js";

const MOST_STARS = 10;

/** A control for the rating of one item; change(rating) is called when it is moved. */
export function makeRating(model, place, rating, change) {
  const [low, high] = ratingRange(model);
  const label = TEXT.taste.rate(model.titles[place]);
  if (Number.isInteger(low) && Number.isInteger(high) && high - low < MOST_STARS) {
    return stars(low, high, place, rating, label, change);
  }
  const step = (high - low) / 20;
  const shown = make("output.value", {}, TEXT.score(rating));
  const slider = make("input", {
    type: "range",
    min: low,
    max: high,
    step,
    value: rating,
    "aria-label": label,
    oninput: () => (shown.textContent = TEXT.score(Number(slider.value))),
    onchange: () => change(Number(slider.value)),
  });
  return make("span.slider", {}, slider, shown);
}

function stars(low, high, place, rating, label, change) {
  const group = make("fieldset.stars", { "aria-label": label });
  const paint = (value) => {
    for (const star of group.children) {
      star.classList.toggle("on", Number(star.firstChild.value) <= value);
    }
  };
  for (let value = low; value <= high; value++) {
    const input = make("input", {
      type: "radio",
      name: `rating-${place}`,
      value,
      checked: value === rating,
      "aria-label": TEXT.taste.stars(value),
      onchange: () => {
        paint(value);
        change(value);
      },
    });
    group.append(make("label", {}, input, "★"));
  }
  paint(rating);
  return group;
}
