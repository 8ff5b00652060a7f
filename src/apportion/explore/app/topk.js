// The highest of many scores.

/** Places of the k highest scores, best first; equal ones by their place. NaN and -Infinity are left out. */
export function highest(scores, k) {
  const heap = []; // the worst of the best is at the root
  const worse = (a, b) => scores[a] < scores[b] || (scores[a] === scores[b] && a > b);
  const sink = (node) => {
    for (;;) {
      let least = node;
      for (const child of [2 * node + 1, 2 * node + 2]) {
        if (child < heap.length && worse(heap[child], heap[least])) least = child;
      }
      if (least === node) return;
      [heap[node], heap[least]] = [heap[least], heap[node]];
      node = least;
    }
  };
  let bar = -Infinity;
  for (let place = 0; place < scores.length; place++) {
    if (!(scores[place] > bar)) continue;
    if (heap.length < k) {
      heap.push(place);
      if (heap.length === k) for (let node = k >> 1; node >= 0; node--) sink(node);
    } else {
      heap[0] = place;
      sink(0);
    }
    if (heap.length === k && k > 0) bar = scores[heap[0]];
  }
  return heap.sort((a, b) => scores[b] - scores[a] || a - b);
}
