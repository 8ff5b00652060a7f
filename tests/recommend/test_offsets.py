"""How far a user's own mean is trusted: what a small release says of it, and what is done with that."""

import math
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.data.centering import Centering
from apportion.recommend.metrics import rating_metrics
from apportion.recommend.offsets import Offset, compute, estimate


def rated(
    users: int, each: int, between: float, within: float, mean: float = 6.0, seed: int = 0
) -> ap.Interactions:
    """Ratings from 1 to 10 whose users' means differ by ``between``, and they from these by ``within``."""
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(users), each)
    item = np.concatenate([rng.permutation(40)[:each] for _ in range(users)])
    rating = mean + rng.normal(0, between, users)[user] + rng.normal(0, within, len(user))
    return ap.Interactions(user, item, np.clip(rating, 1, 10), items=40, rating_range=(1, 10))


def exactly(data: ap.Interactions) -> Offset:
    model = ap.MatrixFactorization(epsilon=math.inf)
    return compute(model._settings(data), ap.ReferenceEngine().load(data.rows()))


@pytest.mark.parametrize("each", [2, 5, 20])
def test_without_noise_variances_are_those_of_the_data(each: int) -> None:
    # So many users that the error of either is below 4 % with five standard deviations.
    found = exactly(rated(20_000, each, between=1.0, within=1.5))
    assert found.mean == pytest.approx(6.0, abs=0.06)
    assert found.within == pytest.approx(1.5**2, rel=0.06)
    assert found.shrinkage == pytest.approx(1.5**2, rel=0.1)


def test_who_has_one_rating_says_nothing_of_variances() -> None:
    found = exactly(rated(500, 1, between=1.0, within=1.0))
    assert found.mean == pytest.approx(6.0, abs=0.4)
    # What is expected of people, in units of half the range.
    assert found.within == pytest.approx(0.2 * 4.5**2, rel=0.1)


def test_the_noisier_the_release_the_more_it_is_what_is_expected_anyway() -> None:
    sums = 1e5 * np.array([1.0, 0.5, 1.0, 0.25 + 0.2, 0.05])
    near = [estimate(sums, noise, 3.0, 2.0) for noise in (0.0, 3e3, 1e15)]
    assert near[0].mean == pytest.approx(4.0, abs=0.01)
    assert near[0].shrinkage == pytest.approx(0.5, abs=0.01)
    assert near[2].mean == pytest.approx(3.0)
    assert near[2].shrinkage == pytest.approx(4.0, abs=0.01)
    means, shrunk = [one.mean for one in near], [one.shrinkage for one in near]
    assert means == sorted(means, reverse=True)
    assert shrunk == sorted(shrunk)


@pytest.mark.parametrize("sums", [np.zeros(5), np.full(5, -1e12), np.full(5, 1e12)])
@pytest.mark.parametrize("noise", [0.0, 1.0, 1e15])
def test_whatever_is_released_the_offset_is_within_reason(sums: Any, noise: float) -> None:
    found = estimate(sums, noise, 3.0, 2.0)
    assert 1 <= found.mean <= 5
    assert 0.5 <= found.shrinkage <= 50
    assert found.within is not None
    assert found.within >= 0


def test_a_center_is_drawn_by_the_user_s_own_number_of_ratings() -> None:
    start, ratings = np.array([0, 0, 1, 5]), np.array([5.0, 4.0, 4.0, 1.0, 3.0])
    centers = Centering("user", 3.5, shrinkage=4.0).centers(start, ratings)
    np.testing.assert_allclose(centers, [3.5, (5 + 14) / 5, (12 + 14) / 8])


def test_users_without_ratings_get_the_released_mean() -> None:
    data = rated(2_000, 3, between=0.8, within=1.0, mean=8.0)
    model = ap.MatrixFactorization(2, 1, epsilon=5.0, noise_seed=0).fit(data)
    used = model.released.fold_in
    assert used.mean == pytest.approx(8.0, abs=0.2)  # the middle of the range is 5.5
    assert model.released.intercepts is not None
    expected = np.clip(used.mean + model.released.intercepts.astype(float), 1, 10)
    np.testing.assert_allclose(model.predict({}, np.arange(40)), expected)


def test_training_and_serving_have_one_center(tmp_path: Any) -> None:
    data = rated(300, 6, between=1.0, within=1.0)
    model = ap.MatrixFactorization(2, 1, epsilon=5.0, noise_seed=0).fit(data)
    model.save(tmp_path / "model")
    served = ap.load(tmp_path / "model")
    assert served.released.fold_in == model.released.fold_in
    history = {3: 9.0, 5: 8.0}
    vector, used = served.fold_in(history), model.released.fold_in
    assert model.released.intercepts is not None
    b = model.released.intercepts.astype(float)
    own = (17.0 - b[3] - b[5] + used.shrinkage * used.mean) / (2 + used.shrinkage)
    expected = np.clip(own + b + model.items.astype(float) @ vector, 1, 10)
    np.testing.assert_allclose(served.predict(history, np.arange(40)), expected)


def test_few_ratings_a_user_are_predicted_better_than_by_own_means() -> None:
    train, test = rated(4_000, 4, between=0.7, within=1.2).split((0.8, 0.2))
    model = ap.MatrixFactorization(2, 1, epsilon=1.0, noise_seed=0).fit(train)
    model.released.items[:] = 0
    counts = train.graph.task_sizes()
    drawn = rating_metrics(model, train, test, counts).rmse
    object.__setattr__(model.released.fold_in, "shrinkage", 0.0)
    assert drawn < 0.97 * rating_metrics(model, train, test, counts).rmse
