"""The bounds hold as often as they say, and are not needlessly weak."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog

from apportion.audit.evidence import (
    epsilon_at_least,
    mu_at_least,
    mu_from_guesses,
    rate_at_most,
)


@pytest.mark.parametrize(("errors", "trials"), [(0, 50), (3, 50), (49, 50), (50, 50)])
def test_clopper_pearson(errors: int, trials: int) -> None:
    bound = float(rate_at_most(np.array([errors]), trials, 0.01)[0])
    expected = stats.binomtest(errors, trials).proportion_ci(0.98).high
    assert bound == pytest.approx(expected)


@pytest.mark.parametrize("mu", [0.5, 1.5, 3.0])
@pytest.mark.parametrize("offset", [0.0, 0.4])
def test_a_true_mu_is_seldom_ruled_out(mu: float, offset: float) -> None:
    # Also with a threshold that makes one kind of error more often. Exact, over all outcomes.
    trials, level = 30, 0.05
    inside = stats.binom(trials, stats.norm.cdf(mu / 2 - offset)).pmf(np.arange(trials + 1))
    out = stats.binom(trials, stats.norm.cdf(mu / 2 + offset)).pmf(np.arange(trials + 1))
    right = np.arange(2 * trials + 1)
    wrong = mu_at_least(right, 2 * trials, level) > mu
    assert float(np.convolve(inside, out)[wrong].sum()) <= level


def test_the_bound_of_mu_is_tight_with_many_trials() -> None:
    right = np.array([2 * 10**6 * stats.norm.cdf(0.75)])
    assert float(mu_at_least(right, 2 * 10**6, 1e-6)[0]) == pytest.approx(1.5, rel=0.01)
    # A selection's delta is taken off.
    assert float(mu_at_least(right, 2 * 10**6, 1e-6, delta=0.1)[0]) < 1.3


def test_epsilon_of_randomized_response() -> None:
    rate = 1 / (1 + math.e)
    wrong = np.array([rate * 10**7])
    found = float(epsilon_at_least(wrong, wrong, (10**7, 10**7), 1e-6, 0.0)[0])
    assert 0.98 < found < 1
    assert float(epsilon_at_least(wrong, wrong, (10**7, 10**7), 1e-6, 0.2)[0]) < found


def tail_by_linear_programming(correct: int, guesses: int, canaries: int, mu: float) -> float:
    """The largest chance that so many are right, under tangents of all the inequalities."""
    points = np.concatenate([np.logspace(-9, -2, 60), np.linspace(0.011, 0.999, 150)])
    i = np.arange(guesses + 1)
    rows: list[Any] = []
    limits: list[float] = []
    for t, x in itertools.product(range(1, guesses + 1), points):
        # F lies below its tangents: F(y) <= F(x) + F'(x) (y - x).
        value = stats.norm.cdf(stats.norm.ppf(x) + mu)
        slope = math.exp(-mu * stats.norm.ppf(x) - mu * mu / 2)
        row = np.where(i >= t, i / canaries, 0.0)
        row[t - 1 : guesses] -= slope * (guesses - i[t - 1 : guesses]) / canaries
        rows.append(row)
        limits.append(value - slope * x)
    found = linprog(
        -(i >= correct).astype(float), rows, limits, [np.ones(guesses + 1)], [1.0], bounds=(0, 1)
    )
    assert found.fun is not None
    return -float(found.fun)


@pytest.mark.parametrize(("correct", "guesses", "canaries"), [(8, 8, 8), (7, 8, 20), (10, 12, 12)])
def test_many_guesses_against_linear_programming(correct: int, guesses: int, canaries: int) -> None:
    level = 0.05
    mu = mu_from_guesses(correct, guesses, canaries, level)
    assert tail_by_linear_programming(correct, guesses, canaries, mu) == pytest.approx(
        level, rel=0.05
    )


def test_the_true_mu_is_seldom_ruled_out_by_many_guesses() -> None:
    rng, mu, alarms = np.random.default_rng(0), 1.5, 0
    for _ in range(300):
        coins = rng.random(100) < 0.5
        score = rng.normal(size=100) + mu * (coins - 0.5)
        sure = np.argsort(-np.abs(score))[:25]
        right = int(np.count_nonzero((score[sure] > 0) == coins[sure]))
        alarms += mu_from_guesses(right, 25, 100, 0.05) > mu
    assert alarms <= 15 + 3 * math.sqrt(15)
