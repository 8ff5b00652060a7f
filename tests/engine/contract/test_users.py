"""Users' vectors: a user's has the same bits whoever else is loaded; what is summed is bounded."""

from dataclasses import replace

import numpy as np
import pytest

from apportion.allocation import AdaptiveWeights
from apportion.data.centering import Centering
from apportion.data.rows import Rows
from apportion.engine import Engine, Session, queries
from apportion.engine.queries import UserSystems
from apportion.privacy import UserBound
from tests.engine.contract.cases import (
    ENGINES,
    FEATURE_BOUND,
    LABEL_BOUND,
    Asked,
    answer,
    make_rows,
)


def solved(engine: Engine, rows: Rows, d: int, *, stretch: bool = False) -> Session:
    session = engine.load(replace(rows, features=None))
    sizes = 1.0 + np.arange(rows.tasks)
    session.weigh(AdaptiveWeights(0.25).rule(rows.tasks, sizes, 0, lambda: rows.graph()[0]))
    session.center(Centering("user"), np.linspace(-0.5, 0.5, rows.tasks))
    items = np.random.default_rng(4).normal(size=(rows.tasks, d)) / d**0.5
    shared = 0.3 * items.T @ items
    session.solve_users(items, shared, UserSystems(0.1, 0.5), FEATURE_BOUND, stretch=stretch)
    return session


GRAMIAN = Asked(queries.Gramian(), (FEATURE_BOUND**2,), (True,))
RIGHT = Asked(
    queries.RightHandSides(LABEL_BOUND, FEATURE_BOUND, "user"),
    (LABEL_BOUND * FEATURE_BOUND,),
    (False,),
)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("d", [1, 15, 16, 33, 64, 100])
@pytest.mark.parametrize("stretch", [False, True])
def test_a_user_adds_the_same_whoever_else_is_there(engine: str, d: int, stretch: bool) -> None:
    """Histories are longer and shorter than d: each kind of system is solved here."""
    rows = make_rows(90, 160, 1, 140, seed=d)
    everybody = solved(ENGINES[engine](), rows, d, stretch=stretch)
    some = [solved(ENGINES[engine](), rows.of_users(a, b), d, stretch=stretch) for a, b in
            ((0, 31), (31, 32), (32, 90))]  # fmt: skip
    for one in (GRAMIAN, RIGHT):
        [whole] = answer(everybody, one)
        np.testing.assert_array_equal(sum(answer(part, one)[0] for part in some), whole)


@pytest.mark.parametrize("engine", ENGINES)
def test_vectors_solve_the_systems(engine: str) -> None:
    """Without privacy the sums show the vectors: each user is alone with a task."""
    rng, d, tasks = np.random.default_rng(0), 12, 50
    own = [np.sort(rng.choice(tasks - 1, 20, replace=False)) for _ in range(30)]
    rows = Rows(
        start=np.arange(0, 601, 20),
        task=np.concatenate(own).astype(np.int32),
        task_ids=np.arange(tasks),
        user_key=np.arange(30, dtype=np.uint64),
        label=rng.normal(size=600),
    )
    assert rows.label is not None
    items = rng.normal(size=(tasks, d))
    shared = items.T @ items
    vectors = []
    for user in range(30):
        session = ENGINES[engine]().load(rows.of_users(user, user + 1))
        session.center(Centering())
        session.solve_users(items, shared, UserSystems(0.1, 1.0), None)
        [(_, (packed,))] = session.exact_sums(queries.Gramian())
        x, y = items[own[user]], rows.label[20 * user : 20 * user + 20]
        expected = np.linalg.solve(x.T @ x + shared + 0.1 * 20 * np.eye(d), x.T @ y)
        vectors.append(expected)
        square = np.outer(expected, expected)[np.triu_indices(d)]
        np.testing.assert_allclose(packed[0], square, atol=1e-4 * np.abs(square).max())


@pytest.mark.parametrize("engine", ENGINES)
def test_a_center_is_that_of_all_ratings_also_of_items_not_chosen(engine: str) -> None:
    rows = Rows(
        start=np.array([0, 3]),
        task=np.array([0, 1, 2]),
        task_ids=np.array([10, 20, 30]),
        user_key=np.zeros(1, dtype=np.uint64),
        label=np.array([1.0, 2.0, 6.0]),
    )
    session = ENGINES[engine]().load(rows)
    session.choose(np.array([20, 99, 10]))  # 99 is nobody's
    session.center(Centering("user"), np.array([0.5, 7.0, -0.5]))
    # Labels less intercepts: 1.5 of item 10, 1.5 of item 20, 6 of item 30; their mean is 3.
    [(_, (sums,))] = session.exact_sums(queries.Intercepts(np.inf))
    np.testing.assert_allclose(sums[:, 0], [1.5 - 3, 0.0, 1.5 - 3])


@pytest.mark.parametrize("engine", ENGINES)
def test_candidates_count_each_user_for_at_most_cap(engine: str) -> None:
    rows = replace(make_rows(80, 40, 1, 30), features=None, label=None)
    ids, counts = ENGINES[engine]().load(rows).candidates(4, key=11)
    assert counts.dtype == np.int64
    np.testing.assert_array_equal(ids, rows.task_ids)
    sizes = np.diff(rows.start)
    assert counts.sum() == np.minimum(sizes, 4).sum()
    alone = ENGINES[engine]().load(rows.of_users(3, 4)).candidates(4, key=11)[1]
    rest = [ENGINES[engine]().load(rows.of_users(a, b)).candidates(4, key=11)[1] for a, b in
            ((0, 3), (4, 80))]  # fmt: skip
    np.testing.assert_array_equal(counts, alone + rest[0] + rest[1])


def test_grids_of_these_queries_are_those_of_their_bounds() -> None:
    assert GRAMIAN.grids() == (UserBound(FEATURE_BOUND**2, "").grid(0.5),)
