"""``ap.evaluate``: what it compares, on how much, and how sure it is."""

import json
import math

import numpy as np
import pytest

import apportion as ap
from apportion.errors import DataError, ParameterError
from apportion.recommend.metrics.baselines import averages, popularity
from apportion.recommend.metrics.bootstrap import interval, resampled_means
from tests.recommend.test_metrics import CATALOG, DATA, EXPLICIT, HELD, RATED, random_model

TRAIN, TEST = RATED.split((0.7, 0.3))


def rows_of(data: ap.Interactions) -> list[tuple[int, int, float]]:
    rows = data.by_user
    assert rows.rating is not None
    return list(
        zip(data.user_of_row.tolist(), rows.other.tolist(), rows.rating.tolist(), strict=True)
    )


def test_averages_against_slow_ones() -> None:
    known = rows_of(TRAIN)
    every = np.mean([rating for _, _, rating in known])

    def mean(kept: list[float]) -> float:
        return float(np.mean(kept)) if kept else float(every)

    found = averages(TRAIN, TEST)
    for place, (user, item, _) in enumerate(rows_of(TEST)):
        assert found["mean of all ratings"][place] == pytest.approx(every)
        of_user = mean([rating for u, _, rating in known if u == user])
        assert found["mean of the user"][place] == pytest.approx(of_user)
        of_item = mean([rating for _, i, rating in known if i == item])
        assert found["mean of the item"][place] == pytest.approx(of_item)


def test_popularity_recommends_what_most_have_without_the_history() -> None:
    counts = DATA.graph.task_sizes()
    order = [CATALOG[place] for place in np.lexsort((np.arange(40), -counts))]
    items, _ = popularity(DATA.item_ids, counts).recommend(order[1:3], k=4)
    assert items.tolist() == [order[0], *order[3:6]]


def test_ratings_beside_averages() -> None:
    model = random_model(CATALOG[:-5], 3, EXPLICIT)
    found = ap.evaluate(model, TRAIN, TEST)
    rows = rows_of(TEST)
    assert found.rows == len(rows)
    assert found.users == len({user for user, _, _ in rows})
    unknown = [item for _, item, _ in rows if item >= 35]
    assert (found.unknown_items, found.unknown_rows) == (len(set(unknown)), len(unknown))
    predicted = model.predict_many(TRAIN, TEST)
    errors = predicted - [rating for _, _, rating in rows]
    assert isinstance(found.metrics, ap.recommend.metrics.RatingMetrics)
    assert found.metrics.rmse == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert found.metrics.mae == pytest.approx(np.mean(np.abs(errors)))
    everybody = found.baselines["mean of all ratings"]
    assert isinstance(everybody, ap.recommend.metrics.RatingMetrics)
    mean = np.mean([rating for _, _, rating in rows_of(TRAIN)])
    assert everybody.rmse == pytest.approx(
        np.sqrt(np.mean([(rating - mean) ** 2 for _, _, rating in rows]))
    )
    # Its factors are random: it knows nothing.
    assert not found.beats
    assert found.verdict.startswith("this model beats no baseline: ")
    assert "mean of the item" in found.verdict
    assert found.gains["mean of all ratings"][1] < 0
    assert found.verdict in str(found)
    assert f"{len(set(unknown))} items of {len(unknown)} of them" in str(found)


def test_events_beside_what_is_popular() -> None:
    model = random_model(CATALOG, 4)
    found = ap.evaluate(model, HELD.history, HELD.labels, k=10)
    assert isinstance(found.metrics, ap.recommend.metrics.RankingMetrics)
    assert found.metrics.k == 10
    assert list(found.baselines) == ["what is popular"]
    low, high = found.intervals["recall"]
    assert low < found.metrics.recall < high
    values = json.loads(found.to_json())
    assert values["baselines"]["what is popular"]["recall"] > 0
    assert values["beats_every_baseline"] == found.beats
    assert "popular" in found._repr_html_()


def test_a_good_model_is_called_good() -> None:
    data = ap.simulate_interactions(users=1500, items=40, rows=30_000, seed=3)
    train, test = data.split((0.8, 0.2))
    model = ap.MatrixFactorization(4, 3, epsilon=math.inf).fit(train)
    found = ap.evaluate(model, train, test)
    assert found.verdict == "better than every baseline"
    assert min(low for low, _ in found.gains.values()) > 0


def test_intervals_hold_what_they_say() -> None:
    # A user's rows are alike: intervals of single rows would be far too short.
    rng, held = np.random.default_rng(0), 0
    for seed in range(200):
        numbers = rng.integers(1, 20, (80, 1)).astype(float)
        sums = numbers * rng.normal(0.0, 1.0, (80, 1))
        low, high = interval(resampled_means(sums, numbers, seed)[:, 0], 0.9)
        held += low < 0 < high
    # Binomial(200, 0.9), three standard deviations; the bootstrap is a little short at 80 users.
    assert 160 <= held <= 193


def test_intervals_of_nothing() -> None:
    means = resampled_means(np.zeros((5, 1)), np.zeros((5, 1)))
    assert all(math.isnan(edge) for edge in interval(means[:, 0], 0.9))


@pytest.mark.parametrize(
    ("histories", "test", "more", "message"),
    [
        (TRAIN, TRAIN.positives(0), {}, "no ratings"),
        (TRAIN, ap.Interactions([1], [2], [3]), {}, "parts of the same data"),
        (TRAIN, TEST.take(np.zeros(0, int)), {}, "no test interactions"),
        (TRAIN, {"a": 1}, {}, "test must be Interactions"),
        (TRAIN, TEST, {"level": 1.0}, "level"),
        (TRAIN, TEST, {"seed": -1}, "seed"),
    ],
)
def test_errors(histories: object, test: object, more: dict[str, object], message: str) -> None:
    with pytest.raises((DataError, ParameterError), match=message):
        ap.evaluate(random_model(CATALOG, 3, EXPLICIT), histories, test, **more)
