"""Every engine gives the whole numbers of the reference engine, past every threshold of its kernels."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from apportion.engine import ReferenceEngine
from apportion.engine.session import LocalSession
from tests.engine.contract.cases import ENGINES, Asked, answer, asked, make_rows, ready

SHAPES = {
    "nobody": make_rows(0, 5, 3, 4),
    "one user": make_rows(1, 5, 3, 4, seed=3),
    "one row each": make_rows(40, 3, 5, 1),
    "few tasks": make_rows(300, 3, 7, 3),
    "repeated pairs": make_rows(200, 30, 9, 8, per_user=False, repeats=True),
    "more tasks than a tile of noise": make_rows(250, 150, 17, 30),
    **{
        f"{d} features": make_rows(150, 20, d, 12, seed=d)
        for d in (1, 2, 8, 15, 16, 31, 32, 33, 63, 64, 65, 128, 130)
    },
    "rows of their own": make_rows(120, 40, 20, 20, per_user=False),
    "tiny features": make_rows(100, 20, 6, 10, length=1e-200),
    "huge features": make_rows(100, 20, 6, 10, length=1e150),
}


def compare(one: Asked, mine: tuple, theirs: tuple, rows_of_task: np.ndarray) -> None:
    for ours, expected in zip(mine, theirs, strict=True):
        if "Gradients" in type(one.query).__name__:
            # Margins are sums of floating-point numbers: within one unit a row.
            assert (np.abs(ours - expected) <= rows_of_task[:, None]).all()
        elif "FoldInGains" in type(one.query).__name__:
            # So are users' vectors that are not rounded: within some units a user.
            assert (np.abs(ours - expected) <= rows_of_task.sum()).all()
        else:
            np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "reference"])
@pytest.mark.parametrize("shape", SHAPES)
def test_equal_to_the_reference(engine: str, shape: str) -> None:
    rows = SHAPES[shape]
    rows_of_task = np.bincount(rows.task, minlength=rows.tasks)
    for one in asked(rows).values():
        mine = answer(ready(ENGINES[engine](), rows, whole=one.whole), one)
        theirs = answer(ready(ReferenceEngine(), rows, whole=one.whole), one)
        compare(one, mine, theirs, rows_of_task)


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "reference"])
@pytest.mark.parametrize("mu", [1e-9, 1e-3, 10.0])
def test_equal_on_every_grid(engine: str, mu: float) -> None:
    rows = make_rows(150, 20, 18, 12)
    for one in asked(rows).values():
        mine = answer(ready(ENGINES[engine](), rows, whole=one.whole), one, mu)
        theirs = answer(ready(ReferenceEngine(), rows, whole=one.whole), one, mu)
        compare(one, mine, theirs, np.bincount(rows.task, minlength=rows.tasks))


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "reference"])
def test_equal_where_a_task_has_more_rows_than_a_piece(engine: str) -> None:
    users = (
        2**15 + 2**12 + 7
    )  # pieces have 2^15 rows, and 32 bits hold about 2^11 rows at their bound
    rng = np.random.default_rng(0)
    rows = replace(
        make_rows(users, 2, 3, 0),
        start=np.arange(users + 1),
        task=np.zeros(users, dtype=np.int32),
        label=rng.normal(size=users),
        features=rng.normal(size=(users, 3)) * 10,
    )
    for name in ("statistics", "right-hand sides", "gramian", "second moment", "users", "weights"):
        one = asked(rows)[name]
        mine = answer(ready(ENGINES[engine](), rows), one)
        theirs = answer(ready(ReferenceEngine(), rows), one)
        compare(one, mine, theirs, np.array([users, 0]))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("tasks_at_once", [1, 3, 64])
def test_blocks_of_tasks_change_nothing(engine: str, tasks_at_once: int) -> None:
    rows = make_rows(200, 150, 5, 40, seed=2)
    one = asked(rows)["statistics"]
    whole = answer(ready(ENGINES[engine](), rows), one)
    session, exactly = (ready(ENGINES[engine](), rows, whole=each) for each in (True, False))
    for each in (session, exactly):
        assert isinstance(each, LocalSession)
        each.block_bytes = tasks_at_once * 16 * 15
    blocks = list(session.sums(one.query, one.grids()))
    assert len(blocks) == -(-150 // tasks_at_once)
    for mine, theirs in zip(answer(session, one), whole, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    exact = [np.concatenate(part) for part in zip(
        *(parts for _, parts in exactly.exact_sums(one.query)),
        strict=True,
    )]  # fmt: skip
    [(_, expected)] = ready(ENGINES[engine](), rows, whole=False).exact_sums(one.query)
    for mine, theirs in zip(exact, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
def test_shards_add_up_to_the_whole(engine: str) -> None:
    rows = make_rows(200, 70, 10, 15, seed=5)
    for one in asked(rows).values():
        whole = answer(ready(ENGINES[engine](), rows, whole=one.whole), one)
        edges = [0, 1, 1, 77, 200]
        shards = [
            answer(ready(ENGINES[engine](), rows.of_users(first, stop), whole=one.whole), one)
            for first, stop in pairwise(edges)
        ]
        for part, expected in enumerate(whole):
            np.testing.assert_array_equal(sum(shard[part] for shard in shards), expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_order_of_users_does_not_matter(engine: str) -> None:
    rows = make_rows(60, 20, 6, 10, seed=9)
    order = np.random.default_rng(2).permutation(60)
    size = np.diff(rows.start)[order]
    places = np.concatenate([np.arange(rows.start[u], rows.start[u + 1]) for u in order])
    assert rows.label is not None
    assert rows.features is not None
    mixed = replace(
        rows,
        start=np.concatenate([[0], np.cumsum(size)]),
        task=rows.task[places],
        label=rows.label[places],
        features=rows.features[order],
        user_key=rows.user_key[order],
    )
    for one in asked(rows).values():
        first = answer(ready(ENGINES[engine](), rows, whole=one.whole), one)
        second = answer(ready(ENGINES[engine](), mixed, whole=one.whole), one)
        for mine, theirs in zip(first, second, strict=True):
            np.testing.assert_array_equal(mine, theirs)
