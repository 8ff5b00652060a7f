// A map of the items: their vectors, all of length one, in the plane in which they differ most.

const SWEEPS = 60;

/** Two coordinates of every item, [2 x count], between -1 and 1: the first two principal components. */
export function flatten({ vectors, count, factors: d }) {
  const unit = new Float32Array(vectors.length);
  const mean = new Float64Array(d);
  for (let place = 0; place < count; place++) {
    let sum = 0;
    for (let i = place * d; i < (place + 1) * d; i++) sum += vectors[i] * vectors[i];
    const scale = sum > 0 ? 1 / Math.sqrt(sum) : 0;
    for (let k = 0; k < d; k++) {
      unit[place * d + k] = vectors[place * d + k] * scale;
      mean[k] += unit[place * d + k] / count;
    }
  }
  const axes = principalAxes(covariance(unit, mean, count, d), d);
  const points = new Float32Array(2 * count);
  for (let place = 0; place < count; place++) {
    for (let axis = 0; axis < axes.length; axis++) {
      let sum = 0;
      for (let k = 0; k < d; k++) sum += (unit[place * d + k] - mean[k]) * axes[axis][k];
      points[2 * place + axis] = sum;
    }
  }
  return filling(points);
}

/** Moved and stretched along each axis, so that they lie between -1 and 1. */
function filling(points) {
  const low = [Infinity, Infinity];
  const high = [-Infinity, -Infinity];
  points.forEach((value, i) => {
    low[i % 2] = Math.min(low[i % 2], value);
    high[i % 2] = Math.max(high[i % 2], value);
  });
  return points.map((value, i) => {
    const half = (high[i % 2] - low[i % 2]) / 2;
    return half > 0 ? (value - low[i % 2]) / half - 1 : 0;
  });
}

function covariance(unit, mean, count, d) {
  const C = new Float64Array(d * d);
  const row = new Float64Array(d);
  for (let place = 0; place < count; place++) {
    for (let k = 0; k < d; k++) row[k] = unit[place * d + k] - mean[k];
    for (let i = 0; i < d; i++) {
      for (let k = i; k < d; k++) C[i * d + k] += row[i] * row[k];
    }
  }
  for (let i = 0; i < d; i++) for (let k = 0; k < i; k++) C[i * d + k] = C[k * d + i];
  return C;
}

/** The eigenvectors of the two largest eigenvalues, by powers of the matrix, one after the other. */
function principalAxes(C, d) {
  const axes = [];
  for (let axis = 0; axis < Math.min(2, d); axis++) {
    let vector = Float64Array.from({ length: d }, (_, k) => Math.cos(1 + axis + 2 * k)); // any start
    for (let sweep = 0; sweep < SWEEPS; sweep++) {
      for (const found of axes) {
        const along = dot(vector, found);
        vector = vector.map((value, k) => value - along * found[k]);
      }
      const next = new Float64Array(d);
      for (let i = 0; i < d; i++) {
        for (let k = 0; k < d; k++) next[i] += C[i * d + k] * vector[k];
      }
      const norm = Math.sqrt(dot(next, next));
      if (!(norm > 0)) break;
      vector = next.map((value) => value / norm);
    }
    axes.push(vector);
  }
  return axes;
}

function dot(a, b) {
  let sum = 0;
  for (let k = 0; k < a.length; k++) sum += a[k] * b[k];
  return sum;
}
