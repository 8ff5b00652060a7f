// A model folder's files as what the page needs of them.

import { parseTensors } from "./safetensors.js";

/**
 * A released model:
 *   vectors: Float32Array of items x factors, row by row; count, factors
 *   intercepts: Float32Array or null; popularity: Float64Array (users per item, with noise) or null
 *   ids: texts as people know them; titles: texts, or ids where there are none
 *   tastes: whether items are told apart by who likes them; else it knows averages, or what is popular
 *   rule: how a user's vector is made (fold_in of model.json); explicit: of ratings, not of events
 */
export function readModel(settingsBuffer, tensorsBuffer) {
  const settings = JSON.parse(new TextDecoder().decode(settingsBuffer));
  const tensors = parseTensors(tensorsBuffer);
  const { shape: [count, factors], values } = tensors.get("items");
  const scales = tensors.get("items.scales")?.values;
  const ids = readIds(tensors, count);
  const titles = tensors.has("titles") ? readTexts(tensors, "titles", count, text) : ids;
  return {
    count,
    factors,
    vectors: scales ? scaled(values, scales, factors) : values,
    intercepts: tensors.get("intercepts")?.values ?? null,
    popularity: tensors.get("counts")?.values ?? null,
    ids,
    titles: titles.map((title, place) => title || ids[place]),
    tastes: settings.tastes,
    rule: settings.fold_in,
    explicit: settings.fold_in.feedback === "explicit",
  };
}

/** What the computations need, without ids and titles. */
export function numbersOf({ count, factors, vectors, intercepts, popularity, rule, explicit }) {
  return { count, factors, vectors, intercepts, popularity, rule, explicit };
}

function readIds(tensors, count) {
  const numbers = tensors.get("ids") ?? tensors.get("unsigned_ids");
  if (numbers) return Array.from(numbers.values, String);
  if (tensors.has("text_ids")) return readTexts(tensors, "text_ids", count, text);
  return readTexts(tensors, "byte_ids", count, hexadecimal);
}

/** Texts are two tensors: their bytes, one after the other, and how many of them each has. */
function readTexts(tensors, name, count, read) {
  const bytes = tensors.get(name).values;
  const sizes = tensors.get(`${name}.sizes`).values;
  const texts = new Array(count);
  let end = 0;
  for (let place = 0; place < count; place++) {
    const from = end;
    end += Number(sizes[place]);
    texts[place] = read(bytes.subarray(from, end));
  }
  return texts;
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
// What cannot be seen, or turns the direction of letters around it, is shown by a replacement.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\u2028\u2029]/gu;

/** Text of a file as it is shown. */
export const printable = (text) => text.replace(UNSEEN, "\ufffd");

const text = (bytes) => printable(decoder.decode(bytes));
const hexadecimal = (bytes) =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Vectors that were rounded to whole numbers, each item's with a scale of its own. */
function scaled(values, scales, factors) {
  const vectors = new Float32Array(values.length);
  for (let i = 0; i < values.length; i++) vectors[i] = values[i] * scales[Math.floor(i / factors)];
  return vectors;
}
