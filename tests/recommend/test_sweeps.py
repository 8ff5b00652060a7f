"""What of a user's rows goes into the right-hand sides of items, and what items are solved with."""

import math
from typing import Any
from unittest import mock

import numpy as np
import pytest

import apportion as ap
from apportion.allocation.scaling import normalized
from apportion.data.centering import Centering
from apportion.data.rows import Rows
from apportion.engine import Session, queries
from apportion.packing import unpack
from apportion.recommend import MatrixFactorization, sweep
from apportion.recommend.masses import Masses
from apportion.recommend.sizes import Sizes
from apportion.tasks.shared import shrink

# The last user has no row, and the item in the middle no user.
START, ITEM = np.array([0, 2, 3, 4, 4]), np.array([0, 2, 2, 0])
LABELS = np.array([4.0, -3.0, 6.0, 0.5])
WEIGHTS = normalized(np.array([0, 0, 1, 2]), np.array([0, 2, 2, 0]), np.array([0.6, 0.8, 1.0, 1.0]))
LABEL_BOUND, FEATURE_BOUND = 2.0, 0.5
GRID = 2.0**-30
# Of squares: kernels refuse grids far finer than the bound.
SQUARES = 2.0**-26
each_engine = pytest.mark.parametrize("engine", [ap.CpuEngine(), ap.ReferenceEngine()], ids=repr)


def session(engine: ap.Engine, vectors: Any) -> Session:
    """Users of these labels, weights and vectors."""
    vectors = np.array(vectors, dtype=float)
    keys = np.arange(4, dtype=np.uint64)
    rows = Rows(START, ITEM, np.arange(3), keys, label=LABELS, features=vectors)
    found = engine.load(rows)
    found.weigh(lambda graph: WEIGHTS)
    found.bound_features(FEATURE_BOUND)
    return found


def bounded(engine: ap.Engine, vectors: Any, clip: Any = "user") -> list[float]:
    """The labels as they are summed, in the order of the pairs: from each user's own part."""
    query = queries.RightHandSides(LABEL_BOUND, FEATURE_BOUND, clip)
    vectors = np.array(vectors, dtype=float)
    labels = []
    for pair in range(len(WEIGHTS.user)):
        user, item = int(WEIGHTS.user[pair]), int(WEIGHTS.task[pair])
        alone = vectors * (np.arange(len(vectors)) == user)[:, None]
        [(_, (units,))] = session(engine, alone).sums(query, (GRID,))
        at = int(np.argmax(np.abs(vectors[user])))
        labels.append(units[item, at] * GRID / vectors[user, at] / WEIGHTS.values[pair])
    return labels


@each_engine
def test_users_are_scaled_by_the_norms_of_their_labels_and_vectors(engine: ap.Engine) -> None:
    # |(0.6 * 4, 0.8 * -3)| = 3.394 and 6 at vectors of the full length 0.5; the bound is 2 * 0.5.
    norm = np.hypot(2.4, 2.4)
    found = bounded(engine, [[0.3, 0.4], [0.5, 0.0], [0.0, 0.5], [0.5, 0.0]])
    np.testing.assert_allclose(found, [4 * 2 / norm, -3 * 2 / norm, 2.0, 0.5], rtol=2e-4)


@each_engine
def test_short_vectors_leave_room_for_large_labels(engine: ap.Engine) -> None:
    # 3.394 * 0.25 < 1 and 0.5 * 0.5 < 1, but 6 * 0.25 > 1.
    found = bounded(engine, [[0.0, 0.25], [0.25, 0.0], [0.0, 0.5], [0.5, 0.0]])
    np.testing.assert_allclose(found, [4.0, -3.0, 4.0, 0.5], rtol=2e-4)


@each_engine
def test_vectors_of_zeros_add_nothing(engine: ap.Engine) -> None:
    zeros = session(engine, np.zeros((4, 2)))
    query = queries.RightHandSides(LABEL_BOUND, FEATURE_BOUND, "user")
    [(_, (units,))] = zeros.sums(query, (GRID,))
    assert not units.any()


@each_engine
def test_otherwise_ratings_are_clipped_one_by_one(engine: ap.Engine) -> None:
    found = bounded(engine, [[0.0, 0.25], [0.25, 0.0], [0.0, 0.5], [0.5, 0.0]], clip="row")
    np.testing.assert_allclose(found, [2.0, -2.0, 2.0, 0.5], rtol=2e-4)


@each_engine
def test_statistics_have_the_right_hand_sides_that_are_released_alone(engine: ap.Engine) -> None:
    vectors = [[0.3, 0.4], [0.5, 0.0], [0.1, 0.2], [0.5, 0.0]]
    for clip in ("user", "row"):
        query = queries.RightHandSides(LABEL_BOUND, FEATURE_BOUND, clip)
        [(_, (alone,))] = session(engine, vectors).sums(query, (GRID,))
        [(_, (_, beside))] = session(engine, vectors).sums(
            queries.Statistics(query), (SQUARES, GRID)
        )
        np.testing.assert_allclose(beside * GRID, alone * GRID, atol=1e-3)


