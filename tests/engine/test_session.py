"""What sessions compute, against the plainest NumPy, in any number of threads and blocks."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.allocation.scaling import normalized
from apportion.data.rows import Rows
from apportion.engine import Session, find_engine, queries
from apportion.engine.session import LocalSession
from apportion.packing import unpack
from apportion.privacy import UserBound
from apportion.tasks.losses import LOSSES, Loss
from tests.engine.contract.cases import ENGINES, FEATURE_BOUND, asked, make_rows, ready
from tests.threads import this_many_threads

D = 5
ROWS = make_rows(60, 9, D, 8, seed=3, repeats=True)
PAIRS = make_rows(60, 9, D, 8, seed=4)
EVERYTHING = queries.Statistics(queries.RightHandSides(math.inf, math.inf))
BOUND = 0.4


@pytest.fixture(params=ENGINES)
def loaded(request: pytest.FixtureRequest) -> Any:
    """Loads rows into each engine."""
    return lambda rows, whole=True: ready(ENGINES[request.param](), rows, whole=whole)


def copies(rows: Rows) -> np.ndarray:
    """How often the pair of each row occurs, [rows]."""
    pairs = rows.user.astype(np.int64) * rows.tasks + rows.task
    _, place, count = np.unique(pairs, return_inverse=True, return_counts=True)
    return np.asarray(count[place])


def weights_of(rows: Rows) -> np.ndarray:
    """Those of ``ready``, row by row."""
    raw = (1.0 + np.arange(rows.tasks)[::-1])[rows.task] ** -0.5
    distinct = 1 / copies(rows)
    total = np.bincount(rows.user, raw**2 * distinct, minlength=rows.users)
    return np.asarray(raw / np.sqrt(total)[rows.user] * distinct)


def features_of(rows: Rows, bound: float) -> np.ndarray:
    """Of every row, clipped."""
    assert rows.features is not None
    x = rows.features[rows.user]
    return np.asarray(x * np.minimum(1.0, bound / np.linalg.norm(x, axis=1))[:, None])


def test_exact_statistics(loaded: Any) -> None:
    """Without privacy: every pair has weight one, its rows share it."""
    found = list(loaded(ROWS, whole=False).exact_sums(EVERYTHING))
    A, b = (np.concatenate(part) for part in zip(*(parts for _, parts in found), strict=True))
    x, w = features_of(ROWS, FEATURE_BOUND), 1 / copies(ROWS)
    assert ROWS.label is not None
    for task in range(ROWS.tasks):
        own = ROWS.task == task
        expected = x[own].T @ (w[own, None] * x[own])
        np.testing.assert_allclose(unpack(A, D)[task], expected, atol=1e-9)
        np.testing.assert_allclose(b[task], x[own].T @ (w[own] * ROWS.label[own]), atol=1e-9)


def test_statistics_are_near_what_the_data_gives(loaded: Any) -> None:
    one = asked(ROWS)["statistics"]
    grids = one.grids()
    [(_, (A, b))] = loaded(ROWS).sums(one.query, grids)
    x, w = features_of(ROWS, FEATURE_BOUND), weights_of(ROWS)
    assert ROWS.label is not None
    y = np.clip(ROWS.label, -1.3, 1.3)
    for task in range(ROWS.tasks):
        own = ROWS.task == task
        expected = x[own].T @ (w[own, None] * x[own])
        np.testing.assert_allclose(unpack(A * grids[0], D)[task], expected, atol=2e-3)
        np.testing.assert_allclose(b[task] * grids[1], x[own].T @ (w[own] * y[own]), atol=2e-3)


def slopes(rows: Rows, loss: Loss, coef: np.ndarray, label_bound: float) -> np.ndarray:
    """Each row's unweighted gradient, [rows, d]."""
    x = features_of(rows, FEATURE_BOUND)
    assert rows.label is not None
    y = np.clip(rows.label, -label_bound, label_bound)
    slope = loss.slopes((x * coef[rows.task]).sum(axis=1), y)
    return np.asarray(slope[:, None] * x)


