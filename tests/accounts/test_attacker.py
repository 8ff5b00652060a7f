"""The best attacker: closed forms beside the privacy curve, and beside a simulated attack."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from apportion import delta_from_epsilon, mu_from_epsilon
from apportion.accounts.attacker import (
    advantage,
    detection_rate,
    success_rate,
    success_rate_from_epsilon,
)
from apportion.errors import ParameterError

MUS = [0.01, 0.2681, 1.0, 3.0, 8.0]


@pytest.mark.parametrize("mu", MUS)
def test_the_advantage_is_delta_at_epsilon_zero(mu: float) -> None:
    """Both are the total variation distance of N(0, 1) and N(mu, 1)."""
    assert advantage(mu) == pytest.approx(delta_from_epsilon(0.0, mu), rel=1e-9)


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("prior", [0.01, 0.3, 0.5, 0.9])
def test_no_threshold_does_better(mu: float, prior: float) -> None:
    thresholds = np.linspace(-40, 40, 200_001)
    right = prior * norm.sf(thresholds - mu) + (1 - prior) * norm.cdf(thresholds)
    best = max(float(right.max()), prior, 1 - prior)
    assert best - 1e-12 <= success_rate(mu, prior) <= best + 1e-4


@pytest.mark.parametrize("mu", MUS)
def test_the_detection_rate_is_the_tradeoff_curve(mu: float) -> None:
    rates = np.linspace(0, 1, 101)
    found = [detection_rate(mu, rate) for rate in rates]
    assert np.allclose(found, norm.cdf(norm.ppf(rates) + mu))
    assert max(np.array(found) - rates) <= advantage(mu) + 1e-12


def test_an_attack_on_noise_is_right_as_often_as_promised() -> None:
    mu, times = 1.0, 40_000
    rng = np.random.default_rng(0)
    there = rng.random(times) < 0.5
    seen = rng.normal(size=times) + mu * there
    right = np.mean((seen > mu / 2) == there)
    # Five standard deviations: it fails once in a million seeds.
    assert abs(right - success_rate(mu)) < 5 * 0.5 / math.sqrt(times)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 30.0])
def test_epsilon_alone_bounds_what_mu_says(epsilon: float) -> None:
    mu = mu_from_epsilon(epsilon, 1e-5)
    assert success_rate(mu) <= success_rate_from_epsilon(epsilon, 1e-5) <= 1
    assert success_rate_from_epsilon(epsilon, 0) == pytest.approx(
        math.exp(epsilon) / (1 + math.exp(epsilon))
    )


def test_extremes() -> None:
    assert success_rate(0) == 0.5
    assert success_rate(math.inf) == success_rate_from_epsilon(math.inf, 0) == 1
    assert success_rate(1.0, prior=0) == success_rate(1.0, prior=1) == 1
    assert detection_rate(math.inf, 0.1) == 1
    with pytest.raises(ParameterError, match="prior"):
        success_rate(1.0, prior=2)
    with pytest.raises(ParameterError, match="mu"):
        success_rate(-1.0)
