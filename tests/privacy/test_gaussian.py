"""Exact Gaussian privacy: against high-precision arithmetic and an independent accountant."""

import itertools
import math
from typing import Any

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

import apportion as ap
from apportion.privacy.gaussian import delta_from_epsilon, epsilon_from_mu, mu_from_epsilon

EPSILONS = (1e-3, 0.03, 0.5, 1.0, 5.0, 20.0, 200.0)
DELTAS = (1e-100, 1e-40, 1e-15, 1e-9, 1e-5, 1e-2, 0.9)
MANY = np.array([math.inf, 1.0])
GRID = list(itertools.product(EPSILONS, DELTAS))


def reference_delta(epsilon: float, mu: float) -> mpmath.mpf:
    """The textbook formula with sixty digits, which leaves plenty after all cancellation."""
    with mpmath.workdps(60):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


def reference_mu(epsilon: float, delta: float, start: float) -> float:
    with mpmath.workdps(60):
        target = mpmath.log(mpmath.mpf(delta))
        return float(
            mpmath.findroot(lambda m: mpmath.log(reference_delta(epsilon, m)) - target, start)
        )


@pytest.mark.parametrize(("epsilon", "mu"), [(1.0, 0.2681), (5.0, 1.1212), (20.0, 3.4478)])
def test_fixed_points(epsilon: float, mu: float) -> None:
    assert mu_from_epsilon(epsilon, 1e-5) == pytest.approx(mu, abs=5e-5)


def test_sigma_at_epsilon_one() -> None:
    assert 1 / mu_from_epsilon(1.0, 1e-5) == pytest.approx(3.7306, abs=5e-5)


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_mu_is_exact_and_never_too_large(epsilon: float, delta: float) -> None:
    mu = mu_from_epsilon(epsilon, delta)
    exact = reference_mu(epsilon, delta, mu)
    assert mu <= exact
    assert mu == pytest.approx(exact, rel=1e-10, abs=0)


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_delta_is_exact(epsilon: float, delta: float) -> None:
    mu = mu_from_epsilon(epsilon, delta)
    assert delta_from_epsilon(epsilon, mu) == pytest.approx(
        float(reference_delta(epsilon, mu)), rel=1e-12 if delta > 1e-20 else 1e-10, abs=0
    )


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_epsilon_reads_back_below_its_target(epsilon: float, delta: float) -> None:
    back = epsilon_from_mu(mu_from_epsilon(epsilon, delta), delta)
    assert back <= epsilon
    assert back == pytest.approx(epsilon, rel=1e-9, abs=1e-10)


@pytest.mark.parametrize("mu", [1e-4, 0.01, 0.3, 1.0, 3.0, 8.0, 40.0])
@pytest.mark.parametrize("delta", DELTAS)
def test_epsilon_is_exact_and_never_too_small(mu: float, delta: float) -> None:
    epsilon = epsilon_from_mu(mu, delta)
    assert reference_delta(epsilon, mu) <= delta
    assert epsilon == 0 or reference_delta(epsilon * (1 - 1e-9) - 1e-15, mu) > delta


def test_results_are_on_the_safe_side_by_as_much_as_is_said() -> None:
    # A hundred times what they may be wrong; a plan for an epsilon is never above it when it is read back.
    for epsilon, delta in ((1.0, 1e-5), (3.0, 1e-6)):
        mu = mu_from_epsilon(epsilon, delta)
        exact = reference_mu(epsilon, delta, mu)
        assert 1 - mu / exact == pytest.approx(1e-11, rel=0.01, abs=0)
        assert epsilon_from_mu(exact, delta) / epsilon - 1 == pytest.approx(1e-12, rel=0.01, abs=0)


@pytest.mark.parametrize(
    ("epsilon", "mu"),
    [
        (0.0, 1e-8),
        (0.0, 30.0),
        (1e-9, 1e-9),
        (1e-3, 1.2e-4),
        (1e3, 60.0),
        (25.0, 0.9),
        (8.0, 0.25),
        (2.13, 0.1),
        (2.2, 0.1),
        (5.0, 12.0),  # delta is one less 10^-8
        (20.0, 3.0),
        (20.0, 1.0),
    ],
)
def test_delta_far_from_the_usual_range(epsilon: float, mu: float) -> None:
    assert delta_from_epsilon(epsilon, mu) == pytest.approx(
        float(reference_delta(epsilon, mu)), rel=1e-11 if epsilon / mu < 20 else 2e-11, abs=0
    )
    assert delta_from_epsilon(50.0, 0.9) == 0 < reference_delta(50.0, 0.9)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (5.0, 1e-5), (20.0, 1e-8)]
)
def test_agrees_with_dp_accounting_sigma(epsilon: float, delta: float) -> None:
    theirs = dp_accounting.get_sigma_gaussian(epsilon, delta)
    assert 1 / mu_from_epsilon(epsilon, delta) == pytest.approx(theirs, rel=1e-6)


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
def test_agrees_with_the_pld_accountant(mu: float) -> None:
    accountant = PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(1 / mu))
    assert epsilon_from_mu(mu, 1e-5) == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-3)


def test_limits() -> None:
    assert mu_from_epsilon(math.inf, 1e-5) == math.inf
    assert epsilon_from_mu(math.inf, 1e-5) == math.inf
    assert epsilon_from_mu(0.0, 1e-5) == 0.0
    assert epsilon_from_mu(1e-7, 1e-2) == 0.0  # delta alone pays for it
    assert delta_from_epsilon(1.0, math.inf) == 1.0
    assert delta_from_epsilon(0.0, 0.0) == delta_from_epsilon(1.0, 0.0) == 0.0
    assert delta_from_epsilon(math.inf, 1.0) == 0.0


@pytest.mark.parametrize("epsilon", [0, -1.0, math.nan, -math.inf, "1", None, True, MANY])
def test_bad_epsilon(epsilon: Any) -> None:
    with pytest.raises(ap.ParameterError, match="epsilon must be a number of at least"):
        mu_from_epsilon(epsilon, 1e-5)


@pytest.mark.parametrize("delta", [0, 1, -1e-5, 1.5, math.nan, "small", None])
def test_bad_delta(delta: float) -> None:
    with pytest.raises(ap.ParameterError, match="delta must be a number of at least"):
        mu_from_epsilon(1.0, delta)
    with pytest.raises(ap.ParameterError, match="delta must be a number of at least"):
        epsilon_from_mu(1.0, delta)


@pytest.mark.parametrize("mu", [-1.0, math.nan, "1", MANY])
def test_bad_mu(mu: Any) -> None:
    with pytest.raises(ap.ParameterError, match="mu must be a number of at least 0"):
        epsilon_from_mu(mu, 1e-5)