COEF = np.random.default_rng(1).normal(size=(9, D))


@pytest.mark.parametrize("name", ["logistic", "squared", "absolute"])
@pytest.mark.parametrize("mu", [1e-3, 1.0])
def test_row_clipped_gradients(loaded: Any, name: str, mu: float) -> None:
    loss = LOSSES[name]()
    query = queries.Gradients(COEF, loss, BOUND, 1.3, "row")
    grid = UserBound(BOUND, "x").grid(mu)
    [(_, (units,))] = loaded(ROWS, whole=False).sums(query, (grid,))
    g = slopes(ROWS, loss, COEF, 1.3)
    norms = np.linalg.norm(g, axis=1)
    assert 0.2 < (norms > BOUND).mean() < 0.99 or name == "logistic"
    g *= np.minimum(1.0, BOUND * (1 - 1e-9) / np.maximum(norms, 1e-300))[:, None]
    expected = np.zeros((9, D))
    np.add.at(expected, ROWS.task, np.trunc(weights_of(ROWS)[:, None] * g / grid))
    # A number next to a whole one may go to either side of it.
    assert np.abs(units - expected).max() <= 3


@pytest.mark.parametrize("name", ["logistic", "squared"])
def test_user_clipped_gradients(loaded: Any, name: str) -> None:
    loss = LOSSES[name]()
    query = queries.Gradients(COEF, loss, BOUND, 1.3, "user")
    grid = UserBound(BOUND, "x").grid(1.0)
    [(_, (units,))] = loaded(ROWS, whole=False).sums(query, (grid,))
    g = weights_of(ROWS)[:, None] * slopes(ROWS, loss, COEF, 1.3)
    in_task = np.zeros((ROWS.users, 9))
    np.add.at(in_task, (ROWS.user, ROWS.task), np.linalg.norm(g, axis=1))
    norm = np.linalg.norm(in_task, axis=1)
    assert (norm > BOUND).any()
    assert (norm < BOUND).any()
    g *= np.minimum(1.0, BOUND / np.maximum(norm, 1e-300))[ROWS.user, None]
    expected = np.zeros((9, D))
    np.add.at(expected, ROWS.task, g)
    np.testing.assert_allclose(units * grid, expected, atol=2 * len(ROWS.task) * grid)


def test_gradients_of_a_sample_are_those_of_its_users_alone(loaded: Any) -> None:
    sample = queries.Sample(bytes(range(16)), 0.4)
    query = queries.Gradients(COEF, LOSSES["squared"](), BOUND, 1.3, "user", sample)
    everybody = replace(query, sample=None)
    grid = UserBound(BOUND, "x").grid(1.0)
    [(_, (found,))] = loaded(PAIRS, whole=False).sums(query, (grid,))
    expected, taken = np.zeros_like(found), 0
    for user in range(PAIRS.users):
        alone = loaded(PAIRS.of_users(user, user + 1), whole=False)
        [(_, (part,))] = alone.sums(everybody, (grid,))
        [(_, (drawn,))] = alone.sums(query, (grid,))
        assert not drawn.any() or (drawn == part).all()
        taken += bool(drawn.any())
        expected += drawn
    np.testing.assert_array_equal(found, expected)
    assert 10 <= taken <= 40  # of 60, some of which have no rows


def test_a_user_s_rows_stay_together_even_across_threads(loaded: Any) -> None:
    """One user has all rows: shared out, each thread would clip its own."""
    task = np.sort(np.random.default_rng(0).integers(0, 9, 500)).astype(np.int32)
    one = replace(
        make_rows(1, 9, D, 0),
        start=np.array([0, 500]),
        task=task,
        label=np.full(500, 9.0),
        features=np.ones((1, D)),
    )
    query = queries.Gradients(COEF, LOSSES["squared"](), 1e-3, 9.0, "user")
    grid = UserBound(1e-3, "x").grid(1.0)
    for threads in (1, 3):
        with this_many_threads(threads):
            [(_, (units,))] = loaded(one, whole=False).sums(query, (grid,))
        assert 0.5e-3 < np.linalg.norm(units * grid) <= 1e-3


