"""What four users add to each sum, worked out by hand: nobody, one row, two rows, three rows."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.data.centering import Centering
from apportion.data.rows import Rows
from apportion.engine import Session, queries
from apportion.privacy import UserWeights
from apportion.tasks.losses import LOSSES
from tests.engine.contract.cases import ENGINES

GRID = 2.0**-25
ROWS = Rows(
    start=np.array([0, 0, 1, 3, 6]),
    task=np.array([0, 0, 2, 0, 1, 2], dtype=np.int32),
    task_ids=np.arange(4),
    user_key=np.arange(4, dtype=np.uint64),
    label=np.array([9.0, 4.0, -2.0, 1.0, 1.5, -40.0]),
    features=np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 0.5], [-0.3, 0.0]]),
)
USER = np.array([1, 2, 2, 3, 3, 3])
WEIGHTS = np.array([0.5, 0.6, 0.8, 0.2, 0.4, 0.5])


@pytest.fixture(params=ENGINES)
def session(request: pytest.FixtureRequest) -> Session:
    session = ENGINES[request.param]().load(ROWS)
    session.weigh(lambda graph: UserWeights(graph.user, graph.task, WEIGHTS))
    session.bound_features(1.0)
    return session


def asked(session: Session, query: queries.Query, parts: int = 1) -> list[np.ndarray]:
    [(first, units)] = session.sums(query, (GRID,) * parts)
    assert first == 0
    assert len(units) == parts
    return [part * GRID for part in units]


def near(found: np.ndarray, expected: Any, within: float = 8 * GRID) -> None:
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=0, atol=within)


def outer(*weighted: tuple[float, int]) -> list[float]:
    """The packed upper triangle of the sum of w x x' over users."""
    assert ROWS.features is not None
    total = sum(
        (w * np.outer(ROWS.features[u], ROWS.features[u]) for w, u in weighted), np.zeros((2, 2))
    )
    return [total[0, 0], total[0, 1], total[1, 1]]


def test_who_is_there(session: Session) -> None:
    near(asked(session, queries.Users())[0], [[3.0]])
    means = [9.0, 1.0, -12.5]  # of the users' ratings
    scaled = [min(max((mean - 1.0) / 4.0, -1.0), 1.0) for mean in means]
    near(asked(session, queries.Means(1.0, 4.0))[0], [[sum(scaled), 3.0]])


def test_how_ratings_differ(session: Session) -> None:
    # Scaled: (1), (3/4, -3/4), (0, 1/8, -1).
    pair, three = 2 * 0.75**2, 1 + 1 / 64 - 3 * (0.875 / 3) ** 2
    squares = [-pair / 2, (0.875 / 3) ** 2 - three / 2 / 3]
    halves = [pair / 2, three / 2 / 2]
    expected = [[3.0, 1.0 + 0.0 - 0.875 / 3, 2.0, sum(squares), sum(halves)]]
    near(asked(session, queries.RatingMoments(1.0, 4.0))[0], expected)


def test_counts(session: Session) -> None:
    third = math.sqrt(2 / 3)
    near(asked(session, queries.Counts(2))[0], [[2 + third], [third], [1 + third], [0.0]])
    near(asked(session, queries.Counts(3))[0], [[3.0], [1.0], [2.0], [0.0]])
    two, three = math.sqrt(1 / 2), math.sqrt(1 / 3)
    near(asked(session, queries.Counts(1))[0], [[1 + two + three], [three], [two + three], [0.0]])
    [sampled] = asked(session, queries.Counts(1, key=5))
    assert sampled.sum() == 3.0
    assert (sampled <= [[3.0], [1.0], [2.0], [0.0]]).all()


def test_sums_of_weights_and_labels(session: Session) -> None:
    near(asked(session, queries.WeightSums())[0], [[1.3], [0.4], [1.3], [0.0]])
    # Users' weighted labels have norms of 4.5, |(2.4, -1.6)| and |(0.2, 0.6, -20)|.
    norms = [4.5, math.hypot(2.4, 1.6), math.sqrt(0.04 + 0.36 + 400)]
    by = [min(1.0, 3.0 / norm) for norm in norms]
    expected = [4.5 * by[0] + 2.4 * by[1] + 0.2 * by[2], 0.6 * by[2], -1.6 * by[1] - 20 * by[2], 0]
    near(asked(session, queries.Intercepts(3.0))[0], np.array(expected)[:, None])


