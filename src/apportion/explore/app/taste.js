// A person's list: in the memory of the page, and in the browser's store only if the person asks for it.

const KEPT = "apportion: my list";

/** A list of {place, rating} that tells when it changes. */
export function makeTaste(model) {
  const listeners = [];
  let rated = new Map();
  let strangers = []; // ratings of items that the model does not know: they count for a person's mean
  let kept = false;

  function changed() {
    if (kept) store(JSON.stringify([...rated].map(([place, rating]) => [model.ids[place], rating])));
    for (const listener of listeners) listener();
  }

  const taste = {
    onChange: (listener) => listeners.push(listener),
    has: (place) => rated.has(place),
    get size() {
      return rated.size;
    },
    get kept() {
      return kept;
    },
    places: () => [...rated.keys()],
    ratingOf: (place) => rated.get(place),
    history: () => [
      ...[...rated].map(([place, rating]) => ({ place, rating })),
      ...strangers.map((rating) => ({ place: -1, rating })),
    ],
    rate(place, rating) {
      rated.set(place, rating);
      changed();
    },
    remove(place) {
      rated.delete(place);
      changed();
    },
    clear() {
      rated = new Map();
      strangers = [];
      changed();
    },
    /** Add what a file or the store said: [[id, rating]]; how many items the model knows, and does not. */
    addAll(rows) {
      const places = new Map(model.ids.map((id, place) => [id, place]));
      const before = strangers.length;
      let known = 0;
      for (const [id, rating] of rows) {
        const place = places.get(id);
        if (place === undefined) strangers.push(rating);
        else {
          rated.set(place, rating);
          known++;
        }
      }
      changed();
      return { known, unknown: strangers.length - before };
    },
    keep(wanted) {
      kept = wanted;
      if (kept) changed();
      else store(null);
    },
    /** Take up a list that was kept before, if there is one. */
    recall() {
      const text = stored();
      if (text === null) return;
      kept = true;
      try {
        taste.addAll(JSON.parse(text).filter(([id, rating]) => valid(model, id, rating)));
      } catch {
        store(null); // not a list of ours
      }
    },
  };
  return taste;
}

/** The lines "id,rating" (or "id") of a text that are valid. */
export function readLines(model, text) {
  const rows = text.split(/\r?\n/).map((line) => {
    const [id, rating] = line.split(/[,;\t]/).map((cell) => cell.trim().replace(/^"(.*)"$/, "$1"));
    return [id, rating === undefined || rating === "" ? NaN : Number(rating)];
  });
  return rows.filter(([id, rating]) => valid(model, id, rating));
}

function valid(model, id, rating) {
  if (typeof id !== "string" || id === "") return false;
  if (!model.explicit) return true;
  const [low, high] = ratingRange(model);
  return Number.isFinite(rating) && rating >= low && rating <= high;
}

/** What ratings there are. */
export function ratingRange(model) {
  return model.rule.rating_range ?? [1, 5];
}

/** The rating of what somebody likes, until the person says otherwise: four of five stars. */
export function likedRating(model) {
  const [low, high] = ratingRange(model);
  const rating = high - (high - low) / 4;
  return Number.isInteger(low) && Number.isInteger(high) ? Math.round(rating) : rating;
}

function stored() {
  try {
    return localStorage.getItem(KEPT);
  } catch {
    return null; // a browser that keeps nothing
  }
}

function store(text) {
  try {
    if (text === null) localStorage.removeItem(KEPT);
    else localStorage.setItem(KEPT, text);
  } catch {
    // a browser that keeps nothing
  }
}
