"""Simulated interactions have the promised size and tails, and there is something to learn in them."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import apportion as ap
from apportion.data import SHAPES, Interactions, simulate_interactions


def largest_tenth(counts: NDArray[Any]) -> float:
    counts = np.sort(counts)[::-1]
    return float(counts[: len(counts) // 10].sum() / counts.sum())


@pytest.mark.parametrize(
    ("users", "items", "rows"),
    [(1, 1, 1), (3, 4, 12), (5, 1, 5), (1, 50, 50), (7, 9, 7), (20, 30, 599), (300, 40, 2000)],
)
def test_the_size_is_exact(users: int, items: int, rows: int) -> None:
    data = simulate_interactions(users=users, items=items, rows=rows, popular_tenth=0.9)
    assert (data.users, data.items, len(data.by_user.other)) == (users, items, rows)
    assert data.graph.user_sizes().min() >= 1
    assert data.catalog_is_public
    assert not data.catalog_from_data


@pytest.mark.parametrize("name", ["ml-100k", "ml-1m"])
def test_known_shapes(name: str) -> None:
    shape = SHAPES[name]
    data = simulate_interactions(**shape)
    assert data.users == shape["users"]
    assert data.items == shape["items"]
    assert len(data.by_user.other) == shape["rows"]
    assert data.rating_range == shape["rating_range"]
    tenth = largest_tenth(data.graph.task_sizes())
    assert tenth == pytest.approx(shape["popular_tenth"], abs=0.03)
    tenth = largest_tenth(data.graph.user_sizes())
    assert tenth == pytest.approx(shape["active_tenth"], abs=0.02)


def test_the_tail_of_ml_20m() -> None:
    """A twentieth of its users, so that the test is quick; they take as many items each."""
    shape = SHAPES["ml-20m"]
    shape = {**shape, "users": shape["users"] // 20, "rows": shape["rows"] // 20}
    data = simulate_interactions(**shape)
    assert largest_tenth(data.graph.task_sizes()) == pytest.approx(0.86, abs=0.02)
    assert not data.explicit


def test_seeds() -> None:
    first, again, other = (simulate_interactions(seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.by_user.other, again.by_user.other)
    np.testing.assert_array_equal(first.by_user.rating, again.by_user.rating)
    assert not np.array_equal(first.by_user.other, other.by_user.other)


def test_popular_items_and_active_users_are_anywhere_in_the_order() -> None:
    graph = simulate_interactions(users=2000, items=1000, rows=40_000).graph
    for sizes in (graph.task_sizes(), graph.user_sizes()):
        # Four standard deviations of a correlation of independent values.
        place = np.arange(len(sizes))
        assert abs(np.corrcoef(place, sizes)[0, 1]) < 4 / len(sizes) ** 0.5


@pytest.mark.parametrize("rating_range", [(1.0, 5.0), (-10.0, 10.0)])
def test_ratings_use_their_range(rating_range: tuple[float, float]) -> None:
    data = simulate_interactions(rating_range=rating_range)
    low, high = rating_range
    ratings = (np.asarray(data.by_user.rating) - low) / (high - low)
    assert ratings.min() >= 0
    assert ratings.max() <= 1
    assert 0.45 < ratings.mean() < 0.75
    assert 0.15 < ratings.std() < 0.35
    assert np.mean(ratings == 1) < 0.2


def masked_table(data: Interactions) -> NDArray[np.float64]:
    table = np.full((data.users, data.items), np.nan)
    table[data.user_of_row, data.by_user.other] = data.by_user.rating
    return table


def test_taste_can_be_learned() -> None:
    """A low-rank completion beats the means of users and items on ratings that it has not seen."""
    data = simulate_interactions(users=300, items=60, rows=10_000, rank=3, popular_tenth=0.12)
    training, test = (masked_table(part) for part in data.split((0.8, 0.2)))
    known, asked = ~np.isnan(training), ~np.isnan(test)
    means = np.full(training.shape, np.nanmean(training))
    for axis in (0, 1):
        rest, count = np.where(known, training - means, 0), known.sum(axis=axis, keepdims=True)
        means = means + rest.sum(axis=axis, keepdims=True) / np.maximum(count, 1)
    guess = means
    for _ in range(10):
        left, size, right = np.linalg.svd(np.where(known, training, guess) - means, False)
        guess = means + (left * np.maximum(size - 8, 0)) @ right
    by_means, by_taste = (np.mean((test - g)[asked] ** 2) for g in (means, guess))
    assert by_taste < 0.8 * by_means


def test_taste_decides_in_part_what_is_taken() -> None:
    """Events that were held out are found better by neighbors than by popularity."""
    data = simulate_interactions(
        users=2000, items=300, rows=40_000, rating_range=None, popular_tenth=0.2
    )
    history, labels = (
        np.bincount(part.user_of_row * 300 + part.by_user.other, minlength=600_000)
        .reshape(2000, 300).astype(float)
        for part in data.split((0.8, 0.2))
    )  # fmt: skip
    popular = np.broadcast_to(history.sum(axis=0), history.shape)
    # The regression of EASE: an item from all others.
    inverse = np.linalg.inv(history.T @ history + 50 * np.eye(300))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0)
    recall = [
        np.take_along_axis(
            labels, np.argsort(np.where(history > 0, -np.inf, s), axis=1)[:, -20:], axis=1
        ).sum()
        / labels.sum()
        for s in (popular, history @ weights)
    ]
    assert recall[1] > 1.15 * recall[0]


@pytest.mark.parametrize(
    "settings",
    [
        {"users": 0},
        {"items": 0},
        {"rows": 999},
        {"rows": 200_001},
        {"rank": 0},
        {"popular_tenth": 1.0},
        {"active_tenth": 0.01},
        {"seed": -1},
        {"rating_range": (5, 1)},
    ],
)
def test_impossible_settings_are_named(settings: dict[str, Any]) -> None:
    with pytest.raises(ap.ParameterError, match=next(iter(settings))):
        simulate_interactions(**settings)
