"""How a model is scored: by validation rows, which choose, and by test rows, which are reported."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

import apportion as ap
from apportion.data import HeldOut
from apportion.recommend.metrics import ranking_metrics
from apportion.recommend.recommender import Recommender
from benchmarks.quality.sets import DataSet

TOP = 20


class Score(NamedTuple):
    """RMSE (lower is better) or Recall@20 (higher is better)."""

    validation: float
    test: float


class Split(Protocol):
    """Training rows, and what a model is judged by."""

    @property
    def train(self) -> ap.Interactions:
        """The rows to train on."""

    def score(self, model: Recommender) -> Score:
        """Of a trained model."""


@dataclass(frozen=True)
class RatingSplit:
    """80/10/10 of the ratings at random; vectors are made from training rows."""

    train: ap.Interactions
    validation: ap.Interactions
    test: ap.Interactions

    @classmethod
    def of(cls, data: ap.Interactions, seed: int) -> "RatingSplit":
        return cls(*data.split((0.8, 0.1, 0.1), seed))

    def score(self, model: Recommender) -> Score:
        """See ``Split.score``."""
        validation, test = (self._rmse(model, rows) for rows in (self.validation, self.test))
        return Score(validation, test)

    def _rmse(self, model: Recommender, rows: ap.Interactions) -> float:
        rating = rows.by_user.rating
        assert rating is not None
        return float(np.sqrt(np.mean((model.predict_many(self.train, rows) - rating) ** 2)))


@dataclass(frozen=True)
class EventSplit:
    """Two sets of users held out, a fifth of their events to be found."""

    train: ap.Interactions
    validation: HeldOut
    test: HeldOut

    @classmethod
    def of(cls, data: ap.Interactions, seed: int) -> "EventSplit":
        held = min(3000, max(1, data.users // 10))
        rest, test = data.hold_out_users(held, at_least=5, seed=2 * seed)
        train, validation = rest.hold_out_users(held, at_least=5, seed=2 * seed + 1)
        return cls(train, validation, test)

    def score(self, model: Recommender) -> Score:
        """See ``Split.score``."""
        counts = self.train.graph.task_sizes()
        recalls = [
            ranking_metrics(model, held, counts, TOP, k_by_bucket=(TOP,)).recall
            for held in (self.validation, self.test)
        ]
        return Score(*recalls)


def split(data_set: DataSet, data: ap.Interactions, seed: int) -> Split:
    """Others for every seed."""
    of = RatingSplit.of if data_set.feedback == "explicit" else EventSplit.of
    return of(data, seed)
