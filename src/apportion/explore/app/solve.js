// A user's vector, from the user's own history and the released items: the rule of FoldIn in Python.

const LOST = 1e-14; // a pivot smaller than this, times d, times the largest entry, is lost in rounding

/**
 * A user's center and vector.
 * history: [{place, rating}], place -1 for an item that the model does not know; ratings are those of a
 * model of ratings.
 */
export function solveUser(model, history, shared) {
  const center = centerOf(model, history);
  const rows = new Map(); // an event counts once
  for (const { place, rating } of history) {
    if (place >= 0 && !rows.has(place)) {
      rows.set(place, model.explicit ? rating - interceptOf(model, place) - center : 1);
    }
  }
  const { vectors, factors: d, rule } = model;
  const A = shared.slice();
  const b = new Float64Array(d);
  for (const [place, label] of rows) {
    const row = vectors.subarray(place * d, place * d + d);
    for (let i = 0; i < d; i++) {
      b[i] += label * row[i];
      for (let k = i; k < d; k++) A[i * d + k] += row[i] * row[k];
    }
  }
  const ridge = rule.regularization * Math.max(rows.size, 1) ** rule.exponent;
  for (let i = 0; i < d; i++) A[i * d + i] += ridge;
  const known = [...rows.values()].some((label) => label !== 0);
  const vector = known ? solveSymmetric(A, b) : b;
  return { center, vector: vector.every(Number.isFinite) ? vector : new Float64Array(d) };
}

/** unobserved_weight * sum over all items of u u', upper triangle of d x d. */
export function sharedMatrix({ vectors, count, factors: d, rule }) {
  const A = new Float64Array(d * d);
  if (!rule.unobserved_weight) return A;
  for (let place = 0; place < count; place++) {
    const row = vectors.subarray(place * d, place * d + d);
    for (let i = 0; i < d; i++) {
      for (let k = i; k < d; k++) A[i * d + k] += row[i] * row[k];
    }
  }
  return A.map((value) => value * rule.unobserved_weight);
}

export function interceptOf(model, place) {
  return model.intercepts && place >= 0 ? model.intercepts[place] : 0;
}

/** What is subtracted from a user's ratings, which are less their items' intercepts. */
function centerOf(model, history) {
  const { center, mean, shrinkage } = model.rule;
  if (!model.explicit || center === "none") return 0;
  if (center === "global" || history.length === 0) return mean;
  let sum = 0;
  for (const { place, rating } of history) sum += rating - interceptOf(model, place);
  return (sum + shrinkage * mean) / (history.length + shrinkage);
}

/** A^-1 b by Cholesky, for a positive semi-definite A [d x d], of which the upper triangle is read. */
function solveSymmetric(A, b) {
  const d = b.length;
  let largest = 0;
  for (let p = 0; p < d; p++) largest = Math.max(largest, A[p * d + p]);
  const least = LOST * d * largest;
  for (let p = 0; p < d; p++) {
    if (!(A[p * d + p] > least)) {
      A.fill(0, p * d + p, p * d + d);
      b[p] = 0;
      continue;
    }
    const pivot = 1 / Math.sqrt(A[p * d + p]);
    for (let k = p; k < d; k++) A[p * d + k] *= pivot;
    b[p] *= pivot;
    for (let i = p + 1; i < d; i++) {
      const factor = A[p * d + i];
      for (let k = i; k < d; k++) A[i * d + k] -= factor * A[p * d + k];
      b[i] -= factor * b[p];
    }
  }
  for (let p = d - 1; p >= 0; p--) {
    b[p] = A[p * d + p] ? b[p] / A[p * d + p] : 0;
    for (let i = 0; i < p; i++) b[i] -= A[i * d + p] * b[p];
  }
  return b;
}
