"""The defaults on shapes that nobody tuned them for: never worse than what needs no model.

Private baselines at the same epsilon and delta are those of ``benchmarks/quality/baselines.py``. What is
tolerated is what baselines would cost besides: 1 % of the rating range, in RMSE, on the mean of some seeds.
"""

import math
from pathlib import Path

import numpy as np
import pytest
from benchmarks.quality import baselines
from benchmarks.quality.methods import default
from benchmarks.quality.sets import Simulated
from benchmarks.quality.splits import RatingSplit

import apportion as ap
from apportion.recommend.files import load
from apportion.recommend.verify import verify

TOLERANCE = 0.01

SMALL = {
    "few users": Simulated(200, 20, 2_000),
    "few rows": Simulated(1_500, 300, 6_000, (1.0, 10.0), 0.7, of_user=0.9, of_item=0.3, of_noise=1.8),
    "dense": Simulated(600, 30, 12_000),
    "nothing but noise": Simulated(800, 40, 8_000, of_user=0.0, of_item=0.0, of_taste=0.0),
}  # fmt: skip
LARGE = {
    "many users": Simulated(100_000, 500, 1_000_000),
    "many items": Simulated(20_000, 100_000, 300_000, popular_tenth=0.75),
    "sparse": Simulated(16_000, 5_600, 112_000, (1.0, 10.0), 0.7, of_user=0.9, of_item=0.3),
    "no tastes": Simulated(5_000, 1_000, 200_000, of_taste=0.0),
    "tastes alone": Simulated(5_000, 1_000, 200_000, of_user=0.02, of_item=0.02, of_taste=0.5),
}


def excess(shape: Simulated, epsilon: float, seed: int) -> float:
    """How much larger the error is than that of the best baseline, relative to the rating range."""
    part = RatingSplit.of(shape(Path(), seed), seed)
    best = min(score.test for score in baselines.rating_baselines(part, epsilon, seed).values())
    mine = part.score(default("explicit", epsilon, seed).fit(part.train)).test
    low, high = shape.rating_range
    return (mine - best) / (high - low)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 20.0, math.inf])
@pytest.mark.parametrize("shape", SMALL.values(), ids=SMALL.keys())
def test_never_worse_than_a_baseline(shape: Simulated, epsilon: float) -> None:
    seeds = range(3 if epsilon < 1 else 2)
    assert np.mean([excess(shape, epsilon, seed) for seed in seeds]) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 20.0, math.inf])
@pytest.mark.parametrize("shape", LARGE.values(), ids=LARGE.keys())
def test_never_worse_on_larger_shapes(shape: Simulated, epsilon: float) -> None:
    assert excess(shape, epsilon, 0) < TOLERANCE


def test_averages_alone_where_users_rate_little(tmp_path: Path) -> None:
    data = SMALL["few rows"](Path(), 0)
    model = ap.MatrixFactorization(epsilon=1.0).fit(data)
    assert model.privacy.chosen["sweeps"] == 0
    assert list(model.privacy.ledger)[-1].name == "intercepts"
    assert model.privacy.epsilon == pytest.approx(1.0, rel=1e-9)
    assert "averages alone" in repr(model)
    assert any("averages of users and items alone" in each for each in model.privacy.warnings)
    history = {data.item_ids[0]: 9.0, data.item_ids[1]: 8.0}
    best, scores = model.recommend(history, k=3)
    offsets = model.released.intercepts
    assert offsets is not None
    assert set(best) <= set(data.item_ids[np.argsort(-offsets)[:5]])
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.recommend(history, k=3)[1], scores)
    assert all(check.passed for check in verify(tmp_path / "model"))
