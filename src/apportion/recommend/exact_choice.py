"""Without privacy: penalties of ratings, chosen by rows that are kept out of a first, shorter training."""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from apportion.data import Interactions
from apportion.data.ids import match_ids
from apportion.recommend import exact
from apportion.recommend.fold_in import FoldIn
from apportion.recommend.groups import LARGEST
from apportion.recommend.intercepts import Knowledge
from apportion.recommend.preparation import Preparation
from apportion.recommend.run import Run
from apportion.recommend.serving import penalties
from apportion.recommend.settings import Choice, Settings
from apportion.recommend.sweep import first_items

Array = NDArray[np.float64]

# Penalties that are tried, each after the one before, so many sweeps each: together about as many sweeps as
# the training has. All are tried: items that have just begun to grow may look better than some sweeps later.
PENALTIES, SWEEPS = (0.3, 0.15, 0.1, 0.07, 0.05, 0.035), 2
# Of the penalties of users' vectors, those that every training is judged by; all, only the best training.
SOME = slice(1, None, 2)
# The part of the rows that is kept out, and about how many of these judge, of users evenly.
KEPT_OUT, JUDGES = 0.1, 30_000
# So that these rows are not those that the caller has kept out with a seed of its own.
_SALT = 982_451_653


def choose(run: Run, choice: Choice) -> tuple[Settings, Choice]:
    """Penalties for training and for users' vectors afterwards, by rows that are kept out, unless given."""
    settings, seed, given = run.settings, run.seed, run.asked.regularization
    if given.items is not None or given.users is not None:
        return settings, choice
    known_rows, held = run.data.split((1 - KEPT_OUT, KEPT_OUT), seed + _SALT)
    if len(held.by_user.other) == 0 or len(known_rows.by_user.other) == 0:
        return settings, choice
    session = run.load(known_rows)
    prepared = exact.prepare(settings, known_rows, session, run.curator)
    known = exact.learn_offsets(settings, choice, prepared, session)
    every = max(1, len(held.by_user.other) // JUDGES)
    some_users = [rows.take(rows.user_of_row % every == 0) for rows in (known_rows, held)]
    judge = _Judge(settings, prepared, known, *some_users)
    items = first_items(settings, session.tasks, choice.factors, seed)
    best, least, of_training, found = settings, math.inf, math.inf, items
    for penalty in PENALTIES:
        tried = replace(settings, regularization=penalty, user_regularization=penalty)
        ridge = penalty * known.mass**settings.exponent
        step = exact.exact_step(tried, choice, replace(known, ridge=ridge), session)
        for sweep in range(SWEEPS):
            items = step(sweep, items)
        own = judge.error(items, penalty, settings.exponent)
        some = [judge.error(items, each, 0.0) for each in penalties(items, known.mass)[SOME]]
        if min(own, *some) < least:
            best, least, found, of_training = tried, min(own, *some), items, own
    # Of these items: how users' vectors are made from them.
    served = [*penalties(found, known.mass), LARGEST]
    errors = [judge.error(found, each, 0.0) for each in served]
    place = int(np.argmin(errors))
    if errors[place] < of_training:
        choice = replace(choice, serving_regularization=served[place])
    return best, choice


class _Judge:
    """The mean squared error of rows that were kept out."""

    def __init__(
        self,
        settings: Settings,
        prepared: Preparation,
        known: Knowledge,
        rows: Interactions,
        held: Interactions,
    ) -> None:
        self._settings, self._prepared = settings, prepared
        place = match_ids(prepared.item_ids, rows.item_ids)
        number = np.full(rows.items, -1, dtype=np.int64)
        number[place[place >= 0]] = np.flatnonzero(place >= 0)
        self._intercepts = np.zeros(len(place)) if known.intercepts is None else known.intercepts
        self._user, self._item, self._rating = self._of(rows, number)
        self._start = np.concatenate(
            [[0], np.cumsum(np.bincount(self._user, minlength=rows.users))]
        ).astype(np.int64)
        self._held = self._of(held, number)

    def _of(
        self, rows: Interactions, number: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        """Users, items and ratings less intercepts, of the items that are modeled."""
        rating, item = rows.by_user.rating, number[rows.by_user.other]
        assert rating is not None
        kept = item >= 0
        less = rating[kept].astype(np.float64) - self._intercepts[item[kept]]
        return np.asarray(rows.user_of_row[kept], dtype=np.int64), item[kept], less

    def error(self, items: Array, penalty: float, exponent: float) -> float:
        """With users' vectors that have this penalty."""
        offset = self._prepared.offset
        fold = FoldIn(
            "explicit",
            penalty,
            exponent,
            center=self._settings.center,
            mean=offset.mean,
            shrinkage=offset.shrinkage,
        )
        centers = fold.centers(self._start, self._rating)
        labels = fold.labels(self._start, self._rating, centers)
        vectors = fold.vectors(self._start, self._item, labels, fold.solver(items))
        user, item, rating = self._held
        predicted = centers[user] + np.einsum("ij,ij->i", vectors[user], items[item])
        return float(np.mean(np.square(rating - predicted)))
