"""Without privacy: settings of a model of events, chosen by rows that are kept out of a shorter training."""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from apportion.accounts import PrivacyReport
from apportion.data import HeldOut, Interactions
from apportion.engine import Session
from apportion.privacy import Ledger
from apportion.recommend import exact
from apportion.recommend.fold_in import FoldIn
from apportion.recommend.groups import is_auto
from apportion.recommend.metrics import ranking_metrics
from apportion.recommend.metrics.baselines import popularity
from apportion.recommend.model import ItemModel
from apportion.recommend.preparation import Preparation
from apportion.recommend.recommender import Recommender
from apportion.recommend.run import Run
from apportion.recommend.settings import Choice, Settings
from apportion.recommend.sweep import first_items

Array = NDArray[np.float64]

# What is tried, each after the one before, so many sweeps each; with few factors, which are cheap. Penalties
# grow with the root of the number of rows, unless they are given.
WEIGHTS, PENALTIES, EXPONENT = (1.0, 0.4, 0.15, 0.05, 0.02), (0.5, 2.0, 0.25), 0.5
FEW, FIRST_SWEEPS, SWEEPS = 32, 3, 2
# Then factors are doubled, which takes four times as long, as long as that gains so much.
MOST, GROWTH_SWEEPS, GAIN = 512, 3, 1.05
KEPT_OUT, USERS, LIST = 0.1, 3000, 20
# So that these rows are not those that the caller has kept out with a seed of its own.
_SALT = 982_451_653


def choose(run: Run, choice: Choice) -> tuple[Settings, Choice]:
    """Factors, unless they are given, and an unobserved weight and penalties if these are open.

    They are such that rows that are kept out come early in their users' lists.
    """
    settings, seed, given = run.settings, run.seed, run.asked.regularization
    if not is_auto(run.asked.factors):
        return settings, choice
    weight = is_auto(given.unobserved_weight)
    penalty = (given.items, given.users, given.exponent) == (None, None, None)
    rows, held = run.data.split((1 - KEPT_OUT, KEPT_OUT), seed + _SALT)
    if len(held.by_user.other) == 0 or len(rows.by_user.other) == 0:
        return settings, choice
    session = run.load(rows)
    search = _Search(exact.prepare(settings, rows, session, run.curator), rows, held, session)
    few = min(FEW, _most(session.tasks))
    if penalty:
        settings = _with_penalty(replace(settings, exponent=EXPONENT), 1.0)
    tried = replace(choice, factors=few)
    if weight:
        tried = _with_weight(tried, WEIGHTS[0])
    best = search.of(settings, tried, first_items(settings, session.tasks, few, seed), FIRST_SWEEPS)
    last = best
    for each in WEIGHTS[1:] if weight else ():
        last = search.of(settings, _with_weight(tried, each), last.items, SWEEPS)
        if last.recall < best.recall / 1.1:
            break
        best = max(best, last, key=lambda one: one.recall)
    for each in PENALTIES if penalty else ():
        found = search.of(_with_penalty(settings, each), best.choice, best.items, SWEEPS)
        best = max(best, found, key=lambda one: one.recall)
    gain = GAIN
    while gain >= GAIN and 2 * best.choice.factors <= _most(session.tasks):
        larger = replace(best.choice, factors=2 * best.choice.factors)
        more = first_items(settings, session.tasks, best.choice.factors, seed)
        more *= best.items.std() / (4 * more.std())
        found = search.of(best.settings, larger, np.hstack([best.items, more]), GROWTH_SWEEPS)
        gain = found.recall / max(best.recall, 1e-300)
        best = max(best, found, key=lambda one: one.recall)
    # The best of several is better by chance already: a standard deviation is asked for.
    popular = search.popularity()
    if best.recall < popular + math.sqrt(popular * (1 - popular) / search.users):
        return settings, replace(choice, factors=1, sweeps=0)
    return best.settings, best.choice


def _most(items: int) -> int:
    return min(MOST, max(1, items // 2))


def _with_weight(choice: Choice, weight: float) -> Choice:
    return replace(choice, unobserved_weight=weight, serving_weight=weight)


def _with_penalty(settings: Settings, penalty: float) -> Settings:
    return replace(settings, regularization=penalty, user_regularization=penalty)


@dataclass(frozen=True, eq=False)
class _Found:
    """Settings, and how early kept-out rows come with the items that they have led to."""

    settings: Settings
    choice: Choice
    items: Array
    recall: float


class _Search:
    """Trains a little further, and judges."""

    def __init__(
        self,
        prepared: Preparation,
        rows: Interactions,
        held: Interactions,
        session: Session,
    ) -> None:
        self._prepared, self._session = prepared, session
        users = np.flatnonzero(np.diff(held.by_user.start))
        users = users[:: -(-len(users) // USERS)]
        self.users = len(users)
        self._held = HeldOut(rows, held, users)
        self._counts = rows.graph.task_sizes()

    def of(self, settings: Settings, choice: Choice, items: Array, sweeps: int) -> _Found:
        """From these items on."""
        known = exact.learn_offsets(settings, choice, self._prepared, self._session)
        step = exact.exact_step(settings, choice, known, self._session)
        for sweep in range(sweeps):
            items = step(sweep, items)
        fold_in = FoldIn(
            "implicit", settings.user_regularization, settings.exponent, choice.serving_weight
        )
        report = PrivacyReport(ledger=Ledger(settings.target))
        made = ItemModel(
            items.astype(np.float32), self._prepared.item_ids, None, None, fold_in, report
        )
        return _Found(settings, choice, items, self._recall(Recommender(made)))

    def popularity(self) -> float:
        """Of what is popular."""
        return self._recall(popularity(self._prepared.item_ids, self._prepared.sums))

    def _recall(self, model: Recommender) -> float:
        found = ranking_metrics(model, self._held, self._counts, LIST, k_by_bucket=(LIST,))
        return float(found.recall)
