"""How large a model of events is: known answers, and what happens where there is nothing to learn."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.recommend import capacity
from apportion.recommend.capacity import Capacity
from apportion.recommend.preparation import Preparation
from apportion.recommend.verify import verify

EVENTS = ap.simulate_interactions(users=3_000, items=100, rows=60_000, rating_range=None, seed=1)


def model(**settings: Any) -> ap.MatrixFactorization:
    given: dict[str, Any] = {"feedback": "implicit", "epsilon": 5.0, "noise_seed": 1, **settings}
    return ap.MatrixFactorization(**given)


def of(sums: Any, mu: float = 1.0, noise: float = 0.0) -> Capacity:
    return Capacity.of(np.asarray(sums), noise, np.asarray(sums), mu)


def flat(energy: float, items: int) -> Capacity:
    """Of items that are all alike, and have this energy together."""
    return of(np.full(items, math.sqrt(energy / (0.1 * 0.29 * items))))


def test_known_energies_and_factors() -> None:
    # E = 0.1 * 0.29 * mu^2 * sum of (s^2 - noise^2); 0.21 sqrt(E) (M / 3000)^0.3, less where E is near M.
    found = of(np.full(4000, 10.0), 0.5, 3.0)
    assert found.energy == pytest.approx(0.1 * 0.29 * 0.25 * 4000 * 91)
    assert found.spread == 4000  # no more than there are items, whatever noise does
    found = of(np.full(3000, 40.0))
    energy = 0.1 * 0.29 * 3000 * 1600
    assert found.factors == round(0.21 * energy**0.5 * energy / (energy + 1500))


def test_items_that_nobody_has_change_nothing() -> None:
    sums = np.geomspace(5, 500, 2000)
    some, with_others = of(sums, 0.3), of(np.append(sums, np.zeros(3000)), 0.3)
    assert with_others.energy == pytest.approx(some.energy)
    assert with_others.spread == pytest.approx(some.spread)
    assert with_others.factors == some.factors > 16


def test_popularity_is_no_taste() -> None:
    # The same energy in fewer items wants fewer factors.
    few = of(np.append(np.full(50, 400.0), np.full(2950, 1.0)))
    assert few.factors < 0.5 * flat(few.energy, 3000).factors


@pytest.mark.parametrize(
    ("energy", "items", "most"), [(1e9, 100_000, 512), (1e9, 240, 20), (1e12, 1_000_000, 134)]
)
def test_the_number_of_factors_is_limited(energy: float, items: int, most: int) -> None:
    # By the number of items, and by what fits into memory.
    assert flat(energy, items).factors == most


def test_the_last_direction_has_as_much_signal_as_noise() -> None:
    # What is promised is largest there: it is where the root comes from.
    for wanted in (20, 60, 150):
        lost = [capacity.lost(factors, wanted) for factors in range(1, 500)]
        assert 1 + int(np.argmin(lost)) == pytest.approx(wanted, rel=0.1)


def test_a_model_of_tastes_has_six_factors_and_sweeps_at_least() -> None:
    # Where four to six are wanted, six are as good, and more sweeps find more.
    few = next(
        found for e in np.geomspace(1e2, 1e4, 400) if not (found := flat(e, 3000)).popularity
    )
    assert few.factors == 6
    assert next(one.choice.sweeps for one in few.forecasts(None, None, None)) == 6
    assert Capacity.of(np.full(30, 1e3), 0.0, np.full(30, 1e3), 1.0).factors == 4  # of few items


def test_tastes_below_the_noise_of_items_are_not_learned() -> None:
    # Many items add up to a large energy, of which each has next to nothing.
    below, above = flat(4_000, 10_000), flat(6_000, 10_000)
    assert below.energy > 100 * below.error
    assert below.popularity
    assert not above.popularity


def test_noise_alone_is_no_energy() -> None:
    for seed in range(20):
        sums = np.random.default_rng(seed).normal(0.0, 50.0, 300)
        assert Capacity.of(sums, 50.0, np.ones(300), 0.3).popularity


def test_forecasts_are_least_for_what_is_chosen() -> None:
    for energy in np.geomspace(1e3, 1e8, 12):
        for items in (200, 3000, 40_000):
            found = flat(energy, items)
            if found.popularity:
                continue
            shown = found.forecasts(None, None, None)
            assert shown[0].choice.factors == found.factors
            assert [one.error for one in shown] == sorted(one.error for one in shown)
            assert all(0 < one.error <= 1 for one in shown)


def test_more_budget_learns_more_and_popular_items_first() -> None:
    def lost(mu: float) -> float:
        sums = np.geomspace(1, 500, 3000)
        [best, *_] = Capacity.of(sums, 0.0, sums, mu).forecasts(None, None, None)
        assert list(best.by_bucket) == sorted(best.by_bucket, reverse=True)
        return best.error

    assert lost(0.3) > lost(1.0) > lost(3.0)


def test_what_is_given_is_kept() -> None:
    trained = model(factors=6, sweeps=2).fit(EVENTS)
    assert trained.privacy.chosen == {
        "unobserved_weight": capacity.UNOBSERVED, "serving_weight": capacity.SERVING,
    }  # fmt: skip
    weight = ap.Regularization(unobserved_weight=0.3)
    trained = model(sweeps=2, regularization=weight).fit(EVENTS)
    assert set(trained.privacy.chosen) == {"factors"}
    assert trained.privacy.public_inputs["unobserved_weight"] == 0.3
    assert trained.released.fold_in.unobserved_weight == 0.3
    assert {one.choice.sweeps for one in trained.forecasts_} == {2}


def test_a_model_of_little_is_popularity_and_says_so(tmp_path: Path) -> None:
    few = EVENTS.split_users((0.05, 0.95))[0]
    trained = model(epsilon=0.3).fit(few)
    assert trained.privacy.chosen["sweeps"] == 0
    ledger = trained.privacy.ledger
    assert ledger.mu == pytest.approx(ledger.target.mu)  # all is spent, and no more
    assert any("popularity alone" in warning for warning in trained.privacy.warnings)
    assert "popularity alone" in repr(trained)
    assert "popularity alone" in repr(trained.forecasts_[0])
    # Everybody has the same order: that of the counts, also whoever has no history.
    assert trained.released.counts is not None
    order = trained.item_ids[np.argsort(-trained.released.counts, kind="stable")]
    for history in ([], [3], [1, 2, 50]):
        items, _ = trained.recommend(history, k=100)
        assert items.tolist() == [item for item in order.tolist() if item not in history]
    trained.save(tmp_path / "model")
    assert [check for check in verify(tmp_path / "model") if not check.passed] == []
    assert "popularity alone" in repr(ap.load(tmp_path / "model"))


def test_popularity_is_better_known_than_from_counts_alone() -> None:
    # All that is left of the budget goes into it, so it is no worse than noisy counts at the same epsilon.
    few = EVENTS.split_users((0.05, 0.95))[0]
    true = few.graph.task_sizes()

    def agreement(found: Any) -> float:
        return float(np.corrcoef(found, true)[0, 1])

    gains = []
    for seed in range(5):
        trained = model(epsilon=0.5, noise_seed=seed).fit(few)
        assert trained.released.tastes == "popularity alone"
        prepared = model(epsilon=0.5, noise_seed=seed).prepare(few)
        gains.append(agreement(trained.released.counts) - agreement(prepared.sizes))
    assert np.mean(gains) > 0.1


def test_whoever_asks_for_factors_gets_them() -> None:
    few = EVENTS.split_users((0.05, 0.95))[0]
    assert model(epsilon=0.3, factors=3).fit(few).items.shape == (100, 3)
    assert model(epsilon=0.3, sweeps=2).fit(few).privacy.chosen["factors"] == 4


def test_a_preparation_gives_the_same_choice() -> None:
    preparation = Preparation.from_json(model().prepare(EVENTS).to_json())
    found = model().forecasts(preparation)
    assert model().fit(EVENTS, preparation=preparation).forecasts_ == found
    assert found[0].choice.factors == model().fit(EVENTS).items.shape[1]


@pytest.mark.parametrize(
    ("given", "served"),
    [(None, 2.0), (3.0, 1.0), (ap.Regularization(users=0.7), 0.7), (ap.Regularization(2.0), 2 / 3)],
)
@pytest.mark.parametrize("factors", ["auto", 4])
def test_users_are_served_with_a_larger_penalty_unless_one_is_given(
    given: Any, served: float, factors: Any
) -> None:
    data = ap.simulate_interactions(users=400, items=30, rows=6000, rating_range=None)
    trained = ap.MatrixFactorization(
        factors, "auto" if factors == "auto" else 2, "implicit", epsilon=20.0, regularization=given
    ).fit(data)
    assert trained.privacy.private
    assert trained.released.fold_in.regularization == pytest.approx(served)
    assert trained.released.fold_in.exponent == 0.0
