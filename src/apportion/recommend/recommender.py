"""What a released item model can do: everything here needs the model and a user's own history only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from apportion.accounts import PrivacyReport
from apportion.checks import number, whole, word
from apportion.data import Interactions
from apportion.data.ids import Integers, find_ids, match_ids, read_ids
from apportion.engine.topk import score, top
from apportion.errors import DataError, NotFittedError, ParameterError
from apportion.frames import pl
from apportion.privacy.bounds import row_sums
from apportion.recommend.fold_in import FoldIn

Array = NDArray[np.float64]
Scores = NDArray[np.float32]
Ids = NDArray[Any]

# A history: ids of items, or ratings by item.
History = Sequence[Any] | NDArray[Any] | Mapping[Any, float]
# A user's system of equations has as many rows and columns.
MOST_FACTORS = 2048
# Scores of this many users and items are held at once.
_BLOCK_BYTES = 64 * 2**20


@dataclass(frozen=True, eq=False)
class ItemModel:
    """A released item model: what may be published.

    Attributes
        items: the factors of the items, [items, factors].
        intercepts: how much better than usual each item is rated, [items], or None.
        item_ids: their ids, [items].
        counts: released (noisy) numbers of users per item, [items], or None.
        titles: of the items, [items] of strings, or None.
        fold_in: how a user's vector is made.
        privacy: the guarantee.
        training: the settings of the training as plain values, from which its releases follow; empty if
            nothing is known of it.
    """

    items: Scores
    item_ids: Ids
    counts: Array | None
    titles: Ids | None
    fold_in: FoldIn
    privacy: PrivacyReport
    intercepts: Scores | None = None
    training: Mapping[str, Any] = field(default_factory=dict)


class Recommender:
    """Recommends, predicts and compares items, from a released model and a user's own history."""

    released_: ItemModel

    def __init__(self, released: ItemModel) -> None:
        self.released_ = released

    def __repr__(self) -> str:
        items, factors = self.items.shape
        facts = f"{items} items, {factors} factors, {self.released.fold_in.feedback}"
        return f"{type(self).__name__}({facts}: {self.privacy.verdict})"

    @property
    def released(self) -> ItemModel:
        """Everything that may be published."""
        if not hasattr(self, "released_"):
            raise NotFittedError(f"this {type(self).__name__} is not trained yet: call fit first")
        return self.released_

    @property
    def items(self) -> Scores:
        """The released item factors, [items, factors]."""
        return self.released.items

    @property
    def item_ids(self) -> Ids:
        """The ids of the items, [items]."""
        return self.released.item_ids

    @property
    def privacy(self) -> PrivacyReport:
        """The guarantee of the released items."""
        return self.released.privacy

    def fold_in(self, history: History, unknown: Literal["error", "ignore"] = "error") -> Array:
        """The vector of a user with this history, [factors].

        Args:
            history: ids of items, or {id: rating}; ratings are needed for explicit feedback.
            unknown: what to do about items that the model does not know.
        """
        return np.asarray(self._fold_in(self._one(history, unknown))[0])

    def predict(
        self, history: History, items: Any, unknown: Literal["error", "ignore"] = "error"
    ) -> Array:
        """The ratings (explicit) or scores (implicit) of items for a user with this history, [items]."""
        wanted = self._places("items", items)
        rows = self._one(history, unknown)
        # As in predict_many, term by term.
        product = row_sums(self._factors[wanted] * self._fold_in(rows)[0])
        return self._ratings(rows.mean[0] + (product + self._intercepts[wanted]))

    def recommend(
        self,
        history: History,
        k: int = 20,
        *,
        exclude: bool = True,
        unknown: Literal["error", "ignore"] = "error",
    ) -> tuple[Ids, Scores]:
        """The k best items for a user with this history, best first, and their scores, [k] each.

        Args:
            history: ids of items, or {id: rating}; ratings are needed for explicit feedback.
            k: how many; fewer come back if the catalog has no more.
            exclude: leave out the items of the history.
            unknown: what to do about items of the history that the model does not know.
        """
        rows = self._one(history, unknown)
        [(_, places, scores)] = self._recommend(rows, whole("k", k, at_least=1), exclude)
        found = places[0] >= 0
        return self.item_ids[places[0][found]], scores[0][found]

    def fold_in_many(self, histories: Interactions) -> Array:
        """The vectors of all users of the histories, [users, factors].

        Interactions with items that the model does not know are left out.
        """
        return self._fold_in(self._many(histories))

    def predict_many(self, histories: Interactions, pairs: Interactions) -> Array:
        """The ratings (or scores) of all pairs, in the order of ``pairs.by_user``, [rows].

        Both must come from the same data (``split``, ``hold_out_users``, ``take``). For an item that
        the model does not know it is the user's mean (explicit) or 0.
        """
        if not np.array_equal(histories.user_key, pairs.user_key):
            raise DataError("the histories and the pairs must have the same users")
        rows = self._many(histories)
        vectors = self._fold_in(rows)
        item = self._places_of(pairs)[pairs.by_user.other]
        user = pairs.user_of_row
        scores = rows.mean[user]
        factors, intercepts = self._factors, self._intercepts
        step = max(1, _BLOCK_BYTES // (16 * factors.shape[1]))
        known = np.flatnonzero(item >= 0)
        for first in range(0, len(known), step):
            row = known[first : first + step]
            place = item[row]
            product = row_sums(factors[place] * vectors[user[row]])
            scores[row] += product + intercepts[place]
        return self._ratings(scores)

    def recommend_many(
        self,
        histories: Interactions,
        k: int = 20,
        *,
        exclude: bool = True,
        on_users: Callable[[int], object] | None = None,
    ) -> pl.DataFrame:
        """The k best items of every user: a table of user, rank (from 1 on), item and score.

        Users come in the order of ``histories``, items best first, with their titles if the model has
        some. A user's rows are those of ``recommend``, to the last bit, whoever else is asked for.
        ``on_users`` is told, after each block, how many users it had. To hold fewer at once, see
        ``recommend_blocks``.
        """
        k = whole("k", k, at_least=1)
        best = min(k, len(self.item_ids))
        blocks = [(np.zeros(0, int), np.zeros((0, best), int), np.zeros((0, best), np.float32))]
        for block in self.recommend_blocks(histories, k, exclude=exclude):
            blocks.append(block)
            if on_users is not None:
                on_users(len(block[0]))
        users, places, scores = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
        row, rank = np.nonzero(places >= 0)
        place = places[row, rank]
        table = pl.DataFrame(
            {
                "user": pl.Series(histories.user_ids)[users[row]],
                "rank": rank + 1,
                "item": pl.Series(self.item_ids)[place],
                "score": scores[row, rank],
            }
        )
        if self.released.titles is not None:
            titles = pl.Series("title", self.released.titles, dtype=pl.String)
            table.insert_column(3, titles[place])
        return table

    def recommend_blocks(
        self, histories: Interactions, k: int = 20, *, exclude: bool = True, users: Any = None
    ) -> Iterator[tuple[Integers, Integers, Scores]]:
        """Block by block: users, the places of their best items in the model, and their scores.

        ``users`` are the numbers of those wanted, all if None. Shapes [block], [block, k], [block, k];
        a place of -1 has score -inf.
        """
        rows = self._many(histories)
        k = whole("k", k, at_least=1)
        return self._recommend(rows if users is None else rows.of_users(users), k, exclude)

    def similar_items(
        self, item: Any, k: int = 10, by: Literal["cosine", "dot"] = "cosine"
    ) -> tuple[Ids, Scores]:
        """The items most similar to an item, without itself, best first, and how similar, [k] each.

        For a list of items the shapes are [items, k].
        """
        one = isinstance(item, (str, bytes)) or not hasattr(item, "__len__")
        wanted = self._places("item", [item] if one else item)
        if len(wanted) == 0 or len(self.item_ids) < 2:
            raise DataError("similar items need an item, and a model of two or more")
        found = list(self.similar_blocks(wanted, k, by))
        places, scores = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        ids = self.item_ids[places]
        return (ids[0], scores[0]) if one else (ids, scores)

    def similar_blocks(
        self, wanted: Integers, k: int, by: Literal["cosine", "dot"] = "cosine"
    ) -> Iterator[tuple[Integers, Scores]]:
        """Block by block: the places of the most similar items, and how similar, [block, k] each."""
        k = min(whole("k", k, at_least=1), max(1, len(self.item_ids) - 1))
        word("by", by, ("cosine", "dot"))
        factors = self.items
        if by == "cosine":
            norm = np.linalg.norm(factors, axis=1, keepdims=True)
            factors = factors / np.maximum(norm, np.float32(1e-30))
        step = _rows_at_once(len(factors))
        for first in range(0, len(wanted), step):
            block = wanted[first : first + step]
            each = np.arange(len(block) + 1)
            yield top(score(factors[block], factors), k, each, block)

    def save(self, folder: str | Path, titles: Any = None) -> None:
        """Write the released model to a folder that ``apportion.load`` reads; never the noise key.

        Args:
            folder: new, empty, or holding a model, which is replaced once the new one is complete.
            titles: of items, as {id: title} or as a table with columns item and title.
        """
        from apportion.recommend.files import save  # which imports this module

        save(self, folder, titles)

    @property
    def _factors(self) -> Array:
        return self.items.astype(np.float64)

    @property
    def _intercepts(self) -> Array:
        intercepts = self.released.intercepts
        return np.zeros(len(self.items)) if intercepts is None else intercepts.astype(np.float64)

    def _ratings(self, scores: Array) -> Array:
        within = self.released.fold_in.rating_range
        return scores if within is None else np.clip(scores, *within)

    def _places(self, name: str, ids: Any) -> Integers:
        """Where these items are in the model; one that it does not know is an error."""
        return find_ids(name, read_ids(name, ids), self.item_ids, "model's catalog")

    def _places_of(self, data: Interactions) -> Integers:
        """Where the items of the data's catalog are in the model, or -1."""
        if (data.item_ids.dtype.kind == "O") != (self.item_ids.dtype.kind == "O"):
            raise DataError("the data and the model must both name items by strings or by numbers")
        return match_ids(data.item_ids, self.item_ids)

    def _one(self, history: History, unknown: str) -> _Rows:
        ids = read_ids("history", list(history) if isinstance(history, Mapping) else history)
        step = self.released.fold_in
        rating = None
        if step.feedback == "explicit":
            if not isinstance(history, Mapping):
                raise DataError(
                    "this model was trained on ratings: give the history as {item: rating, ...}"
                )
            rating = _ratings_of(history, step.rating_range or (-1e30, 1e30))
        if unknown == "ignore":
            places = match_ids(ids, self.item_ids)
        elif unknown == "error":
            try:
                places = self._places("history", ids)
            except DataError as error:
                hint = 'unknown="ignore" leaves such items out'
                raise DataError(f"{error} (rows from 0 on; {hint})") from None
        else:
            raise ParameterError(f'unknown must be "error" or "ignore", got {unknown!r}')
        if rating is not None:
            rating = rating - self._offsets(places)
        mean = step.centers(np.array([0, len(ids)]), rating)
        known = np.flatnonzero(places >= 0)
        places, first = np.unique(places[known], return_index=True)
        rating = None if rating is None else rating[known][first]
        return _Rows(np.array([0, len(places)]), places, rating, mean, np.zeros(1, np.int64))

    def _many(self, histories: Interactions) -> _Rows:
        if not isinstance(histories, Interactions):
            raise DataError(f"expected Interactions, got a {type(histories).__name__}")
        step = self.released.fold_in
        explicit = step.feedback == "explicit"
        if explicit and not histories.explicit:
            raise DataError("this model was trained on ratings: the histories must have them too")
        rows, place = histories.by_user, self._places_of(histories)
        item, rating, start = place[rows.other], None, rows.start
        if explicit and rows.rating is not None:
            rating = rows.rating - self._offsets(item)
        # A user's mean is that of all its ratings, also of items that the model does not know.
        mean = step.centers(start, rating)
        known = item >= 0
        if not known.all():
            item, rating = item[known], None if rating is None else rating[known]
            start = np.concatenate([[0], np.cumsum(known)])[start]
        return _Rows(start, item, rating, mean, np.arange(histories.users))

    def _offsets(self, places: Integers) -> Array:
        """The intercepts of items at these places, 0 for those that the model does not know, [rows]."""
        return np.append(self._intercepts, 0.0)[places]  # -1, not known, is the last

    def _fold_in(self, rows: _Rows) -> Array:
        """The users' vectors, [users, factors]."""
        step = self.released.fold_in
        labels = step.labels(rows.start, rows.rating, rows.mean)
        return step.vectors(rows.start, rows.item, labels, self._factors)

    def _recommend(
        self, rows: _Rows, k: int, exclude: bool
    ) -> Iterator[tuple[Integers, Integers, Scores]]:
        k = min(k, len(self.item_ids))
        vectors = self._fold_in(rows).astype(np.float32)
        newcomer: NDArray[np.bool_] = ~np.asarray(vectors.any(axis=1))
        popularity = self.released.counts
        step = _rows_at_once(len(self.items))
        for first in range(0, len(rows.user), step):
            stop = min(first + step, len(rows.user))
            with np.errstate(all="ignore"):  # whatever 32 bits cannot hold is the largest or last
                scores = score(vectors[first:stop], self.items)
                if self.released.intercepts is not None:
                    scores += self.released.intercepts
            new = newcomer[first:stop]
            # Who has no history, or one that says nothing, such as equal ratings, gets what is popular.
            if popularity is not None:
                scores[new] = popularity
            start = rows.start[first : stop + 1]
            if not exclude:
                start = np.zeros_like(start)
            places, best = top(scores, k, start, rows.item)
            best[new] = np.where(places[new] >= 0, np.float32(0), best[new])
            best += rows.mean[first:stop, None].astype(np.float32)
            yield rows.user[first:stop], places, best


@dataclass(frozen=True, eq=False)
class _Rows:
    """Histories of users [users] as places in the model.

    start is [users + 1], item and rating (less the item's intercept) [rows], mean and user [users].
    """

    start: Integers
    item: Integers
    rating: NDArray[Any] | None
    mean: Array
    user: Integers

    def of_users(self, users: Any) -> _Rows:
        wanted: Integers = np.asarray(users)
        inside = wanted.dtype.kind in "iu" and ((wanted >= 0) & (wanted < len(self.user))).all()
        if not inside:
            raise ParameterError("users must be numbers of users of the histories")
        size = np.diff(self.start)[wanted]
        start = np.concatenate([[0], np.cumsum(size)])
        row = np.repeat(self.start[wanted] - start[:-1], size) + np.arange(start[-1])
        rating = None if self.rating is None else self.rating[row]
        return _Rows(start, self.item[row], rating, self.mean[wanted], self.user[wanted])


def _ratings_of(history: Mapping[Any, float], within: tuple[float, float]) -> Array:
    """The ratings of a history, [rows]; an error names the row, not the rating."""
    low, high = within
    ratings = np.zeros(len(history))
    for row, value in enumerate(history.values()):
        try:
            ratings[row] = number("rating", value, at_least=low, at_most=high)
        except ParameterError:
            raise DataError(
                f"history: the rating in row {row} (from 0 on) is not a number from {low:g} to {high:g}"
            ) from None
    return ratings


def _rows_at_once(items: int) -> int:
    return max(1, _BLOCK_BYTES // (4 * max(1, items)))