def answers(rows: Rows, engine: str) -> list[np.ndarray]:
    found = []
    for one in asked(rows).values():
        blocks = list(ready(ENGINES[engine](), rows, whole=one.whole).sums(one.query, one.grids()))
        found += [
            np.concatenate(part) for part in zip(*(units for _, units in blocks), strict=True)
        ]
    return found


@pytest.mark.parametrize("engine", ENGINES)
def test_threads_change_nothing(engine: str) -> None:
    rows = make_rows(150, 30, 7, 20, seed=2)
    with this_many_threads(1):
        expected = answers(rows, engine)
    for threads in (2, 5):
        with this_many_threads(threads):
            for one, other in zip(answers(rows, engine), expected, strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("tasks", [1, 7, 64, 100])
def test_blocks_of_tasks_change_nothing(tasks: int) -> None:
    rows = make_rows(150, 200, 7, 20, seed=2)
    one = asked(rows)["statistics"]

    def sums(which: Session) -> list[Any]:
        return list(which.sums(one.query, one.grids()))

    [(_, whole)] = sums(ready(find_engine("auto"), rows))
    session = ready(find_engine("auto"), rows)
    assert isinstance(session, LocalSession)
    session.block_bytes = 16 * 28 * tasks
    blocks = sums(session)
    size = 64 if tasks > 64 else tasks  # whole tiles of noise
    assert [first for first, _ in blocks] == list(range(0, 200, size))
    for part in range(2):
        np.testing.assert_array_equal(
            np.concatenate([units[part] for _, units in blocks]), whole[part]
        )


class TestSteps:
    """What a session refuses, and what it forgets."""

    def test_weights_must_be_bounded_and_of_the_graph(self, loaded: Any) -> None:
        here, (graph, _) = loaded(PAIRS), PAIRS.graph()
        with pytest.raises(ap.ReleaseError, match="bounded weights"):
            here.weigh(lambda graph: np.ones(len(graph.user)))
        one = np.ones(len(graph.user))
        some = normalized(graph.user[1:], graph.task[1:], one[1:])
        with pytest.raises(ap.ReleaseError, match="exactly the graph's pairs"):
            here.weigh(lambda _: some)

    def test_new_weights_and_features_take_the_place_of_old_ones(self, loaded: Any) -> None:
        one = asked(PAIRS)["statistics"]
        fresh = loaded(PAIRS)
        [(_, expected)] = fresh.sums(one.query, one.grids())
        changed = loaded(PAIRS)
        changed.weigh(lambda graph: normalized(graph.user, graph.task, 1.0 + graph.task))
        changed.bound_features(0.1)
        [(_, other)] = changed.sums(one.query, one.grids())
        assert all((mine != theirs).any() for mine, theirs in zip(other, expected, strict=True))
        changed.weigh(ap.AdaptiveWeights(0.5).rule(9, 1.0 + np.arange(9)[::-1], 0, PAIRS.graph))
        changed.bound_features(FEATURE_BOUND)
        [(_, again)] = changed.sums(one.query, one.grids())
        for mine, theirs in zip(again, expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)

    def test_queries_that_nobody_knows(self, loaded: Any) -> None:
        with pytest.raises(ap.ReleaseError, match="does not know Query"):
            list(loaded(PAIRS).sums(queries.Query(), (1.0,)))
        with pytest.raises(ap.ReleaseError, match="not used without privacy"):
            list(loaded(PAIRS).exact_sums(queries.SecondMoment()))

    def test_chosen_tasks_in_any_order(self, loaded: Any) -> None:
        """The rows of three tasks, one of which nobody has."""
        rows = replace(PAIRS, task_ids=np.array([f"t{i}" for i in range(9)], dtype=object))
        here = loaded(rows)
        here.choose(np.array(["t7", "new", "t0"], dtype=object))
        [(_, (counts,))] = here.exact_sums(queries.Counts(1))
        sizes = np.bincount(rows.task, minlength=9)
        assert counts[:, 0].tolist() == [sizes[7], 0, sizes[0]]
        assert here.tasks == 3
