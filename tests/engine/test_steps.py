"""The steps of a session in this machine's memory: choosing, weighing, centering, solving, by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.data.centering import Centering
from apportion.engine import queries
from apportion.engine.reference import TwinKernels
from apportion.engine.session import LocalSession
from apportion.privacy import UserWeights
from tests.engine.test_small_sums import ROWS, WEIGHTS, exact

INTERCEPTS = queries.Intercepts(100.0)


def loaded(**changed: Any) -> LocalSession:
    return LocalSession(replace(ROWS, **changed), TwinKernels())


def labels(session: LocalSession) -> list[float]:
    """Summed by task, without weights."""
    return exact(session, INTERCEPTS)[:, 0].tolist()


def test_chosen_tasks_come_in_the_order_that_is_asked() -> None:
    session = loaded()
    assert session.tasks == 4
    session.choose(np.array([2, 7, 0]))
    assert session.tasks == 3
    assert labels(session) == [-42.0, 0.0, 14.0]
    session.choose(np.array([1]))
    assert (session.tasks, labels(session)) == (1, [1.5])


def test_what_is_chosen_anew_has_no_center_and_no_weights() -> None:
    session = loaded()
    session.weigh(lambda graph: UserWeights(graph.user, graph.task, WEIGHTS))
    session.center(Centering("global", 1.0))
    assert labels(session) == [14.0 - 3, 1.5 - 1, -42.0 - 2, 0.0]
    session.choose(np.array([0, 1, 2]))
    assert labels(session) == [14.0, 1.5, -42.0]
    session.bound_features(1.0)
    for query in (queries.WeightSums(), queries.RightHandSides(1.0, 1.0)):
        with pytest.raises(AssertionError, match="weigh first"):
            list(session.sums(query, (2.0**-25,)))


def test_a_center_is_of_all_ratings_less_their_intercepts() -> None:
    session, intercepts = loaded(), np.array([1.0, 0.5, -2.0, 3.0])
    session.center(Centering("user"), intercepts)
    # (8), (3, 0) and (0, 1, -38), less their means.
    third = -37 / 3
    np.testing.assert_allclose(
        labels(session),
        [0 + 1.5 - third, 1 - third, -1.5 - 38 - third, 0.0],
        rtol=1e-12,
        atol=1e-12,
    )
    session.choose(np.array([0, 3]))
    session.center(Centering("user"), np.array([1.0, 3.0]))
    # What was not chosen has no intercept: (8), (3, -2) and (0, 1.5, -40).
    np.testing.assert_allclose(labels(session), [0 + 2.5 + 38.5 / 3, 0.0], rtol=1e-12, atol=1e-12)
    session.center(Centering())
    assert labels(session) == [14.0, 0.0]


def test_the_label_of_an_event_is_one() -> None:
    session = loaded(label=None)
    session.center(Centering("user", 7.0), np.ones(4))
    assert labels(session) == [3.0, 1.0, 2.0, 0.0]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda graph: WEIGHTS,
        lambda graph: UserWeights(graph.user + 1, graph.task, WEIGHTS),
        lambda graph: UserWeights(graph.user, graph.task + 1, WEIGHTS),
        lambda graph: UserWeights(graph.user[1:], graph.task[1:], WEIGHTS[1:]),
    ],
)
def test_weights_are_those_of_the_graph(wrong: Any) -> None:
    with pytest.raises(ap.ReleaseError, match="an allocation must give"):
        loaded().weigh(wrong)


def test_features_that_are_solved_cannot_be_bounded() -> None:
    with pytest.raises(AssertionError, match="solved here"):
        loaded(features=None).bound_features(1.0)


class Solved(TwinKernels):
    """Has solved users' vectors already."""

    def __init__(self, vectors: Any) -> None:
        self.vectors, self.asked = np.array(vectors), list[Any]()

    def solve_users(self, *systems: Any, bound: float | None, stretch: bool) -> Any:
        self.asked.append((*systems, bound, stretch))
        return self.vectors.copy()


def solved(vectors: Any, bound: float | None = None, **more: Any) -> tuple[LocalSession, list[Any]]:
    kernels = Solved(vectors)
    session = LocalSession(replace(ROWS, features=None), kernels)
    systems, shared = queries.UserSystems(0.5, 1.0), np.eye(2)
    session.solve_users(np.ones((4, 2)), shared, systems, bound, **more)
    [asked] = kernels.asked
    return session, asked


def test_vectors_are_solved_from_users_rows() -> None:
    zeros = np.zeros((4, 2), dtype=np.int16)
    _, (start, task, label, items, ridge, shared, bound, stretch) = solved(zeros, 2.0, stretch=True)
    assert start.tolist() == [0, 0, 1, 3, 6]
    assert task.tolist() == ROWS.task.tolist()
    np.testing.assert_array_equal(label, ROWS.label)
    assert (items.tolist(), shared.tolist()) == ([[1.0, 1.0]] * 4, np.eye(2).tolist())
    assert ridge.tolist() == [0.5, 0.5, 1.0, 1.5]
    assert (bound, stretch) == (2.0, True)
    assert solved(zeros, 2.0)[1][-1] is False


def test_vectors_beyond_all_numbers_become_zeros() -> None:
    vectors = [[1.0, 2.0], [np.inf, 1.0], [2.0, np.nan], [np.nan, -np.inf]]
    session, _ = solved(vectors)
    assert exact(session, queries.Gramian()).tolist() == [[1.0, 2.0, 4.0]]


def test_bounded_vectors_are_in_units_of_their_bound() -> None:
    vectors = np.array([[2**15 - 1, 0]] * 4, dtype=np.int16)
    session, _ = solved(vectors, 3.0)
    statistics = exact(session, queries.Statistics(queries.RightHandSides(1.0, 3.0)))
    np.testing.assert_allclose(statistics[:, 0], [27.0, 9.0, 18.0, 0.0], rtol=1e-12)
    [(_, (units,))] = session.sums(queries.Gramian(), (2.0**-20,))
    np.testing.assert_allclose(units * 2.0**-20, [[36.0, 0.0, 0.0]], atol=0.1)


@pytest.mark.parametrize(("rating", "vector"), [(1.0, 1e200), (1e300, 1e150), (1.0, np.nan)])
def test_gains_beyond_all_numbers_are_none(rating: float, vector: float) -> None:
    # Less than nothing, more than everything, and no number at all.
    assert ROWS.label is not None
    kernels = Solved([[vector, 0.0]] * 4)
    session = LocalSession(replace(ROWS, label=np.full(6, rating), features=None), kernels)
    query = queries.FoldInGains(
        np.ones((4, 2)), (queries.UserSystems(1.0, 0.0),), Centering(), None, 1.0
    )
    with np.errstate(all="ignore"):
        [(_, (units,))] = session.sums(query, (2.0**-25,))
    assert not units.any()
