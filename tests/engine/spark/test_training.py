"""Trainings on Spark give the bytes of trainings on one machine, from frames that one machine never sees."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import apportion as ap
from apportion.data.spark.store import read_store
from apportion.errors import DataError, ParameterError

RATED = {"items": 40, "rating_range": (1.0, 5.0)}


def frame_of(spark: Any, **columns: Any) -> Any:
    return spark.createDataFrame(pl.DataFrame(columns).to_arrow())


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    """Ratings, some pairs twice, one user with a quarter of all rows, one item that everybody has."""
    rng = np.random.default_rng(5)
    user = np.concatenate([rng.integers(0, 400, 6000), np.full(2000, 7), np.arange(400)])
    item = np.concatenate([rng.integers(0, 40, 8000), np.full(400, 3)])
    return pl.DataFrame({"user": user, "item": item, "rating": rng.integers(1, 6, 8400) * 1.0})


@pytest.fixture(scope="module")
def frame(spark: Any, table: pl.DataFrame) -> Any:
    return spark.createDataFrame(table.to_arrow())


@pytest.fixture(scope="module")
def data(frame: Any) -> ap.Interactions:
    return ap.Interactions.from_spark(frame, shards=3, **RATED)


KINDS: dict[str, dict[str, Any]] = {
    "shared statistics": {},
    "a matrix for each item": {"solver": ap.SufficientStatistics(matrices="per-item")},
    "descent": {"solver": ap.GradientDescent(steps=3)},
    "events": {"feedback": "implicit"},
    "a private catalog": {"catalog": "private"},
    "sampled items": {
        "allocation": ap.UniformSampling(5),
        "solver": ap.SufficientStatistics(matrices="per-item"),
    },
    "chosen settings": {"factors": "auto", "sweeps": "auto"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_private_model_has_the_bytes_of_one_machine(
    spark: Any, data: ap.Interactions, table: pl.DataFrame, kind: str
) -> None:
    settings = {"factors": 6, "sweeps": 2, "epsilon": 8.0, "noise_seed": 1, **KINDS[kind]}
    ours = ap.MatrixFactorization(**settings, engine=ap.SparkEngine(spark)).fit(data)
    theirs = ap.MatrixFactorization(**settings).fit(ap.Interactions.from_frame(table, **RATED))
    assert ours.items.tobytes() == theirs.items.tobytes()
    np.testing.assert_array_equal(ours.item_ids, theirs.item_ids)
    assert [*ours.privacy.ledger] == [*theirs.privacy.ledger]


def test_one_user_with_millions_of_rows(spark: Any) -> None:
    """All of them in one task; the other tasks have next to nothing."""
    number = np.arange(2_000_000)
    table = pl.DataFrame(
        {
            "user": np.where(number < 400, number, 7),
            "item": number % 40,
            "rating": 1.0 + number % 5,
        }
    )
    columns = "if(id < 400, id, 7) user", "id % 40 item", "1.0d + id % 5 rating"
    data = ap.Interactions.from_spark(
        spark.range(len(number)).selectExpr(*columns), shards=3, **RATED
    )
    settings: dict[str, Any] = {"factors": 4, "sweeps": 1, "epsilon": 8.0, "noise_seed": 1}
    ours = ap.MatrixFactorization(**settings, engine=ap.SparkEngine(spark)).fit(data)
    theirs = ap.MatrixFactorization(**settings).fit(ap.Interactions.from_frame(table, **RATED))
    assert ours.items.tobytes() == theirs.items.tobytes()


@pytest.mark.parametrize("weight", ["rating", True])
def test_events_with_weights(
    spark: Any, frame: Any, table: pl.DataFrame, weight: str | bool, tmp_path: Path
) -> None:
    named: dict[str, Any] = {"rating": None, "items": 40, "weight": weight, "weight_bound": 4}
    settings = {"factors": 4, "sweeps": 2, "feedback": "implicit", "noise_seed": 1}
    here = ap.MatrixFactorization(**settings).fit(ap.Interactions.from_frame(table, **named))
    ap.Interactions.from_spark(frame, **named, shards=3, store=str(tmp_path / "rows"))
    there = ap.Interactions.from_store(spark, str(tmp_path / "rows"))
    ours = ap.MatrixFactorization(**settings, engine=ap.SparkEngine(spark)).fit(there)
    assert ours.items.tobytes() == here.items.tobytes()
    assert ours.privacy.public_inputs["events"] == here.privacy.public_inputs["events"]
    with pytest.raises(ParameterError, match="weight is for events"):
        ap.Interactions.from_spark(frame, weight=weight, items=40)


def test_without_privacy_models_agree_to_rounding(
    spark: Any, data: ap.Interactions, table: pl.DataFrame
) -> None:
    # A penalty that is given: rows in memory would choose one.
    settings = {"factors": 4, "sweeps": 2, "epsilon": math.inf, "catalog": "private"}
    settings["regularization"] = 0.1
    ours = ap.MatrixFactorization(**settings, engine=ap.SparkEngine(spark)).fit(data)
    theirs = ap.MatrixFactorization(**settings).fit(ap.Interactions.from_frame(table, **RATED))
    np.testing.assert_allclose(ours.items, theirs.items, rtol=1e-4, atol=1e-5)


TASKS: dict[str, Callable[..., Any]] = {
    "ridge": lambda **where: ap.MultiTaskRidge(epsilon=4.0, noise_seed=2, **where),
    "a matrix for each task": lambda **where: ap.MultiTaskRidge(
        epsilon=4.0, noise_seed=2, statistics="per-task", **where
    ),
    "descent on samples of users": lambda **where: ap.MultiTaskDescent(
        epsilon=4.0, noise_seed=2, steps=ap.Steps(4, sampling_rate=0.5), **where
    ),
}


@pytest.fixture(scope="module")
def examples(spark: Any) -> tuple[ap.TaskData, ap.TaskData]:
    rng = np.random.default_rng(1)
    names = [f"u{user}" for user in rng.integers(0, 150, 1200)]
    table = pl.DataFrame(
        {
            "who": names,
            "what": [f"t{task}" for task in rng.integers(0, 12, 1200)],
            "x": rng.normal(size=1200),
            "z": rng.normal(size=1200),
            "y": rng.normal(size=1200),
        }
    )
    columns: dict[str, Any] = {"user": "who", "task": "what", "features": ["x", "z"], "label": "y"}
    columns["tasks"] = [f"t{task}" for task in range(12)]
    there = ap.TaskData.from_spark(spark.createDataFrame(table.to_arrow()), shards=2, **columns)
    return there, ap.TaskData.from_frame(table, **columns)


@pytest.mark.parametrize("kind", TASKS)
def test_models_of_tasks_have_the_bytes_of_one_machine(
    spark: Any, examples: tuple[ap.TaskData, ap.TaskData], kind: str
) -> None:
    there, here = examples
    assert repr(there) == repr(here)
    ours = TASKS[kind](engine=ap.SparkEngine(spark)).fit(there)
    assert ours.coef_.tobytes() == TASKS[kind]().fit(here).coef_.tobytes()


def test_rows_of_this_machine_are_sharded_too(spark: Any) -> None:
    data = ap.simulate_interactions(users=60, items=10, rows=400)
    settings: dict[str, Any] = {"factors": 2, "sweeps": 1, "epsilon": 4.0, "noise_seed": 3}
    ours = ap.MatrixFactorization(**settings, engine=ap.SparkEngine(spark)).fit(data)
    assert ours.items.tobytes() == ap.MatrixFactorization(**settings).fit(data).items.tobytes()


def digests(data: ap.Interactions) -> list[Any]:
    """Of the shards, whatever they are called."""
    return sorted(digest for _, digest in data.contents()[0])


def test_ids_are_one_user_however_they_are_written(spark: Any) -> None:
    """Space around them and composed letters do not count; 7 and "7" have one key."""
    columns = {"item": [0, 1, 0, 1], "rating": [1.0, 2.0, 3.0, 4.0]}
    plain = frame_of(spark, user=["ann", "ann", "\u00e9", "\u00e9"], **columns)
    odd = frame_of(spark, user=[" ann", "ann\u00a0", "e\u0301", "\u00e9 "], **columns)
    rated = {"items": 2, "rating_range": (1, 5), "shards": 2}
    stores = [digests(ap.Interactions.from_spark(each, **rated)) for each in (plain, odd)]
    assert stores[0] == stores[1]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"user": ["a", None, "b"]}, "user.*missing"),
        ({"item": [0, None, 1]}, "item.*missing"),
        ({"rating": [1.0, None, 2.0]}, "rating.*missing"),
        ({"rating": [1.0, 9.0, 2.0]}, "outside 1 to 5"),
        ({"item": [0, 1, 9]}, "not in the catalog"),
        ({"user": [1.5, 2.0, 3.0]}, "user must hold strings or whole numbers, got double"),
        ({"rating": ["a", "b", "c"]}, "rating must hold numbers, got string"),
        ({"item": ["a", "b", "c"]}, "must both hold"),
    ],
)
def test_bad_rows_are_refused_by_an_error_of_ours(
    spark: Any, columns: dict[str, Any], message: str
) -> None:
    rows = {"user": ["a", "b", "c"], "item": [0, 1, 2], "rating": [1.0, 2.0, 3.0], **columns}
    with pytest.raises(DataError, match=message):
        ap.Interactions.from_spark(
            frame_of(spark, **rows), items=[0, 1, 2], rating_range=(1, 5), shards=2
        )


def test_what_is_no_frame_or_lacks_columns_is_refused(spark: Any, frame: Any) -> None:
    with pytest.raises(DataError, match="no column 'song'"):
        ap.Interactions.from_spark(frame, item="song", items=3)
    with pytest.raises(DataError, match="takes a Spark frame or a path, got a DataFrame"):
        ap.Interactions.from_spark(pl.DataFrame({"user": [1]}))
    with pytest.raises(DataError, match="cannot be read"):
        ap.Interactions.from_spark("/nowhere/at/all")
    with pytest.raises(ParameterError, match="positives needs ratings"):
        ap.Interactions.from_spark(frame, rating=None, positives=4, items=40)


def test_an_empty_frame_and_empty_partitions(spark: Any) -> None:
    empty = frame_of(spark, user=[1], item=[0], rating=[1.0]).where("user < 0")
    data = ap.Interactions.from_spark(empty, items=3, rating_range=(1, 5), shards=2)
    settings: dict[str, Any] = {"factors": 2, "sweeps": 1, "epsilon": 1.0, "noise_seed": 0}
    ours = ap.MatrixFactorization(**settings, engine=ap.SparkEngine(spark)).fit(data)
    nobody = ap.Interactions([], [], [], items=3, rating_range=(1, 5))
    assert ours.items.tobytes() == ap.MatrixFactorization(**settings).fit(nobody).items.tobytes()


def test_a_store_is_read_again_and_never_replaced(
    spark: Any, frame: Any, table: pl.DataFrame, tmp_path: Path
) -> None:
    path = str(tmp_path / "rows")
    data = ap.Interactions.from_spark(frame, store=path, positives=4.0, shards=2, items="public")
    assert repr(data) == "Interactions(items=40, implicit)"
    again = ap.Interactions.from_store(spark, path)
    assert [repr(each) for each in again.contents()] == [repr(each) for each in data.contents()]
    with pytest.raises(ParameterError, match="holds stored rows already"):
        ap.Interactions.from_spark(frame, store=path, items=40)
    with pytest.raises(DataError, match="holds no stored rows"):
        ap.Interactions.from_store(spark, str(tmp_path / "others"))
    settings: dict[str, Any] = {"factors": 2, "sweeps": 1, "feedback": "implicit", "noise_seed": 0}
    ours = ap.MatrixFactorization(**settings, engine=ap.SparkEngine(spark)).fit(again)
    here = ap.Interactions.from_frame(table, items="public").positives(4.0)
    assert ours.items.tobytes() == ap.MatrixFactorization(**settings).fit(here).items.tobytes()
    assert ours.privacy.public_inputs["events"] == "ratings of at least 4"


def test_stored_rows_that_were_changed_are_noticed(spark: Any, frame: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "rows")
    ap.Interactions.from_spark(frame, store=path, shards=2, **RATED)
    store = read_store(spark, path)
    changed = store.frame.selectExpr("shard", "chunk", "chunks", "substring(data, 1, 900) data")
    changed.write.parquet(path + "/others")
    store.frame.unpersist()
    Path(path, "rows").rename(tmp_path / "were")
    Path(path, "others").rename(Path(path, "rows"))
    data = ap.Interactions.from_store(spark, path)
    with pytest.raises(DataError, match="not those that were written"):
        ap.MatrixFactorization(2, 1, noise_seed=0, engine=ap.SparkEngine(spark)).fit(data)


def test_rows_in_spark_need_their_engine_and_stay_there(data: ap.Interactions) -> None:
    with pytest.raises(ParameterError, match=r"engine=ap\.SparkEngine"):
        ap.MatrixFactorization(2, 1, noise_seed=0).fit(data)
    with pytest.raises(DataError, match="lie in Spark"):
        data.split()
    with pytest.raises(DataError, match="lie in Spark"):
        _ = data.users
    with pytest.raises(DataError, match="lie in Spark"):  # weights of the whole graph
        _ = data.graph
    assert data.items == 40
    assert data.explicit
