"""``evaluate``: a model and what needs no model, on the same data by the same protocol."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from apportion.checks import number, whole
from apportion.data import Interactions
from apportion.data.ids import match_ids
from apportion.errors import DataError
from apportion.recommend.evaluation import Evaluation
from apportion.recommend.histories import is_spark_frame
from apportion.recommend.judges import EventJudge, Judge, RatingJudge
from apportion.recommend.metrics.baselines import averages_of
from apportion.recommend.metrics.bootstrap import resampled_means
from apportion.recommend.metrics.ratings import ratings_of
from apportion.recommend.recommender import Recommender


def evaluate(
    model: Recommender,
    histories: Interactions | Any,
    test: Interactions | Any,
    *,
    counts: ArrayLike | None = None,
    k: int = 20,
    level: float = 0.95,
    seed: int = 0,
) -> Evaluation:
    """Judge a model: predict or find what is in ``test`` from the histories of the same users.

    Both come from the same data: ``split``, ``hold_out_users``, ``leave_out``, ``split_time``. Models of
    ratings predict those of ``test``; models of events recommend k items to each user of ``test``, without
    those of the history.

    Frames of Spark, with columns user, item and, for a model of ratings, rating, are judged there: no row
    comes to this machine.

    Args:
        model: a trained model.
        histories: what is known of the users, and what baselines are computed from.
        test: what is to be predicted or found.
        counts: training counts of the items, [items], by which they are popular; by default, and always
            with frames of Spark, of the histories.
        k: the length of lists.
        level: of the intervals.
        seed: of the draws of users behind the intervals; harmless.

    >>> import apportion as ap
    >>> data = ap.simulate_interactions(users=2000, items=40, rows=30_000)
    >>> train, test = data.split((0.8, 0.2))
    >>> model = ap.MatrixFactorization(factors=4, sweeps=2, epsilon=20.0).fit(train)
    >>> found = ap.evaluate(model, train, test)
    >>> found.beats, sorted(found.baselines)
    (True, ['mean of all ratings', 'mean of the item', 'mean of the user'])
    """
    number("level", level, above=0, below=1)
    whole("seed", seed, at_least=0)
    if is_spark_frame(histories) and is_spark_frame(test):
        from apportion.recommend.spark_judging import evaluate_frames

        k = whole("k", k, at_least=1)
        return evaluate_frames(model, histories, test, k, level, seed)
    for name, data in (("histories", histories), ("test", test)):
        if not isinstance(data, Interactions):
            raise DataError(
                f"{name} must be Interactions, got a {type(data).__name__}: evaluate(model, histories, test)"
            )
    if not np.array_equal(histories.user_key, test.user_key):
        raise DataError("the histories and the test must be parts of the same data")
    known = histories.graph.task_sizes() if counts is None else counts
    unknown = match_ids(test.item_ids, model.item_ids) < 0
    of_item = np.bincount(test.by_user.other, minlength=test.items)
    judge: Judge
    if model.released.fold_in.feedback == "explicit":
        ratings_of(test)
        judge = RatingJudge(model, known, averages_of(histories))
    else:
        judge = EventJudge(model, known, whole("k", k, at_least=1))
    _check_apart(histories, test)
    part = judge.part(histories, test)
    means = resampled_means(part.of_user, part.numbers, seed)
    metrics, others, intervals, gains = judge.result(part.sums, means, level)
    return Evaluation(
        metrics=metrics,
        baselines=others,
        intervals=intervals,
        gains=gains,
        level=level,
        users=int(np.count_nonzero(np.diff(test.by_user.start))),
        rows=len(test.by_user.other),
        unknown_items=int(np.count_nonzero(unknown & (of_item > 0))),
        unknown_rows=int(of_item[unknown].sum()),
    )


def _check_apart(histories: Interactions, test: Interactions) -> None:
    """Refuse what would judge a model by what it is told, or by what it never recommends."""
    place = match_ids(test.item_ids, histories.item_ids).astype(np.int64)[test.by_user.other]
    wanted = test.user_of_row * histories.items + place
    known = histories.user_of_row * histories.items + histories.by_user.other
    told = np.isin(wanted[place >= 0], known)
    if told.any() and (test.explicit or told.sum() == len(wanted)):
        raise DataError(
            "the test holds rows that are in the histories too: keep them apart, as data.split does"
        )
