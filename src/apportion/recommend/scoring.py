"""Scores of a released model: one rule for one user and for many, for ratings and for lists.

A score is the user's center (ratings), the item's intercept and the product of their vectors; of a model of
ratings it is a rating within the range. Lists are in the order of the scores before they are brought into
the range. Who has a vector of zero, and so the same score for all items, gets what is popular first.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from apportion.data import Interactions
from apportion.data.ids import IdIndex, Integers, is_text, read_ids
from apportion.engine.topk import ItemScores, top
from apportion.engine.users import UserSolver
from apportion.errors import DataError, ParameterError, printable
from apportion.privacy.bounds import row_sums
from apportion.recommend.diversity import diversify
from apportion.recommend.histories import History, Rows, read_history
from apportion.recommend.model import Array, ItemModel, Scores

# Scores of this many users and items are held at once.
BLOCK_BYTES = 64 * 2**20
# So many items for each one wanted are looked at for a list that is to be diverse.
_POOL = 10


@dataclass(frozen=True, eq=False)
class Wanted:
    """What a list may hold.

    Attributes
        k: how many items.
        seen: whether items of the history may be recommended.
        left_out: places of items that may not, [.].
        among: places of the only items that may, [.], or None for all.
        diversity: from 0, the best, to 1, the most different.
    """

    k: int
    seen: bool = False
    left_out: Integers | None = None
    among: Integers | None = None
    diversity: float = 0.0


class Scorer:
    """What a released model needs for scoring; made when it is first used, once for all users."""

    def __init__(self, model: ItemModel) -> None:
        self.model = model

    @cached_property
    def _index(self) -> IdIndex:
        return IdIndex(self.model.item_ids)

    @cached_property
    def _solver(self) -> UserSolver:
        return self.model.fold_in.solver(self.model.items)

    @cached_property
    def _scores(self) -> ItemScores:
        return ItemScores(self.model.items)

    @cached_property
    def _intercepts(self) -> Array:
        """Of the items, and 0 for one that is not known, which is at place -1, [items + 1]."""
        intercepts = self.model.intercepts
        known = np.zeros(len(self.model.items)) if intercepts is None else intercepts
        return np.append(known.astype(np.float64), 0.0)

    @property
    def _explicit(self) -> bool:
        return self.model.fold_in.feedback == "explicit"

    # Where items are.

    def find(self, name: str, ids: Any, unknown: str = "error") -> Integers:
        """Where these items are in the model; those that it does not know are an error, or left out."""
        given = read_ids(name, ids)
        if len(given) and is_text(given) != is_text(self.model.item_ids):
            kind = "strings" if is_text(self.model.item_ids) else "whole numbers"
            raise DataError(f"{name} must name items as the model's catalog does: by {kind}")
        places = self._index.places(given)
        if unknown == "ignore":
            return places[places >= 0]
        if (places < 0).any():
            first = printable(repr(given.tolist()[int(np.argmax(places < 0))]))
            raise DataError(f"{name}: item {first} is not in the model's catalog")
        return places

    def places_of(self, data: Interactions) -> Integers:
        """Where the items of the data's catalog are in the model, or -1."""
        if is_text(data.item_ids) != is_text(self.model.item_ids):
            raise DataError("the data and the model must both name items by strings or by numbers")
        return self._index.places(data.item_ids)

    # Histories.

    def one(self, history: History, unknown: str) -> Rows:
        """One user's history."""
        step = self.model.fold_in
        ids, rating = read_history(history, self._explicit, step.rating_range)
        if unknown == "ignore":
            places = self._index.places(ids)
        elif unknown == "error":
            try:
                places = self.find("history", ids)
            except DataError as error:
                raise DataError(f'{error} (unknown="ignore" leaves such items out)') from None
        else:
            raise ParameterError(f'unknown must be "error" or "ignore", got {unknown!r}')
        if rating is not None:
            rating = rating - self._intercepts[places]
        mean = step.centers(np.array([0, len(ids)]), rating)
        known = np.flatnonzero(places >= 0)
        places, first = np.unique(places[known], return_index=True)
        rating = None if rating is None else rating[known][first]
        return Rows(np.array([0, len(places)]), places, rating, mean, np.zeros(1, np.int64))

    def many(self, histories: Interactions) -> Rows:
        """Many users' histories; items that the model does not know are left out."""
        if not isinstance(histories, Interactions):
            raise DataError(f"expected Interactions, got a {type(histories).__name__}")
        if self._explicit and not histories.explicit:
            raise DataError("this model was trained on ratings: the histories must have them too")
        rows, place = histories.by_user, self.places_of(histories)
        item, rating, start = place[rows.other], None, rows.start
        if self._explicit and rows.rating is not None:
            rating = rows.rating - self._intercepts[item]
        # A user's mean is that of all its ratings, also of items that the model does not know.
        mean = self.model.fold_in.centers(start, rating)
        known = item >= 0
        if not known.all():
            item, rating = item[known], None if rating is None else rating[known]
            start = np.concatenate([[0], np.cumsum(known)])[start]
        return Rows(start, item, rating, mean, np.arange(histories.users))

    def vectors(self, rows: Rows, *, exact: bool = True) -> Array:
        """The users' vectors, [users, factors]; lists do not need exact ones."""
        step = self.model.fold_in
        labels = step.labels(rows.start, rows.rating, rows.mean)
        return step.vectors(rows.start, rows.item, labels, self._solver, exact=exact)

    # Scores.

    def pairs(self, rows: Rows, user: Integers, place: Integers) -> Array:
        """The scores of pairs of a user and a place in the model, which is -1 if it is not known, [pairs]."""
        vectors, items = self.vectors(rows), self.model.items
        scores: Array = rows.mean[user] + 0.0  # a copy
        step = max(1, BLOCK_BYTES // (16 * items.shape[1]))
        known = np.flatnonzero(place >= 0)
        for first in range(0, len(known), step):
            row = known[first : first + step]
            product = row_sums(items[place[row]].astype(np.float64) * vectors[user[row]])
            scores[row] += product + self._intercepts[place[row]]
        within: Array = self._within(scores)
        return within

    def lists(self, rows: Rows, wanted: Wanted) -> Iterator[tuple[Integers, Integers, Scores]]:
        """Block by block: users, the places of their best items, and their scores, [block, k].

        A place of -1 has score -inf.
        """
        vectors = self.vectors(rows, exact=False).astype(np.float32)
        step = rows_at_once(len(self.model.items))
        for first in range(0, len(rows.user), step):
            stop = min(first + step, len(rows.user))
            places, best = self._best(
                vectors[first:stop], rows.start[first : stop + 1], rows.item, wanted
            )
            best += rows.mean[first:stop, None].astype(np.float32)
            within = self._within(best)
            within[places < 0] = -np.inf
            yield rows.user[first:stop], places, within

    def _best(
        self, vectors: Scores, start: Integers, item: Integers, wanted: Wanted
    ) -> tuple[Integers, Scores]:
        model = self.model
        with np.errstate(all="ignore"):  # whatever 32 bits cannot hold is the largest or last
            scores = self._scores.of(vectors)
            if model.intercepts is not None:
                scores += model.intercepts
        alike = np.zeros(len(vectors), dtype=bool)
        if model.intercepts is None and model.counts is not None:
            alike = ~np.asarray(vectors.any(axis=1))
            scores[alike] = model.counts
        if wanted.among is not None:
            others = np.ones(len(model.items), dtype=bool)
            others[wanted.among] = False
            scores[:, others] = -np.inf
        if wanted.left_out is not None:
            scores[:, wanted.left_out] = -np.inf
        if wanted.seen:
            start = np.zeros_like(start)
        k = min(wanted.k, len(model.items))
        pool = min(_POOL * k, len(model.items)) if wanted.diversity else k
        places, best = top(scores, pool, start, item)
        if wanted.diversity:
            places, best = diversify(places, best, model.items, k, wanted.diversity)
        best[alike] = np.where(places[alike] >= 0, np.float32(0), best[alike])
        return places, best

    def _within(self, scores: Any) -> Any:
        within = self.model.fold_in.rating_range
        return scores if within is None else np.clip(scores, *within)


def rows_at_once(items: int) -> int:
    """How many users' scores of all items are held at once."""
    return max(1, BLOCK_BYTES // (4 * max(1, items)))
