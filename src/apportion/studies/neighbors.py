"""Do items keep their neighbors? The overlap with the not private model, and lists to look at."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.data.datasets import DATA_SETS, read_titles
from apportion.data.ids import match_ids
from apportion.errors import DataError
from apportion.recommend import Recommender
from apportion.recommend.metrics import neighbor_overlap
from apportion.studies.benchmark import (
    BUCKETS,
    COLORS,
    METHODS,
    Benchmark,
    Case,
    Row,
    Split,
)
from apportion.studies.comparison import Series
from apportion.studies.output import write_figure, write_table
from apportion.studies.slices import bar_figure

K = 20
LISTED = 6
EPSILONS = (1.0,)  # the paper's
EXPONENT = 1 / 3
FILMS = (
    "Shawshank Redemption, The",
    "Pinocchio (1940)",
    "Harry Potter and the Half-Blood Prince",
    "Nausicaä of the Valley of the Wind",
    "Interstellar",
)
COMPARED = ("DPALS uniform", "DPALS tail", "AdaDPALS")
IN_LISTS = ("ALS", "DPALS tail", "AdaDPALS")
# Where the items to look at are, if none are asked for, from the most popular item down.
QUANTILES = (1.0, 0.95, 0.8, 0.6, 0.4)

# Title and genres by item.
Titles = Mapping[Any, tuple[str, str]]


@dataclass(frozen=True)
class Neighbors:
    """Settings of the study.

    Args:
        benchmark: the data set, under its top-k protocol if it has one.
        titles: of the items, as from ``titles_of``; those without are called by their ids.
        queries: parts of titles; the most popular item that matches is looked at. By default the paper's
            films, those that there are, or some items from popular to rare.
        epsilons, seeds: the budgets, the repetitions.
        exponent: of the weights of AdaDPALS.
    """

    benchmark: Benchmark
    titles: Titles
    queries: Sequence[str] = ()
    epsilons: Sequence[float] = EPSILONS
    seeds: int = 3
    exponent: float = EXPONENT

    def __post_init__(self) -> None:
        for query in self.queries:
            if self._find(query) is None:
                raise DataError(f"{self.benchmark.name} has no item with {query!r} in its title")

    @property
    def fits(self) -> int:
        """The number of models to train."""
        return self.seeds * (1 + len(self.epsilons) * len(COMPARED))

    @property
    def not_there(self) -> list[str]:
        """The paper's films that the data set does not have, if those are looked at."""
        return [] if self.queries else [film for film in FILMS if self._find(film) is None]

    @cached_property
    def _first(self) -> Split:
        return self.benchmark.split(0)

    def case(self, name: str, epsilon: float) -> Case:
        """A model of the study."""
        adaptive = METHODS[name].budget == "adaptive"
        return Case(name, epsilon, self.exponent if adaptive else None)

    def run(self, on_fit: Callable[[], None] = lambda: None) -> "Found":
        """Train the models; ``on_fit`` is called after each."""
        overlap: list[Row] = []
        for seed in range(self.seeds):
            split = self.benchmark.split(seed) if seed else self._first
            reference = self.benchmark.model(Case("ALS"), seed).fit(split.train)
            on_fit()
            models = {}
            for epsilon, name in product(self.epsilons, COMPARED):
                model = self.benchmark.model(self.case(name, epsilon), seed).fit(split.train)
                shares = self.overlap(model, reference, split)
                where = {"data": self.benchmark.name, "method": name, "epsilon": epsilon}
                overlap.append({**where, "seed": seed, **shares})
                models[name, epsilon] = model
                on_fit()
            if seed == 0:
                lists, unknown = self.lists(reference, models)
        return Found(overlap, lists, unknown)

    def overlap(self, model: Recommender, reference: Recommender, split: Split) -> Row:
        """The share of neighbors that both have, by bucket."""
        counts = split.counts[match_ids(model.item_ids, split.train.item_ids)]
        shares = neighbor_overlap(model, reference, counts, K, BUCKETS)
        return {f"bucket_{b}": share for b, share in enumerate(shares)}

    def lists(
        self, reference: Recommender, models: Mapping[tuple[str, float], Recommender]
    ) -> tuple[list[Row], list[str]]:
        """A row for each neighbor of each item that is looked at; and the items not known to all models.

        The models are those of the first seed.
        """
        ids, counts = self._first.train.item_ids, self._first.counts
        known = np.ones(len(ids), dtype=bool)
        for model in (reference, *models.values()):
            known &= match_ids(ids, model.item_ids) >= 0
        wanted = [self._find(query) for query in self.queries or FILMS]
        found = [place for place in wanted if place is not None]
        if not found:
            choices = self._by_popularity[known[self._by_popularity]]
            found = [choices[round((1 - q) * (len(choices) - 1))] for q in QUANTILES]
        unknown = [self._title(ids[place])[0] for place in found if not known[place]]
        places = [place for place in found if known[place]]
        lists = []
        for place, epsilon, name in product(places, self.epsilons, IN_LISTS):
            model = reference if name == "ALS" else models[name, epsilon]
            neighbors, scores = model.similar_items(ids[place], LISTED, by="dot")
            for rank, item in enumerate(match_ids(neighbors, ids)):
                title, genres = self._title(ids[item])
                lists.append(
                    {
                        "query": self._title(ids[place])[0],
                        "query_genres": self._title(ids[place])[1],
                        "query_count": int(counts[place]),
                        "epsilon": epsilon,
                        "method": name,
                        "rank": rank + 1,
                        "title": title,
                        "genres": genres,
                        "count": int(counts[item]),
                        "score": float(scores[rank]),
                    }
                )
        return lists, unknown

    @cached_property
    def _by_popularity(self) -> NDArray[np.int64]:
        return np.argsort(-self._first.counts, kind="stable")

    def _title(self, item: Any) -> tuple[str, str]:
        return self.titles.get(item, (str(item), ""))

    def _find(self, query: str) -> int | None:
        """The place of the most popular item with this in its title."""
        for place in self._by_popularity:
            if query.lower() in self._title(self._first.train.item_ids[place])[0].lower():
                return int(place)
        return None


@dataclass(frozen=True)
class Found:
    """What the study finds: rows of overlaps by bucket; of the first seed, rows of neighbors, and the items
    that were to be looked at and that some model does not know."""

    overlap: list[Row]
    lists: list[Row]
    unknown: list[str]


def titles_of(name: str, path: str | Path) -> Titles:
    """The titles and genres of a data set's items, by item; none if it comes without."""
    if DATA_SETS[name].titles is None:
        return {}
    return {item: (title, genres or "") for item, title, genres in read_titles(name, path).rows()}


def write(found: Found, folder: Path) -> list[Path]:
    """Write the tables and the figure; return their paths."""
    overlap, lists = folder / "overlap.csv", folder / "neighbors.csv"
    picture = folder / "overlap.png"
    write_table(overlap, found.overlap)
    if found.lists:
        write_table(lists, found.lists)
    bars = [Series(name, {"method": name}, COLORS[METHODS[name].budget]) for name in COMPARED]
    label = f"top-{K} neighbors shared with ALS\n(higher is better)"
    write_figure(picture, bar_figure(found.overlap, bars, label))
    return [overlap, *([lists] if found.lists else []), picture]
