// Everything that is computed. The page asks it through a worker, so that typing and scrolling never wait.

import { flatten } from "./projection.js";
import { interceptOf, sharedMatrix, solveUser } from "./solve.js";
import { highest } from "./topk.js";

/** What answers questions about one model: an object of functions. */
export function makeEngine(model) {
  const { vectors, count, factors: d } = model;
  const shared = sharedMatrix(model);
  let norms = null;

  function products(vector) {
    const scores = new Float64Array(count);
    for (let place = 0, i = 0; place < count; place++) {
      let sum = 0;
      for (let k = 0; k < d; k++, i++) sum += vectors[i] * vector[k];
      scores[place] = sum;
    }
    return scores;
  }

  function within(score) {
    const range = model.rule.rating_range;
    return range ? Math.min(Math.max(score, range[0]), range[1]) : score;
  }

  /** The score of every place: that of Python's predict. */
  function predict(history, places) {
    const { center, vector } = solveUser(model, history, shared);
    return places.map((place) => {
      if (place < 0) return within(center);
      let sum = center + interceptOf(model, place);
      for (let k = 0; k < d; k++) sum += vectors[place * d + k] * vector[k];
      return within(sum);
    });
  }

  /** The k best items that are not in the history: [{place, score}], and how long it took. */
  function recommend(history, k) {
    const begun = performance.now();
    const { center, vector } = solveUser(model, history, shared);
    const scores = products(vector);
    if (model.intercepts) {
      for (let place = 0; place < count; place++) scores[place] += model.intercepts[place];
    }
    // Who has a vector of zero, and so the same score for all items, gets what is popular first.
    const alike = !model.intercepts && model.popularity && vector.every((value) => value === 0);
    const ranked = alike ? Float64Array.from(model.popularity) : scores;
    for (const { place } of history) if (place >= 0) ranked[place] = -Infinity;
    const items = highest(ranked, Math.min(k, count)).map((place) => ({
      place,
      score: within(center + scores[place]),
    }));
    return { items, alike: Boolean(alike), vector, milliseconds: performance.now() - begun };
  }

  /** The k items whose vectors have the smallest angle to this one's: [{place, score}]. */
  function neighbors(place, k) {
    norms ??= Float64Array.from({ length: count }, (_, row) => {
      let sum = 0;
      for (let i = row * d; i < (row + 1) * d; i++) sum += vectors[i] * vectors[i];
      return Math.max(Math.sqrt(sum), 1e-30);
    });
    const scores = products(vectors.subarray(place * d, place * d + d));
    for (let other = 0; other < count; other++) scores[other] /= norms[other] * norms[place];
    scores[place] = -Infinity;
    return highest(scores, k).map((other) => ({ place: other, score: scores[other] }));
  }

  return { recommend, predict, neighbors, map: () => flatten(model) };
}
