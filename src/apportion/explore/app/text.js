// Every English word that the page's scripts show, in one place. Numbers are formatted here, too.

const number = new Intl.NumberFormat("en-US");
const about = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 2 });
const decimals = new Intl.NumberFormat("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });

const items = (count) => `${number.format(count)} ${count === 1 ? "item" : "items"}`;

const tastes = ({ tastes, explicit, factors }) =>
  tastes ? `${factors} factors` : explicit ? "averages alone" : "popularity alone";

export const TEXT = {
  tabs: { taste: "For you", map: "Map", privacy: "Privacy", quality: "Quality" },
  tabsLabel: "Views",
  loading: "Reading the model …",
  loaded: (model, seconds) =>
    `${items(model.count)}, ${tastes(model)}, read in ${decimals.format(seconds)} s`,
  failed: (why) => `The model cannot be shown: ${why}.`,
  local: "Computed on this device. Your list is sent nowhere: this page cannot send anything.",

  taste: {
    search: (count) => `Search ${items(count)} by title`,
    searchShort: "Search",
    found: (count) => (count ? `${items(count)} found` : "No title holds that"),
    start: "Widely known; click what you like:",
    list: (count) => (count ? `Your list (${number.format(count)})` : "Your list"),
    empty: "Nothing yet. Search, or pick something below.",
    rate: (title) => `Your rating of ${title}`,
    stars: (value) => `${value}`,
    remove: (title) => `Remove ${title} from your list`,
    clear: "Clear",
    keep: "Keep my list in this browser",
    open: "Open a file of yours",
    openHint: "CSV: an item's id and, for ratings, a rating a line. It is read here, not sent.",
    opened: (known, unknown) =>
      `${items(known)} added${unknown ? `; ${items(unknown)} not known to the model` : ""}`,
    notOpened: "No line of this file names an item and, for a model of ratings, a rating.",
    added: (title) => `${title} is on your list`,
    removed: (title) => `${title} is off your list`,
    best: "Recommended for you",
    popular: "Popular with everybody",
    well: "Well liked by everybody",
    nothing: "Nothing is left to recommend.",
    took: (milliseconds) => `Your vector and all scores took ${decimals.format(milliseconds)} ms.`,
    more: "Show more",
    like: (title) => `Add ${title} to your list`,
    liked: "On your list",
    similar: (title) => `More about ${title}`,
    updated: (count, best) => `${number.format(count)} recommendations; the best is ${best}`,
  },

  item: {
    close: "Close",
    id: (id) => `Item ${id}`,
    users: (count) =>
      count < 10 ? "under 10 people have it" : `about ${about.format(count)} people have it`,
    few: "Few people have it, so what the model says of it is mostly noise.",
    expected: (score) => `your expected rating: ${decimals.format(score)}`,
    score: (score) => `your score: ${decimals.format(score)}`,
    neighbors: "Most similar items",
    noNeighbors: "This model knows averages alone and nobody's taste: it cannot say which items are alike.",
    add: "Add to your list",
    remove: "Remove from your list",
    show: "Show on the map",
  },

  map: {
    label: (count) =>
      `A map of ${items(count)}: near ones are liked by the same people. Arrow keys move it, plus and ` +
      "minus zoom. The items in view are listed below it.",
    hint: "Drag to move, scroll or pinch to zoom, click an item.",
    color: "Color by",
    byPopularity: "popularity",
    byGroup: "group",
    byRating: "average rating",
    zoomIn: "Zoom in",
    zoomOut: "Zoom out",
    whole: "Whole map",
    least: "few",
    most: "many",
    worst: "low",
    liked: "high",
    yours: "yours",
    forYou: "recommended",
    other: "other",
    inView: (count) => `Items in view: ${number.format(count)}; the best known of them`,
    about:
      "The released vectors, each of length one, in the plane in which they differ most. Two numbers " +
      "cannot tell all of it: an item's own list of similar items is exact.",
  },

  quality: {
    epsilon: (epsilon) => `epsilon = ${epsilon}`,
  },

  score: (value) => decimals.format(value),
  people: (count) => (count < 10 ? "under 10 people" : `~${about.format(count)} people`),
};
