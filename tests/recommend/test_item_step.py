"""What of a user's rows goes into the right-hand sides of items, once it is bounded."""

from typing import Any

import numpy as np
import pytest
from apportion.recommend.item_step import ItemStep

import apportion as ap
from apportion.privacy import Curator, PrivacyTarget, UserWeights
from apportion.recommend import MatrixFactorization
from apportion.recommend import item_step as item_step_module
from apportion.recommend.planner import Choice
from apportion.tasks.shared import solve_moments

# The last user has no row in the catalogue, and the item in the middle no user.
DATA = ap.Interactions(
    [0, 0, 1, 2, 3], [0, 2, 2, 0, 3], [5.0, 1.0, 4.0, 3.0, 2.0], items=4, rating_range=(1, 5)
).of_items(np.array([0, 1, 2]))
LABELS = np.array([4.0, -3.0, 6.0, 0.5])
WEIGHTS = UserWeights.normalised(
    np.array([0, 0, 1, 2]), np.array([0, 2, 2, 0]), np.array([0.6, 0.8, 1.0, 1.0])
)


def item_step(weights: UserWeights = WEIGHTS, **settings: Any) -> ItemStep:
    model = MatrixFactorization(2, 1, label_bound=2.0, feature_bound=0.5, **settings)
    each = np.ones(DATA.items)
    return ItemStep(
        model._item_settings(DATA, Choice(2, 1, 0.0)),
        model.plan(),
        Curator(PrivacyTarget(1.0, 1e-5)),
        weights,
        LABELS,
        DATA,
        each,
        each,
        each,
        4.0,
    )


def bounded(step: ItemStep, vectors: Any) -> list[float]:
    """The labels as they are summed, in the order of the pairs of users and items."""
    unit = 2.0**-20
    rows = step._bounded_rows(np.rint(np.array(vectors) / unit), unit)
    task = np.repeat(np.arange(DATA.items), np.diff(rows.start))
    label = rows.label if rows.share is None else rows.label * rows.share[rows.user]
    return [float(label[place]) for place in np.lexsort((task, rows.user))]


def test_users_are_scaled_by_the_norms_of_their_labels_and_vectors() -> None:
    # |(0.6 * 4, 0.8 * -3)| = 3.394 and 6 at vectors of the full length 0.5; the bound is 2 * 0.5.
    norm = np.hypot(2.4, 2.4)
    found = bounded(item_step(), [[0.3, 0.4], [0.5, 0.0], [0.0, 0.5], [0.5, 0.0]])
    np.testing.assert_allclose(found, [4 * 2 / norm, -3 * 2 / norm, 2.0, 0.5], rtol=1e-5)


def test_short_vectors_leave_room_for_large_labels() -> None:
    # 3.394 * 0.25 < 1 and 0.5 * 0.5 < 1, but 6 * 0.25 > 1.
    found = bounded(item_step(), [[0.0, 0.25], [0.25, 0.0], [0.0, 0.5], [0.5, 0.0]])
    np.testing.assert_allclose(found, [4.0, -3.0, 4.0, 0.5], rtol=1e-5)


def test_vectors_of_zeros_leave_labels_alone() -> None:
    assert bounded(item_step(), np.zeros((4, 2))) == LABELS.tolist()


@pytest.mark.parametrize(
    "settings", [{"clip": "row"}, {"solver": "descent"}], ids=["row", "descent"]
)
def test_otherwise_ratings_are_clipped_one_by_one(settings: dict[str, Any]) -> None:
    rows = item_step(**settings)._bounded_rows(np.full((4, 2), 1000), 1e-4)
    assert sorted(rows.label.tolist()) == [-2.0, 0.5, 2.0, 2.0]


@pytest.mark.parametrize("clip", ["user", "row"])
def test_nothing_is_bounded_without_privacy(clip: Any) -> None:
    weights = UserWeights.unbounded(WEIGHTS.user, WEIGHTS.task)
    found = bounded(item_step(weights, clip=clip), np.full((4, 2), 100.0))
    assert found == LABELS.tolist()


@pytest.mark.parametrize(("clip", "because"), [("user", "scaled down"), ("row", "|y x| <=")])
@pytest.mark.parametrize("statistics", ["shared", "per-task"])
def test_the_record_says_how(clip: Any, because: str, statistics: Any) -> None:
    model = MatrixFactorization(2, 1, clip=clip, statistics=statistics, intercept_share=0.0)
    data = ap.simulate_interactions(users=50, items=10, rows=300)
    [record] = [r for r in model.fit(data).privacy.ledger if r.name in ("sweep 1", "sweep 1.b")]
    assert because in record.because


@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
def test_what_an_item_is_solved_with(monkeypatch: pytest.MonkeyPatch, feedback: Any) -> None:
    seen: list[tuple[Any, Any, Any]] = []

    def spying(
        rows: Any, release: Any, mass: Any, moment: Any, ridge: Any, engine: Any,
        guess: Any = None, spread: Any = None,
    ) -> Any:  # fmt: skip
        seen.append((mass, guess, spread))
        return solve_moments(rows, release, mass, moment, ridge, engine, guess, spread)

    monkeypatch.setattr(item_step_module, "solve_moments", spying)
    model = MatrixFactorization(2, 2, feedback, unobserved_weight=0.3, intercept_share=0.0)
    scale, sums, users = np.array([0.5, 0.2, 0.4]), np.array([7.0, 3.0, 5.0]), 10.0
    data = ap.Interactions([0, 0, 1, 2], [0, 2, 2, 0], [5.0, 1, 4, 3], items=3, rating_range=(1, 5))
    step = ItemStep(
        model._item_settings(data, Choice(2, 2, 0.0)),
        model.plan(),
        Curator(PrivacyTarget(1.0, 1e-5)),
        WEIGHTS,
        LABELS,
        data,
        np.ones(3),
        scale,
        sums,
        users,
    )
    items = np.ones((3, 2))
    for sweep in (1, 2):
        items = step(sweep, *step.features(np.full((3, 2), 0.1)), items)
    # Unobserved pairs weigh on all users alike.
    unobserved = 0.3 * users * scale if feedback == "implicit" else 0.0
    for mass, _, spread in seen:
        np.testing.assert_allclose(mass, sums + unobserved)
        assert (spread is None) == (feedback == "explicit")
    # The first items are random, so they are no guess.
    assert seen[0][1] is None
    assert seen[1][1].shape == (3, 2)
