"""The contract of engines, held by shards of a Spark cluster: whole numbers equal to the bit."""

import gc
import shutil
import time
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from apportion.allocation import UniformWeights
from apportion.data import Interactions
from apportion.engine import CpuEngine, ReferenceEngine, SparkEngine, queries
from apportion.engine.spark import tree, worker
from apportion.engine.spark.session import ShardedSession
from apportion.errors import DataError, ParameterError, ReleaseError
from tests.engine.contract.cases import answer, asked, make_rows, ready
from tests.engine.contract.test_sums import compare
from tests.engine.contract.test_users import GRAMIAN, RIGHT, solved
from tests.engine.spark.running import kept_by

SHAPES = {
    "nobody": (make_rows(0, 5, 3, 4), 1),
    "fewer users than shards": (make_rows(2, 5, 3, 4, seed=3), 3),
    "more tasks than a tile of noise": (make_rows(250, 150, 17, 30), 3),
    "repeated pairs, rows of their own": (
        make_rows(200, 30, 9, 8, per_user=False, repeats=True),
        2,
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_query_is_equal_to_the_reference(spark: Any, shape: str) -> None:
    rows, shards = SHAPES[shape]
    engine = SparkEngine(spark, shards=shards)
    rows_of_task = np.bincount(rows.task, minlength=rows.tasks)
    for whole in (True, False):
        ours = ready(engine, rows, whole=whole)
        reference = ready(ReferenceEngine(), rows, whole=whole)
        some = [one for one in asked(rows).values() if one.whole == whole]
        ours.expect(*((one.query, one.grids()) for one in some))  # one job, not thirty
        for one in some:
            compare(one, answer(ours, one), answer(reference, one), rows_of_task)


def test_solved_users_and_candidates_are_those_of_one_machine(spark: Any) -> None:
    rows = make_rows(90, 160, 1, 140, seed=33)
    engine = SparkEngine(spark, shards=3)
    ours, theirs = solved(engine, rows, 33), solved(CpuEngine(), rows, 33)
    for one in (GRAMIAN, RIGHT):
        np.testing.assert_array_equal(answer(ours, one)[0], answer(theirs, one)[0])
    ids, counts = engine.load(rows).candidates(4, key=11)
    expected_ids, expected = CpuEngine().load(rows).candidates(4, key=11)
    np.testing.assert_array_equal(ids, expected_ids)
    np.testing.assert_array_equal(counts, expected)


@pytest.mark.parametrize(("at_once", "fan"), [*product([2**28, 1], [8, 2])])
def test_neither_blocks_nor_the_tree_change_anything(
    spark: Any, monkeypatch: pytest.MonkeyPatch, at_once: int, fan: int
) -> None:
    """Five shards in a tree of two, and a table that goes through the driver block by block."""
    rows = make_rows(120, 300, 6, 20, seed=2)
    one = asked(rows)["statistics"]
    expected = answer(ready(ReferenceEngine(), rows), one)
    monkeypatch.setattr(tree, "_MOST_AT_ONCE", at_once)
    monkeypatch.setattr(tree, "_FAN", fan)
    session = ready(SparkEngine(spark, shards=5), rows)
    for mine, theirs in zip(answer(session, one), expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def forget(spark: Any, session: ShardedSession) -> None:
    """Executors lose what they keep of a training's shards: in files, and in memory."""
    shutil.rmtree(kept_by(spark) / session._run)

    def in_memory(batches: Any) -> Any:
        time.sleep(0.3)  # so that every process gets one of these tasks
        worker._AT_HAND.clear()
        yield from batches

    spark.range(0, 2, 1, 2).mapInArrow(in_memory, "id long").collect()


@pytest.mark.parametrize("fan", [8, 2])
def test_shards_that_executors_lose_are_sent_again(
    spark: Any, monkeypatch: pytest.MonkeyPatch, fan: int
) -> None:
    """Whether the driver adds five shards, or a tree of executors does."""
    rows = make_rows(120, 300, 6, 20, seed=2)
    one = asked(rows)["statistics"]
    expected = answer(ready(ReferenceEngine(), rows), one)
    monkeypatch.setattr(tree, "_FAN", fan)
    session = ready(SparkEngine(spark, shards=5), rows)
    assert isinstance(session, ShardedSession)
    for lost in (False, True, False):
        kept = session._kept
        if lost:
            forget(spark, session)
        for mine, theirs in zip(answer(session, one), expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)
        assert (session._kept is not kept) == (lost or kept is None)


def test_sums_that_are_expected_are_the_same(spark: Any) -> None:
    """Asked for together, in any order, again, and not at all."""
    rows = make_rows(90, 160, 1, 140, seed=33)
    alone, together = (solved(SparkEngine(spark, shards=3), rows, 33) for _ in range(2))
    both = [(one.query, one.grids(0.5)) for one in (GRAMIAN, RIGHT)]
    together.expect(*both)
    for one in (RIGHT, GRAMIAN, RIGHT):
        np.testing.assert_array_equal(answer(together, one)[0], answer(alone, one)[0])
    together.expect(*both)
    solved_again = solved(SparkEngine(spark, shards=1), rows, 33)
    np.testing.assert_array_equal(answer(together, RIGHT)[0], answer(solved_again, RIGHT)[0])


def test_sums_travel_whole_however_large_their_numbers_are() -> None:
    """Most numbers take 32 bits; some here take more, or just fit."""
    rng = np.random.default_rng(0)
    small = rng.integers(-100, 100, (70, 2))
    small[[7, 8, 9], 1] = [2**31, -(2**31), 2**31 - 1]
    large, floating = rng.integers(-(2**40), 2**40, (70, 3)), rng.normal(size=(70, 1))
    [batch] = tree.rows_of(0, 0, 0, (small, large, floating))
    total = tree.Sum()
    for _ in range(3):
        total.add(1, batch.column("data")[0].as_buffer())
    assert total.shards == 3
    for part, own in zip(total.parts, (small, large, floating), strict=True):
        np.testing.assert_array_equal(part, own + own + own)
        assert part.dtype == own.dtype


def test_a_sum_that_lacks_a_shard_is_refused(spark: Any) -> None:
    def first_block_alone(batches: Any) -> Any:
        for batch in batches:
            for label in batch.column("id").to_pylist():
                yield from tree.rows_of(0, label, 0, (np.zeros((64, 1), dtype=np.int64),))
                if label == 0:
                    yield from tree.rows_of(0, label, 64, (np.zeros((6, 1), dtype=np.int64),))

    totals = tree.Totals(2)
    totals.add(spark.range(0, 2, 1, 2), first_block_alone)
    assert not totals.complete
    with pytest.raises(DataError, match="lost a part"):
        list(totals.taken(0))


def test_blocks_are_whole_tiles_of_the_sizes_alone() -> None:
    wide = (np.zeros((1, 2080)), np.zeros((1, 64)))
    assert tree.block_tasks(wide) == 448
    assert tree.block_tasks((np.zeros((1, 64)),)) == 16384
    assert tree.block_tasks((np.zeros((1, 2**24)),)) == 64
    rows = [
        each.column("first").to_pylist()[0]
        for each in tree.rows_of(0, 0, 0, (np.zeros((1000, 2080)), np.zeros((1000, 64))))
    ]
    assert rows == [0, 448, 896]


def test_too_large_a_shuffle_is_refused_before_anything_is_sent(spark: Any) -> None:
    rows = make_rows(20, 300, 6, 20)
    engine = SparkEngine(spark, shards=2, most_shuffled=100_000)
    one = asked(rows)["statistics"]
    with pytest.raises(ParameterError, match=r"GiB between executors .* most_shuffled"):
        answer(ready(engine, rows), one)
    answer(ready(engine, rows), asked(rows)["counts, scaled"])


def test_no_private_number_decides_what_is_refused(spark: Any) -> None:
    # How many items were found, before any is released, and, unless it was asked for, how many shards there
    # are: one user may have brought an item, or the row that takes one shard more.
    for tasks in (300, 301):
        engine = SparkEngine(spark, shards=2, most_shuffled=8 * 2 * 300)
        ids, _ = engine.load(make_rows(20, tasks, 1, 20)).candidates(4, key=1)
        assert len(ids) == tasks
    statistics = asked(make_rows(20, 5, 1, 4))["weights"]
    for rows in (400, 401):
        frame = spark.createDataFrame([(row, row % 5) for row in range(rows)], ["user", "item"])
        with mock.patch.multiple("apportion.data.spark.frames", _FEW_ROWS=100, _MANY_ROWS=100):
            data = Interactions.from_spark(frame, rating=None, items=range(5))
        shards: Any = data.rows()
        assert shards.shards == 4 + (rows > 400)
        answer(weighed(SparkEngine(spark, most_shuffled=8 * 5 * 4).load(shards)), statistics)
    shards = Interactions.from_spark(frame, rating=None, items=range(5), shards=5).rows()
    session = weighed(SparkEngine(spark, most_shuffled=8 * 5 * 4).load(shards))
    with pytest.raises(ParameterError, match="5 shards"):
        answer(session, statistics)


def weighed(session: ShardedSession) -> ShardedSession:
    """With users who spread their budget evenly."""
    session.weigh(UniformWeights().rule(5, None, 0, make_rows(0, 5, 1, 4).graph))
    return session


def test_an_error_of_ours_in_a_task_is_the_same_error_on_the_driver(spark: Any) -> None:
    class Unknown(queries.Query):
        pass

    rows = make_rows(20, 5, 3, 4)
    with pytest.raises(ReleaseError, match="this engine does not know Unknown"):
        list(SparkEngine(spark).load(rows).sums(Unknown(), (1.0,)))


def test_sessions_that_are_over_leave_no_files(spark: Any) -> None:
    rows = make_rows(2000, 20, 8, 6)
    engine = SparkEngine(spark)
    first = ready(engine, rows)
    assert isinstance(first, ShardedSession)
    run = kept_by(spark) / first._run
    answer(first, asked(rows)["statistics"])
    assert any(run.rglob("*.arrays"))
    del first
    answer(ready(engine, rows), asked(rows)["users"])
    assert not run.exists()


def test_what_was_broadcast_is_removed(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """When later items replace it, and after the training: every sweep's items are a file of the driver."""
    monkeypatch.setattr("apportion.data.spark.sessions._SMALL", 0)
    gc.collect()  # earlier trainings
    folder = Path(spark.sparkContext._temp_dir)
    before = len([*folder.iterdir()])
    session = solved(SparkEngine(spark, shards=2), make_rows(90, 30, 1, 20), 8)
    answer(session, RIGHT)
    held = len([*folder.iterdir()])
    assert held > before
    items = np.ones((30, 8))
    session.solve_users(items, items.T @ items, queries.UserSystems(0.1, 0.5), 1.0)
    answer(session, RIGHT)
    assert len([*folder.iterdir()]) == held
    del session
    gc.collect()
    assert len([*folder.iterdir()]) == before


def test_what_is_no_rows_and_no_session_is_refused(spark: Any) -> None:
    with pytest.raises(ParameterError, match="cannot load"):
        SparkEngine(spark).load(object())
    with pytest.raises(ParameterError, match="SparkSession"):
        SparkEngine("local[2]")
