"""What a released item model can do: everything here needs the model and a user's own history only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from apportion.accounts import PrivacyReport
from apportion.accounts.cards import model_card
from apportion.checks import number, whole, word
from apportion.data import Interactions
from apportion.data.ids import Integers
from apportion.engine.topk import ItemScores, top
from apportion.errors import DataError, NotFittedError, ParameterError
from apportion.frames import pl
from apportion.recommend.histories import History, is_spark_frame, read_histories
from apportion.recommend.model import Array, Ids, ItemModel, Scores
from apportion.recommend.scoring import Scorer, Wanted, rows_at_once

_USE = (
    "the items may be published under this guarantee; they recommend from a person's own history alone, "
    "wherever that is"
)


class Recommender:
    """Recommends, predicts and compares items, from a released model and a user's own history."""

    released_: ItemModel

    def __init__(self, released: ItemModel) -> None:
        self.released_ = released

    def __repr__(self) -> str:
        return repr(self.released).replace("ItemModel", type(self).__name__, 1)

    def _repr_html_(self) -> str:
        step = self.released.fold_in
        ratings = (
            "ratings from {:g} to {:g}".format(*step.rating_range)
            if step.rating_range
            else "ratings"
        )
        known: dict[str, object] = {
            "items": len(self.items),
            "tastes": self.released.tastes,
            "trained on": ratings if step.feedback == "explicit" else "events",
        }
        return model_card(type(self).__name__, self.privacy, known, _USE)

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
        scorer = self._scorer
        return np.asarray(scorer.vectors(scorer.one(history, unknown))[0])

    def predict(
        self, history: History, items: Any, unknown: Literal["error", "ignore"] = "error"
    ) -> Array:
        """The ratings (explicit) or scores (implicit) of items for a user with this history, [items]."""
        scorer = self._scorer
        wanted = scorer.find("items", [items] if _is_one(items) else items)
        return scorer.pairs(scorer.one(history, unknown), np.zeros(len(wanted), np.int64), wanted)

    def recommend(
        self,
        history: History,
        k: int = 20,
        *,
        exclude: Any = True,
        items: Any = None,
        diversity: float = 0.0,
        unknown: Literal["error", "ignore"] = "error",
    ) -> tuple[Ids, Scores]:
        """The k best items for a user with this history, best first, and their scores, [k] each.

        Scores are those of ``predict``: of a model of ratings, predicted ratings.

        Args:
            history: ids of items, or ratings by item ({item: rating}, a pandas Series, a table with columns
                item and rating); ratings are needed for explicit feedback.
            k: how many; fewer come back if the catalog has no more.
            exclude: leave out the items of the history; a list of ids is left out besides.
            items: the ids of the only items to choose from; None for all.
            diversity: above 0, up to 1, items that are like those before them come later.
            unknown: what to do about items that the model does not know, of the history, ``exclude`` or
                ``items``.
        """
        scorer = self._scorer
        wanted = self._wanted(k, exclude, items, diversity, unknown)
        [(_, places, scores)] = scorer.lists(scorer.one(history, unknown), wanted)
        found = places[0] >= 0
        return self.item_ids[places[0][found]], scores[0][found]

    def fold_in_many(self, histories: Interactions) -> Array:
        """The vectors of all users of the histories, [users, factors].

        Interactions with items that the model does not know are left out.
        """
        return self._scorer.vectors(self._scorer.many(histories))

    def predict_many(self, histories: Interactions, pairs: Interactions) -> Array:
        """The ratings (or scores) of all pairs, in the order of ``pairs.by_user``, [rows].

        Both must come from the same data (``split``, ``hold_out_users``, ``take``). For an item that
        the model does not know it is the user's mean (explicit) or 0.
        """
        if not np.array_equal(histories.user_key, pairs.user_key):
            raise DataError("the histories and the pairs must have the same users")
        scorer = self._scorer
        item = scorer.places_of(pairs)[pairs.by_user.other]
        return scorer.pairs(scorer.many(histories), pairs.user_of_row, item)

    def recommend_many(
        self,
        histories: Interactions | Any,
        k: int = 20,
        *,
        exclude: Any = True,
        items: Any = None,
        diversity: float = 0.0,
        on_users: Callable[[int], object] | None = None,
    ) -> pl.DataFrame:
        """The k best items of every user: a table of user, rank (from 1 on), item and score.

        Users come in the order of ``histories``, items best first, with their titles if the model has
        some. A user's rows are those of ``recommend``, to the last bit, whoever else is asked for. All
        cores take part. To hold fewer at once, see ``recommend_blocks``.

        Args:
            histories: ``Interactions``, or a table with columns user, item and, for a model of ratings,
                rating. Items that the model does not know are left out. For a frame of Spark the table is
                one, too, and is computed there, when it is used.
            k, exclude, items, diversity: as for ``recommend``, for every user alike.
            on_users: is told, after each block, how many users it had.
        """
        if is_spark_frame(histories):
            from apportion.recommend.spark import recommend_frame

            given = {"exclude": exclude, "items": items, "diversity": diversity}
            return cast("pl.DataFrame", recommend_frame(self, histories, k, **given))
        step = self.released.fold_in
        histories = read_histories(histories, step.feedback == "explicit", step.rating_range)
        k = whole("k", k, at_least=1)
        best = min(k, len(self.item_ids))
        blocks = [(np.zeros(0, int), np.zeros((0, best), int), np.zeros((0, best), np.float32))]
        for block in self.recommend_blocks(
            histories, k, exclude=exclude, items=items, diversity=diversity
        ):
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
        self,
        histories: Interactions,
        k: int = 20,
        *,
        exclude: Any = True,
        items: Any = None,
        diversity: float = 0.0,
        users: Any = None,
    ) -> Iterator[tuple[Integers, Integers, Scores]]:
        """Block by block: users, the places of their best items in the model, and their scores.

        ``users`` are the numbers of those wanted, all if None. Shapes [block], [block, k], [block, k];
        a place of -1 has score -inf.
        """
        rows = self._scorer.many(histories)
        wanted = self._wanted(k, exclude, items, diversity)
        return self._scorer.lists(rows if users is None else rows.of_users(users), wanted)

    def similar_items(
        self, item: Any, k: int = 10, by: Literal["cosine", "dot"] = "cosine"
    ) -> tuple[Ids, Scores]:
        """The items most similar to an item, without itself, best first, and how similar, [k] each.

        For a list of items the shapes are [items, k].
        """
        one = _is_one(item)
        wanted = self._scorer.find("item", [item] if one else item)
        if len(wanted) == 0 or len(self.item_ids) < 2:
            raise DataError("similar items need an item, and a model of two or more")
        if not self.released.knows_tastes:
            raise DataError(
                f"the model knows no tastes ({self.released.tastes}): no item is like another"
            )
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
        scores = ItemScores(factors)
        step = rows_at_once(len(factors))
        for first in range(0, len(wanted), step):
            block = wanted[first : first + step]
            each = np.arange(len(block) + 1)
            yield top(scores.of(factors[block]), k, each, block)

    def save(self, folder: str | Path, titles: Any = None) -> None:
        """Write the released model to a folder that ``apportion.load`` reads; never the noise key.

        Args:
            folder: new, empty, or holding a model, which is replaced once the new one is complete.
            titles: of items, as {id: title} or as a table with columns item and title.
        """
        from apportion.recommend.files import save  # which imports this module

        save(self, folder, titles)

    @property
    def _scorer(self) -> Scorer:
        """Of what was released last; kept, because what it has made serves every later call."""
        kept: Scorer | None = vars(self).get("_kept_scorer")
        if kept is None or kept.model is not self.released:
            kept = vars(self)["_kept_scorer"] = Scorer(self.released)
        return kept

    def _wanted(
        self, k: int, exclude: Any, items: Any, diversity: float, unknown: str = "error"
    ) -> Wanted:
        k, find = whole("k", k, at_least=1), self._scorer.find
        number("diversity", diversity, at_least=0, at_most=1)
        left_out = among = None
        if not isinstance(exclude, (bool, np.bool_)):
            if _is_one(exclude) and not isinstance(exclude, (set, frozenset)):
                raise ParameterError(
                    "exclude must be True (the items of the history), False, or a list of item ids "
                    f"to leave out besides, got {exclude!r}"
                )
            left_out = find("exclude", _listed(exclude), unknown)
            exclude = True
        if items is not None:
            if _is_one(items):
                raise ParameterError(
                    f"items must be a list of the item ids to choose from, got {items!r}"
                )
            among = find("items", _listed(items), unknown)
        return Wanted(k, not exclude, left_out, among, float(diversity))


def _is_one(ids: Any) -> bool:
    """Whether this is one id instead of several."""
    return isinstance(ids, (str, bytes)) or not hasattr(ids, "__len__")


def _listed(ids: Any) -> Any:
    return list(ids) if isinstance(ids, (set, frozenset)) else ids