@each_engine
def test_nothing_is_bounded_without_privacy(engine: ap.Engine) -> None:
    data = ap.Interactions([0, 0, 1], [0, 1, 1], [90.0, -80.0, 70.0], items=2)
    found = engine.load(data.rows())
    found.center(Centering())
    systems = queries.UserSystems(1e-9, 0.0)
    found.solve_users(np.array([[1e-3], [0.0]]), np.zeros((1, 1)), systems, None)
    query = queries.Statistics(queries.RightHandSides(math.inf, math.inf))
    [(_, (A, b))] = found.exact_sums(query)
    vector = 90e-3 / (1e-6 + 1e-9)  # of the first user; the second one's item is zero
    np.testing.assert_allclose(A[:, 0], [vector**2, vector**2], rtol=1e-4)
    np.testing.assert_allclose(b[:, 0], [90 * vector, -80 * vector], rtol=1e-4)


@pytest.mark.parametrize(("clip", "because"), [("user", "scaled down"), ("row", "|y x| <=")])
@pytest.mark.parametrize("matrices", ["shared", "per-item"])
def test_the_record_says_how(clip: Any, because: str, matrices: Any) -> None:
    solver = ap.SufficientStatistics(matrices=matrices, clip=clip)
    model = MatrixFactorization(2, 1, solver=solver, offsets=ap.Offsets(intercept_share=0.0))
    data = ap.simulate_interactions(users=50, items=10, rows=300)
    [record] = [r for r in model.fit(data).privacy.ledger if r.name in ("sweep 1", "sweep 1.b")]
    assert because in record.because


@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
def test_what_an_item_is_solved_with(feedback: Any) -> None:
    seen: list[Any] = []

    def spying(
        b: Any, noise: Any, mass: Any, moment: Any, ridge: Any, guess: Any, spread: Any
    ) -> Any:
        seen.append((b.copy(), noise, mass, moment, ridge, guess, spread))
        return shrink(b, noise, mass, moment, ridge, guess, spread)

    model = MatrixFactorization(
        2,
        2,
        feedback,
        epsilon=20.0,
        regularization=ap.Regularization(unobserved_weight=0.3),
        offsets=ap.Offsets(intercept_share=0.0),
        noise_seed=1,
    )
    data = ap.simulate_interactions(users=200, items=6, rows=600)
    prepared = model.prepare(data)
    with mock.patch.object(sweep, "shrink", spying):
        model.fit(data, preparation=prepared)
    sizes = Sizes.of(model._settings(data), prepared)
    scale, counts = sizes.scale, sizes.counts
    # Unobserved pairs weigh on all users alike.
    unobserved = 0.3 * prepared.users * scale if feedback == "implicit" else 0.0
    ridge = 0.05 * scale * counts if feedback == "explicit" else 1.5 * scale
    noises = [r.noise_scale for r in model.privacy.ledger if r.name in ("sweep 1", "sweep 2")]
    known = Masses.of(model._settings(data), prepared, sizes)
    for noise, (b, used, mass, moment, penalty, _, spread) in zip(noises, seen, strict=True):
        assert used == noise
        own = scale * counts
        if feedback == "implicit":
            known = known.after(b, noise)
            own = known.expected
        np.testing.assert_allclose(mass, own + unobserved)
        np.testing.assert_allclose(penalty, ridge)
        assert np.linalg.eigvalsh(moment).min() >= 0
        if feedback == "explicit":
            assert spread is None
        else:
            np.testing.assert_allclose(spread, 2.0 * own * scale)
    # The first items are random, so they are no guess.
    assert seen[0][5] is None
    assert seen[1][5].shape == (6, 2)


@pytest.mark.parametrize("allocation", [ap.TailSampling(2), ap.UniformSampling(2)])
def test_where_users_keep_some_items_only_those_who_keep_one_are_counted(
    allocation: ap.Allocation,
) -> None:
    data = ap.simulate_interactions(users=2_000, items=20, rows=20_000)
    model = ap.MatrixFactorization(2, 1, epsilon=60.0, allocation=allocation, noise_seed=1)
    sizes = Sizes.of(model._settings(data), model.prepare(data))
    assert sizes.scale == pytest.approx(1 / np.sqrt(2))
    assert sizes.counts.sum() == pytest.approx(4_000, rel=0.05)  # two each, of ten


@each_engine
def test_the_second_moment_is_that_of_the_users(engine: ap.Engine) -> None:
    vectors = [[0.3, 0.4], [0.5, 0.0], [0.1, 0.2], [0.0, 0.5]]
    [(_, (units,))] = session(engine, vectors).sums(queries.Gramian(), (SQUARES,))
    expected = np.array(vectors).T @ np.array(vectors)
    np.testing.assert_allclose(unpack(units * SQUARES, 2)[0], expected, rtol=1e-3, atol=1e-4)
