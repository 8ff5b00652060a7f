"""``evaluate``: a model and what needs no model, on the same data by the same protocol."""

import numpy as np
from numpy.typing import ArrayLike

from apportion.checks import number, whole
from apportion.data import HeldOut, Interactions
from apportion.data.ids import match_ids
from apportion.errors import DataError
from apportion.recommend.evaluation import BUCKETS, Evaluation
from apportion.recommend.metrics import baselines
from apportion.recommend.metrics.bootstrap import interval, resampled_means
from apportion.recommend.metrics.buckets import item_buckets
from apportion.recommend.metrics.ranking import K_BY_BUCKET, RankingMetrics, judge_lists
from apportion.recommend.metrics.ratings import OF_ROWS, RatingMetrics, of_predictions, ratings_of
from apportion.recommend.metrics.rows import Array
from apportion.recommend.recommender import Recommender


def evaluate(
    model: Recommender,
    histories: Interactions,
    test: Interactions,
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

    Args:
        model: a trained model.
        histories: what is known of the users, and what baselines are computed from.
        test: what is to be predicted or found.
        counts: training counts of the items, [items], by which they are popular; by default of the histories.
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
    for name, data in (("histories", histories), ("test", test)):
        if not isinstance(data, Interactions):
            raise DataError(f"{name} must be Interactions, got a {type(data).__name__}")
    if not np.array_equal(histories.user_key, test.user_key):
        raise DataError("the histories and the test must be parts of the same data")
    known = histories.graph.task_sizes() if counts is None else counts
    unknown = match_ids(test.item_ids, model.item_ids) < 0
    of_item = np.bincount(test.by_user.other, minlength=test.items)
    explicit = model.released.fold_in.feedback == "explicit"
    judge = _judge_ratings if explicit else _judge_events
    metrics, others, intervals, gains = judge(model, histories, test, known, k, level, seed)
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


_Judged = tuple[
    RankingMetrics | RatingMetrics,
    dict[str, RankingMetrics | RatingMetrics],
    dict[str, tuple[float, float]],
    dict[str, tuple[float, float]],
]


def _judge_ratings(
    model: Recommender,
    histories: Interactions,
    test: Interactions,
    counts: ArrayLike,
    k: int,
    level: float,
    seed: int,
) -> _Judged:
    del k
    rating, bucket = ratings_of(test), item_buckets(counts, test.items, BUCKETS)
    predicted = {"": model.predict_many(histories, test)}
    predicted |= baselines.averages(histories, test)
    found = {name: of_predictions(each, test, bucket, BUCKETS) for name, each in predicted.items()}
    # Of every predictor and metric the sums over each user's rows.
    columns = [
        np.bincount(test.user_of_row, weights=metric.of_row(each - rating), minlength=test.users)
        for each in predicted.values()
        for metric in OF_ROWS.values()
    ]
    rows = np.bincount(test.user_of_row, minlength=test.users).astype(np.float64)
    some = np.flatnonzero(rows)
    sums = np.column_stack(columns)[some]
    means = resampled_means(sums.astype(float), np.outer(rows[some], np.ones(len(columns))), seed)
    drawn = {
        (name, which): metric.of_mean(means[:, place * len(OF_ROWS) + at])
        for place, name in enumerate(predicted)
        for at, (which, metric) in enumerate(OF_ROWS.items())
    }
    intervals = {which: interval(drawn["", which], level) for which in OF_ROWS}
    gains = {
        name: interval(drawn[name, "rmse"] - drawn["", "rmse"], level) for name in predicted if name
    }
    return found.pop(""), dict(found), intervals, gains


def _judge_events(
    model: Recommender,
    histories: Interactions,
    test: Interactions,
    counts: ArrayLike,
    k: int,
    level: float,
    seed: int,
) -> _Judged:
    held = HeldOut(histories, test, np.flatnonzero(np.diff(test.by_user.start)))
    own = judge_lists(model, held, counts, k, K_BY_BUCKET)
    popular = judge_lists(baselines.popularity(test.item_ids, counts), held, counts, k, K_BY_BUCKET)
    known = {name: np.isfinite(values) for name, values in own.of_user.items()}
    columns = [np.where(known[name], values, 0.0) for name, values in own.of_user.items()]
    columns.append(own.of_user["recall"] - popular.of_user["recall"])
    numbers: list[Array] = [known[name].astype(np.float64) for name in own.of_user]
    numbers.append(np.ones(len(columns[-1])))
    means = resampled_means(np.column_stack(columns), np.column_stack(numbers), seed)
    intervals = {name: interval(means[:, place], level) for place, name in enumerate(own.of_user)}
    return (
        own.metrics,
        {"what is popular": popular.metrics},
        intervals,
        {"what is popular": interval(means[:, -1], level)},
    )
