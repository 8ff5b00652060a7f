// The page's side of the worker: a question is a promise of its answer.

import { numbersOf } from "./model.js";

/** What asks a new worker about a model: ask(question, ...values). */
export async function startWorker({ address, type }, model) {
  // By this name the page's policy lets one text become a script, and no other.
  const policy = self.trustedTypes?.createPolicy("worker", { createScriptURL: (text) => text });
  const worker = new Worker(policy ? policy.createScriptURL(address) : address, { type });
  const waiting = new Map();
  let asked = 0;
  worker.onmessage = ({ data: { number, answer, failed } }) => {
    const { resolve, reject } = waiting.get(number);
    waiting.delete(number);
    if (failed === undefined) resolve(answer);
    else reject(new Error(failed));
  };
  worker.onerror = (event) => {
    for (const { reject } of waiting.values()) reject(new Error(event.message || "the worker failed"));
    waiting.clear();
  };
  const ask = (question, ...values) =>
    new Promise((resolve, reject) => {
      const number = asked++;
      waiting.set(number, { resolve, reject });
      worker.postMessage({ number, question, values });
    });
  await ask("model", numbersOf(model));
  return ask;
}
