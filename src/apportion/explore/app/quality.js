// The forecast at another epsilon: charts that Python drew, one of which is shown.

import { TEXT } from "./text.js";

/** Let the slider of the panel choose among its charts; null if there is no panel. */
export function makeQuality(panel) {
  const slider = panel?.querySelector("input[type=range]");
  if (!slider) return panel;
  const charts = [...panel.querySelectorAll("[data-epsilon]")];
  const shown = panel.querySelector("output");
  const show = () => {
    charts.forEach((chart, place) => (chart.hidden = place !== Number(slider.value)));
    const said = TEXT.quality.epsilon(charts[slider.value].dataset.epsilon);
    shown.textContent = said;
    slider.setAttribute("aria-valuetext", said);
  };
  slider.addEventListener("input", show);
  show();
  return panel;
}