def test_sums_of_squares(session: Session) -> None:
    near(asked(session, queries.Gramian())[0], [outer((1, 0), (1, 1), (1, 2), (1, 3))], 2e-3)
    second, mass = asked(session, queries.SecondMoment(), 2)
    squares = {1: 0.25, 2: 1.0, 3: 0.04 + 0.16 + 0.25}
    near(second, [outer(*((w, user) for user, w in squares.items()))], 2e-3)
    near(mass, [[sum(squares.values())]])


@pytest.mark.parametrize("clip", ["row", "user"])
def test_right_hand_sides(session: Session, clip: Any) -> None:
    assert ROWS.label is not None
    assert ROWS.features is not None
    if clip == "row":
        labels = np.clip(ROWS.label, -3.0, 3.0)
    else:
        lengths = np.linalg.norm(ROWS.features, axis=1)
        norms = [0.0, 4.5, math.hypot(2.4, 1.6), math.sqrt(0.04 + 0.36 + 400)]
        by = [
            min(1.0, 3.0 / max(norm * size, 1e-9))
            for norm, size in zip(norms, lengths, strict=True)
        ]
        labels = ROWS.label * np.array(by)[USER]
    expected = np.zeros((4, 2))
    for row, task in enumerate(ROWS.task):
        expected[task] += WEIGHTS[row] * labels[row] * ROWS.features[USER[row]]
    query = queries.RightHandSides(3.0, 1.0, clip)
    near(asked(session, query)[0], expected, 2e-3)
    second, right = asked(session, queries.Statistics(query), 2)
    near(right, expected, 2e-3)
    tasks = ((0.5, 1), (0.6, 2), (0.2, 3)), ((0.4, 3),), ((0.8, 2), (0.5, 3)), ()
    near(second, [outer(*each) for each in tasks], 2e-3)


def test_labels_are_clipped_to_what_is_asked_each_time(session: Session) -> None:
    loose, tight = (queries.RightHandSides(bound, 1.0) for bound in (3.0, 1.0))
    first = asked(session, loose)[0]
    assert np.abs(asked(session, tight)[0] - first).max() > 0.5
    near(asked(session, loose)[0], first, 0.0)


@pytest.mark.parametrize("clip", ["row", "user"])
@pytest.mark.parametrize("name", ENGINES)
def test_clipped_gradients_are_on_the_safe_side(name: str, clip: Any) -> None:
    # A gradient along one axis: of the 2^27 units in its bound it gets one less.
    one = Rows(
        np.array([0, 1]), np.zeros(1, np.int32), np.arange(1), np.zeros(1, np.uint64),
        label=np.array([-9.0]), features=np.array([[-1.0, 0.0]]),
    )  # fmt: skip
    session = ENGINES[name]().load(one)
    session.weigh(lambda graph: UserWeights(graph.user, graph.task, np.ones(1)))
    session.bound_features(1.0, whole=False)
    query = queries.Gradients(np.zeros((1, 2)), LOSSES["squared"](), 1.0, 5.0, clip)
    [(_, (units,))] = session.sums(query, (2.0**-27,))
    assert units.tolist() == [[-(2**27) + 1, 0]]


def gains(
    session: Session, systems: int, unit: float, items: float = 1.0, *, opposed: bool = False
) -> np.ndarray:
    last = -1.0 if opposed else 1.0
    query = queries.FoldInGains(
        items * np.array([[1.0, 0.0], [0.0, 1.0], [last, 0.0], [0.0, 0.0]]),
        (queries.UserSystems(1.0, 0.0),) * systems, Centering(), None, unit,
    )  # fmt: skip
    return asked(session, query)[0]


