// The worker: it is given a model once, then questions; it sends nothing anywhere but to the page.

import { makeEngine } from "./engine.js";

let engine = null;

self.onmessage = ({ data: { number, question, values } }) => {
  try {
    if (question === "model") engine = makeEngine(values[0]);
    const answer = question === "model" ? null : engine[question](...values);
    self.postMessage({ number, answer });
  } catch (error) {
    self.postMessage({ number, failed: String(error.message ?? error) });
  }
};
