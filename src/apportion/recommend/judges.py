"""What ``evaluate`` computes of users: sums that add up, so that users may be judged in parts."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from apportion.data import HeldOut, Interactions
from apportion.recommend.evaluation import BUCKETS
from apportion.recommend.metrics import baselines
from apportion.recommend.metrics.bootstrap import interval
from apportion.recommend.metrics.buckets import item_buckets
from apportion.recommend.metrics.ranking import (
    K_BY_BUCKET,
    OF_USERS,
    Judged,
    RankingMetrics,
    judge_lists,
)
from apportion.recommend.metrics.ratings import (
    OF_ROWS,
    RatingMetrics,
    from_sums,
    ratings_of,
    sums_of,
)
from apportion.recommend.metrics.rows import Array
from apportion.recommend.recommender import Recommender

# Metrics of the model, and of the baselines; intervals of the metrics, and of the gains on the baselines.
Result = tuple[
    RankingMetrics | RatingMetrics,
    dict[str, RankingMetrics | RatingMetrics],
    dict[str, tuple[float, float]],
    dict[str, tuple[float, float]],
]
_POPULAR = "what is popular"


@dataclass(frozen=True, eq=False)
class Part:
    """What some users add.

    Attributes
        sums: by name; those of some users and of others add up to those of all.
        of_user: what is averaged over users, of those with something to judge, [users, columns].
        numbers: of how many rows each is the sum, [users, columns].
    """

    sums: Mapping[str, Array]
    of_user: Array
    numbers: Array


class Judge(ABC):
    """Judges users, all at once or in parts."""

    @abstractmethod
    def part(self, histories: Interactions, test: Interactions) -> Part:
        """What these users add."""

    @abstractmethod
    def result(self, sums: Mapping[str, Array], means: Array, level: float) -> Result:
        """Given the sums over all users, and the means over users drawn anew, [draws, columns]."""


@dataclass(frozen=True, eq=False)
class RatingJudge(Judge):
    """Of predicted ratings.

    Attributes
        model: of explicit feedback.
        counts: training counts, [items].
        everybody: what all histories say.
    """

    model: Recommender
    counts: ArrayLike
    everybody: baselines.Averages

    def part(self, histories: Interactions, test: Interactions) -> Part:
        """See ``Judge.part``."""
        rating = ratings_of(test, some=False)
        bucket = item_buckets(self.counts, test.items, BUCKETS)
        predicted = {"": self.model.predict_many(histories, test)}
        predicted |= baselines.averages(histories, test, self.everybody)
        sums: dict[str, Array] = {}
        for name, each in predicted.items():
            sums[name], sums["rows"] = sums_of(each, test, bucket, BUCKETS)
        # Of every predictor and metric the sums over each user's rows.
        columns = [
            np.bincount(
                test.user_of_row, weights=metric.of_row(each - rating), minlength=test.users
            )
            for each in predicted.values()
            for metric in OF_ROWS.values()
        ]
        rows = np.bincount(test.user_of_row, minlength=test.users).astype(np.float64)
        some = np.flatnonzero(rows)
        of_user = np.column_stack(columns)[some].astype(float)
        return Part(sums, of_user, np.outer(rows[some], np.ones(len(columns))))

    def result(self, sums: Mapping[str, Array], means: Array, level: float) -> Result:
        """See ``Judge.result``."""
        names = [name for name in sums if name != "rows"]
        found = {name: from_sums(sums[name], sums["rows"]) for name in names}
        drawn = {
            (name, which): metric.of_mean(means[:, place * len(OF_ROWS) + at])
            for place, name in enumerate(names)
            for at, (which, metric) in enumerate(OF_ROWS.items())
        }
        intervals = {which: interval(drawn["", which], level) for which in OF_ROWS}
        gains = {
            name: interval(drawn[name, "rmse"] - drawn["", "rmse"], level) for name in names if name
        }
        return found.pop(""), dict(found), intervals, gains


@dataclass(frozen=True, eq=False)
class EventJudge(Judge):
    """Of lists.

    Attributes
        model: of implicit feedback.
        counts: training counts, [items].
        k: the length of lists.
    """

    model: Recommender
    counts: ArrayLike
    k: int

    def part(self, histories: Interactions, test: Interactions) -> Part:
        """See ``Judge.part``."""
        held = HeldOut(histories, test, np.flatnonzero(np.diff(test.by_user.start)))
        popular = baselines.popularity(test.item_ids, self.counts)
        own, other = (
            judge_lists(each, held, self.counts, self.k, K_BY_BUCKET)
            for each in (self.model, popular)
        )
        sums = {**_to_sums("", own), **_to_sums(_POPULAR, other)}
        known = {name: np.isfinite(values) for name, values in own.of_user.items()}
        columns = [np.where(known[name], values, 0.0) for name, values in own.of_user.items()]
        columns.append(own.of_user["recall"] - other.of_user["recall"])
        numbers: list[Array] = [known[name].astype(np.float64) for name in own.of_user]
        numbers.append(np.ones(len(columns[-1])))
        return Part(sums, np.column_stack(columns), np.column_stack(numbers))

    def result(self, sums: Mapping[str, Array], means: Array, level: float) -> Result:
        """See ``Judge.result``."""
        own, other = (
            _from_sums(name, sums).metrics(self.counts, self.k, K_BY_BUCKET)
            for name in ("", _POPULAR)
        )
        names = (*OF_USERS, "novelty")
        intervals = {name: interval(means[:, place], level) for place, name in enumerate(names)}
        return own, {_POPULAR: other}, intervals, {_POPULAR: interval(means[:, -1], level)}


def _to_sums(name: str, judged: Judged) -> dict[str, Array]:
    others = {"with_label": judged.with_label, "novelty": judged.novelty, "seen": judged.seen}
    return {
        f"{name}:{which}": np.asarray(each, dtype=np.float64)
        for which, each in {**judged.sums, **others}.items()
    }


def _from_sums(name: str, sums: Mapping[str, Array]) -> Judged:
    return Judged(
        sums={which: sums[f"{name}:{which}"] for which in OF_USERS},
        with_label=sums[f"{name}:with_label"].astype(np.int64),
        novelty=sums[f"{name}:novelty"],
        seen=sums[f"{name}:seen"] > 0,
        of_user={},
    )
