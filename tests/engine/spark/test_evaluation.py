"""Models are judged on frames of Spark as on one machine, without rows on the driver."""

from dataclasses import asdict
from typing import Any

import numpy as np
import polars as pl
import pytest

import apportion as ap
from apportion.errors import DataError


def frames(spark: Any, *data: ap.Interactions) -> list[Any]:
    return [spark.createDataFrame(each.to_frame().to_arrow()) for each in data]


@pytest.fixture(autouse=True)
def two_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apportion.data.spark.frames._FEW_ROWS", 1000)


def close(ours: Any, theirs: Any) -> None:
    ours, theirs = asdict(ours), asdict(theirs)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_allclose(value, theirs[name], rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
def test_frames_are_judged_as_on_one_machine(spark: Any, feedback: Any) -> None:
    between = (1.0, 5.0) if feedback == "explicit" else None
    data = ap.simulate_interactions(users=500, items=60, rows=9000, rating_range=between)
    train, test = data.split((0.8, 0.2))
    # A model that does not know all of the items.
    learned = train.of_items(np.arange(50))
    model = ap.MatrixFactorization(4, 2, feedback, epsilon=20.0, noise_seed=0).fit(learned)
    mine = ap.evaluate(model, train, test, k=10)
    theirs = ap.evaluate(model, *frames(spark, train, test), k=10)
    close(theirs.metrics, mine.metrics)
    assert theirs.baselines.keys() == mine.baselines.keys()
    for name, each in theirs.baselines.items():
        close(each, mine.baselines[name])
    assert theirs.verdict == mine.verdict
    assert theirs.measured == mine.measured
    assert theirs.unknown_items > 0
    # Intervals are drawn otherwise: about as wide, about the same value.
    for name, (low, high) in theirs.intervals.items():
        own = mine.intervals[name]
        assert abs((low + high) - sum(own)) < own[1] - own[0]
        assert (high - low) == pytest.approx(own[1] - own[0], rel=0.5)


def test_a_pair_may_be_in_the_history_and_in_the_test(spark: Any) -> None:
    """And users may be in one of both alone; ids of users are text."""
    known = pl.DataFrame(
        {"user": ["a", "a", "b", "c"], "item": [1, 2, 1, 3], "rating": [1.0, 5, 4, 2]}
    )
    test = pl.DataFrame({"user": ["a", " b", "d"], "item": [1, 2, 3], "rating": [3.0, 4.0, 5.0]})
    data = ap.Interactions.from_frame(known, items=[1, 2, 3], rating_range=(1, 5))
    model = ap.MatrixFactorization(2, 1, noise_seed=0).fit(data)
    found = ap.evaluate(model, *(spark.createDataFrame(each.to_arrow()) for each in (known, test)))
    assert (found.users, found.rows) == (3, 3)
    errors = [
        model.predict({1: 1.0, 2: 5.0}, [1])[0] - 3,
        model.predict({1: 4.0}, [2])[0] - 4,
        model.predict({}, [3])[0] - 5,
    ]
    assert isinstance(found.metrics, ap.metrics.RatingMetrics)
    assert found.metrics.rmse == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=1e-5)


def test_what_cannot_be_judged_is_refused(spark: Any) -> None:
    data = ap.simulate_interactions(users=50, items=10, rows=300)
    model = ap.MatrixFactorization(2, 1, noise_seed=0).fit(data)
    [frame] = frames(spark, data)
    with pytest.raises(DataError, match="no test interactions"):
        ap.evaluate(model, frame, frame.where("user < 0"))
    with pytest.raises(DataError, match="other types"):
        ap.evaluate(model, frame, frame.withColumn("user", frame.user.cast("string")))
    with pytest.raises(DataError, match="outside 1 to 5"):
        ap.evaluate(model, frame.withColumn("rating", frame.rating + 9), frame)
    with pytest.raises(DataError, match="test must be Interactions, got a DataFrame"):
        ap.evaluate(model, data, frame)
