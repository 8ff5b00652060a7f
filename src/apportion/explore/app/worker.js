// The worker: it is given a model once, then questions; it sends nothing anywhere but to the page.

import { makeEngine } from "./engine.js";

const WARMUPS = 3;
let engine = null;

self.onmessage = ({ data: { number, question, values } }) => {
  try {
    if (question === "model") engine = makeEngine(values[0]);
    const answer = question === "model" ? null : engine[question](...values);
    self.postMessage({ number, answer });
    if (question === "model") warmUp(values[0]);
  } catch (error) {
    self.postMessage({ number, failed: String(error.message ?? error) });
  }
};

/** The browser compiles what it has seen run: before the first list is asked for, not while it is waited for. */
function warmUp({ count, rule }) {
  const history = [{ place: count ? 0 : -1, rating: rule.rating_range?.[1] ?? 1 }];
  try {
    for (let turn = 0; turn < WARMUPS; turn++) engine.recommend(history, 1);
  } catch {
    // It fails again, and is told, when somebody asks.
  }
}