def test_gains_of_vectors(session: Session) -> None:
    # Items 0 and 2 are one direction. User 2 rated them 4 and -2: from 4 a vector of 2 is made, which is
    # wrong by 2^2 - 4^2 more, from -2 one of -1. User 3 rated them 1 and -40 in one half, 1.5 in the other.
    two = (2.0 * (2 * -2.0 - 2.0) + -1.0 * (2 * 4.0 + 1.0)) / math.sqrt(2)
    for unit in (100.0, 1000.0):
        near(gains(session, 1, unit), [[two / unit]])


def test_gains_have_a_bound(session: Session) -> None:
    # User 2's part alone, as user 3's is zero.
    near(gains(session, 1, 1e-3), [[-0.5]])
    near(gains(session, 4, 1e-3), [[-0.5] * 4])
    near(gains(session, 16, 1e-3), [[-0.25] * 16])
    # Where user 2's two items are opposed, its vector helps.
    near(gains(session, 1, 1e-3, opposed=True), [[0.5]])
    for items in (1e160, 1e300):
        assert not gains(session, 2, 1.0, items).any()


def test_sums_without_privacy(session: Session) -> None:
    means = np.array([9.0, 1.0, -12.5])
    near(exact(session, queries.Means(1.0, 4.0)), [[((means - 1) / 4).sum(), 3.0]])
    for query in (queries.Counts(2), queries.WeightSums()):
        near(exact(session, query), [[3.0], [1.0], [2.0], [0.0]])
    near(exact(session, queries.Intercepts(3.0)), [[14.0], [1.5], [-42.0], [0.0]])
    near(
        exact(session, queries.RatingMoments(1.0, 4.0)),
        asked(session, queries.RatingMoments(1.0, 4.0))[0],
    )


def exact(session: Session, query: queries.Query) -> np.ndarray:
    [(first, parts)] = session.exact_sums(query)
    assert first == 0
    return np.asarray(parts[0])


def test_gramian_and_gradients_without_privacy(session: Session) -> None:
    assert ROWS.label is not None
    assert ROWS.features is not None
    session.bound_features(1.0, whole=False)
    near(exact(session, queries.Gramian()), [outer((1, 0), (1, 1), (1, 2), (1, 3))])
    coef = np.array([[1.0, 2.0], [0.5, 0.0], [0.0, -1.0], [3.0, 3.0]])
    expected = np.zeros((4, 2))
    for row, task in enumerate(ROWS.task):
        x = ROWS.features[USER[row]]
        expected[task] += (coef[task] @ x - ROWS.label[row]) * x
    query = queries.Gradients(coef, LOSSES["squared"](), 0.1, 0.1)
    near(exact(session, query), expected)


@pytest.mark.parametrize("name", ENGINES)
def test_confidence_without_privacy_keeps_a_user_s_squares(name: str) -> None:
    confidence = np.array([0.3, 1.0, 0.5, 1.0, 0.5, 0.25])
    session = ENGINES[name]().load(replace(ROWS, confidence=confidence))
    pair, three = math.sqrt(2 / 1.25), math.sqrt(3 / 1.3125)
    labels = [9.0 + 4.0 * pair + three, 1.5 * 0.5 * three, -2.0 * 0.5 * pair - 40 * 0.25 * three, 0]
    near(exact(session, queries.Intercepts(3.0)), np.array(labels)[:, None])


@pytest.mark.parametrize("name", ENGINES)
def test_users_of_many_vectors_are_clipped_row_by_row(name: str) -> None:
    session = ENGINES[name]().load(replace(ROWS, feature_row=USER))
    session.weigh(lambda graph: UserWeights(graph.user, graph.task, WEIGHTS))
    session.bound_features(1.0)
    asked(session, queries.RightHandSides(3.0, 1.0, "row"))
    with pytest.raises(AssertionError, match="one feature vector each"):
        asked(session, queries.RightHandSides(3.0, 1.0, "user"))


def test_what_is_no_query_is_refused(session: Session) -> None:
    with pytest.raises(ap.ReleaseError, match="does not know Query"):
        asked(session, queries.Query())
    with pytest.raises(ap.ReleaseError, match="is not used without privacy"):
        list(session.exact_sums(queries.Users()))
