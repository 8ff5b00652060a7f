"""Do items keep their neighbors? The overlap with the not private model, and lists to look at."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.data.datasets import DATA_SETS, read_titles
from apportion.data.ids import match_ids
from apportion.errors import DataError
from apportion.recommend import MatrixFactorization
from apportion.recommend.metrics import neighbor_overlap
from apportion.studies.benchmark import (
    BUCKETS,
    COLORS,
    EPSILONS,
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
        queries: parts of titles; the most popular item that matches is looked at.
        epsilons, seeds: the budgets, the repetitions.
    """

    benchmark: Benchmark
    titles: Titles
    queries: Sequence[str] = ()
    epsilons: Sequence[float] = EPSILONS
    seeds: int = 3

    @property
    def fits(self) -> int:
        """The number of models to train."""
        return self.seeds * (1 + len(self.epsilons) * len(COMPARED))

    def run(self, on_fit: Callable[[], None] = lambda: None) -> "Found":
        """Train the models; ``on_fit`` is called after each."""
        overlap: list[Row] = []
        lists: list[Row] = []
        for seed in range(self.seeds):
            split = self.benchmark.split(seed)
            reference = self.benchmark.model(Case("ALS"), seed).fit(split.train)
            on_fit()
            models = {}
            for epsilon, name in product(self.epsilons, COMPARED):
                model = self.benchmark.model(Case(name, epsilon), seed).fit(split.train)
                counts = split.counts[match_ids(model.item_ids, split.train.item_ids)]
                shares = neighbor_overlap(model, reference, counts, K, BUCKETS)
                where = {"data": self.benchmark.name, "method": name, "epsilon": epsilon}
                buckets = {f"bucket_{b}": share for b, share in enumerate(shares)}
                overlap.append({**where, "seed": seed, **buckets})
                models[name, epsilon] = model
                on_fit()
            if seed == 0:
                lists = self._lists(split, reference, models)
        return Found(overlap, lists)

    def _lists(
        self,
        split: Split,
        reference: MatrixFactorization,
        models: Mapping[tuple[str, float], MatrixFactorization],
    ) -> list[Row]:
        """A row for each neighbor of each item that is looked at."""
        ids = split.train.item_ids
        known = np.ones(len(ids), dtype=bool)
        for model in (reference, *models.values()):
            known &= match_ids(ids, model.item_ids) >= 0
        by_popularity = np.argsort(-split.counts, kind="stable")
        choices = by_popularity[known[by_popularity]]
        if self.queries:
            places = [self._find(query, ids[choices]) for query in self.queries]
        else:
            places = [round((1 - quantile) * (len(choices) - 1)) for quantile in QUANTILES]
        lists = []
        for place, epsilon, name in product(choices[places], self.epsilons, IN_LISTS):
            model = reference if name == "ALS" else models[name, epsilon]
            neighbors, scores = model.similar_items(ids[place], LISTED, by="dot")
            of_neighbor = match_ids(neighbors, ids)
            for rank, item in enumerate(of_neighbor):
                title, genres = self._title(ids[item])
                lists.append(
                    {
                        "query": self._title(ids[place])[0],
                        "query_genres": self._title(ids[place])[1],
                        "query_count": int(split.counts[place]),
                        "epsilon": epsilon,
                        "method": name,
                        "rank": rank + 1,
                        "title": title,
                        "genres": genres,
                        "count": int(split.counts[item]),
                        "score": float(scores[rank]),
                    }
                )
        return lists

    def _title(self, item: Any) -> tuple[str, str]:
        return self.titles.get(item, (str(item), ""))

    def _find(self, query: str, items: NDArray[Any]) -> int:
        for place, item in enumerate(items):
            if query.lower() in self._title(item)[0].lower():
                return place
        raise DataError(f"no item that all models know has {query!r} in its title")


@dataclass(frozen=True)
class Found:
    """What the study finds: rows of overlaps by bucket, and rows of neighbors, of the first seed."""

    overlap: list[Row]
    lists: list[Row]


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
    write_table(lists, found.lists)
    bars = [Series(name, {"method": name}, COLORS[METHODS[name].budget]) for name in COMPARED]
    label = f"top-{K} neighbors shared with ALS\n(higher is better)"
    write_figure(picture, bar_figure(found.overlap, bars, label))
    return [overlap, lists, picture]
