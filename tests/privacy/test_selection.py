"""Selections by a noisy threshold: the arithmetic, and how often a lone id passes."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

import apportion as ap
from apportion.privacy import Curator, Ledger, NoiseSource, PrivacyTarget, Record


def curator(epsilon: float = 1.0, delta: float = 1e-2, reserved: float = 5e-3) -> Curator:
    return Curator(PrivacyTarget(epsilon, delta, reserved))


def test_lone_ids_pass_as_rarely_as_promised() -> None:
    # A user alone with cap ids: with probability delta at least one of them passes. Over 4,000 runs the
    # number of such runs is binomial; outside these limits with probability 1e-6 each.
    cap, delta, runs = 4, 0.1, 4000
    target = PrivacyTarget(1.0, 0.5, delta)
    ids = np.array(["a", "b", "c", "d"], dtype=object)
    passed = 0
    for seed in range(runs):
        keeper = Curator(target, NoiseSource.from_seed(seed))
        chosen, _ = keeper.select("counts", ids, np.ones(cap), cap, 0.5, delta)
        passed += len(chosen) > 0
    assert binom.ppf(1e-6, runs, delta) <= passed <= binom.ppf(1 - 1e-6, runs, delta)


def test_threshold() -> None:
    # One id, so z is the normal quantile of 1 - delta; counts far above and below it.
    keeper = curator()
    sigma = math.sqrt(9) / 0.2
    threshold = 1 + sigma * norm.isf(-math.expm1(math.log1p(-5e-3) / 9))
    counts = np.array([threshold + 8 * sigma, threshold - 8 * sigma])
    chosen, noisy = keeper.select("counts", np.array([7, 3]), counts, 9, 0.2, 5e-3)
    assert chosen.tolist() == [7]
    assert noisy[0] > threshold
    [record] = keeper.ledger
    assert (record.sensitivity, record.delta, record.shape) == (3.0, 5e-3, (1, 1))
    assert record.noise_scale == pytest.approx(sigma)


def test_ids_come_in_order() -> None:
    keeper = curator()
    ids = np.array(["b", "c", "a"], dtype=object)
    chosen, noisy = keeper.select("counts", ids, np.array([1e5, 2e5, 3e5]), 1, 0.2, 5e-3)
    assert chosen.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(noisy, [3e5, 1e5, 2e5], atol=100)


def test_refused_beyond_the_reserved_delta() -> None:
    keeper = curator(reserved=1e-3)
    with pytest.raises(ap.BudgetExceededError):
        keeper.select("counts", np.array([1]), np.ones(1), 1, 0.1, 2e-3)
    assert len(keeper.ledger) == 0
    keeper.select("counts", np.array([1]), np.ones(1), 1, 0.1, 1e-3)
    with pytest.raises(ap.BudgetExceededError):
        keeper.select("more", np.array([1]), np.ones(1), 1, 0.1, 1e-9)


def test_refused_beyond_mu() -> None:
    keeper = curator()
    with pytest.raises(ap.BudgetExceededError):
        keeper.select("counts", np.array([1]), np.ones(1), 1, 1.01 * keeper.target.mu, 5e-3)


@pytest.mark.parametrize("counts", [np.ones(2), np.array([math.nan]), np.ones((1, 1))])
def test_wrong_counts(counts: np.ndarray) -> None:
    with pytest.raises(ap.ReleaseError):
        curator().select("counts", np.array([1]), counts, 1, 0.1, 1e-3)


def test_the_target_reserves_delta() -> None:
    plain, reserved = PrivacyTarget(1.0, 1e-5), PrivacyTarget(1.0, 1e-5, 4e-6)
    assert reserved.mu == ap.mu_from_epsilon(1.0, 6e-6) < plain.mu
    for wrong in (-1e-9, 1e-5, math.nan):
        with pytest.raises(ap.ParameterError):
            PrivacyTarget(1.0, 1e-5, wrong)


def test_epsilon_is_computed_at_what_is_left_of_delta() -> None:
    ledger = Ledger(PrivacyTarget(1.0, 1e-5, 4e-6))
    ledger.append(Record("counts", "", (1,), 1.0, "", 5.0, delta=4e-6))
    assert ledger.epsilon(1e-5) == ap.epsilon_from_mu(0.2, 6e-6)
    assert ledger.epsilon(4e-6) == math.inf
    assert Ledger.from_json(ledger.to_json()).epsilon(1e-5) == ledger.epsilon(1e-5)


def test_accountants_refuse_what_they_do_not_know() -> None:
    from dp_accounting import UnsupportedEventError
    from dp_accounting.pld import PLDAccountant

    ledger = Ledger(PrivacyTarget(1.0, 1e-5, 4e-6))
    ledger.append(Record("counts", "", (1,), 1.0, "", 5.0, delta=4e-6))
    with pytest.raises(UnsupportedEventError):
        PLDAccountant().compose(ledger.to_dp_event())


def test_no_noise_selects_everything() -> None:
    keeper = Curator(PrivacyTarget(math.inf, 1e-5))
    chosen, counts = keeper.select("counts", np.array([2, 1]), np.array([0.0, 1.0]), 1, math.inf, 0)
    assert (chosen.tolist(), counts.tolist()) == ([1, 2], [1.0, 0.0])
