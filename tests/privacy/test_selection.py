"""Selections by a noisy threshold: the arithmetic, and how often a lone id passes."""

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import binom, chi2, kstest, norm

import apportion as ap
from apportion.accounts.ledgers import ledger_from_json, ledger_to_json, to_dp_event
from apportion.privacy import (
    Curator,
    Ledger,
    NoiseSource,
    Part,
    PrivacyTarget,
    Record,
    UserBound,
)
from apportion.privacy.bounds import ROUNDING
from apportion.privacy.curator import threshold
from tests.noise import noise_of


def ones(ids: int) -> np.ndarray:
    """Ids that one user has."""
    return np.ones(ids, dtype=np.int64)


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
        chosen, _ = keeper.select("counts", ids, ones(cap), cap, 0.5, delta)
        passed += len(chosen) > 0
    assert binom.ppf(1e-6, runs, delta) <= passed <= binom.ppf(1 - 1e-6, runs, delta)


@pytest.mark.parametrize(("cap", "runs"), [(1, 1500), (50, 1500), (1000, 300), (20_000, 100)])
def test_lone_ids_at_any_cap(cap: int, runs: int) -> None:
    # As above; a threshold for fewer ids, or too little noise, would show.
    delta = 0.2
    target = PrivacyTarget(1.0, 0.5, delta)
    ids = np.arange(cap)
    passed = sum(
        len(
            Curator(target, NoiseSource.from_seed(seed)).select(
                "counts", ids, ones(cap), cap, 0.4, delta
            )[0]
        )
        > 0
        for seed in range(runs)
    )
    assert binom.ppf(1e-6, runs, delta) <= passed <= binom.ppf(1 - 1e-6, runs, delta)


def test_ids_that_nobody_counts_for_never_pass() -> None:
    # However many they are: one user alone may have brought them.
    counts = np.zeros(20_000, dtype=np.int64)
    counts[7] = 10**6
    chosen, _ = curator().select("counts", np.arange(20_000), counts, 1, 0.2, 5e-3)
    assert chosen.tolist() == [7]


@pytest.mark.parametrize("cap", [1, 50])
def test_counts_come_with_noise(cap: int) -> None:
    # A thousand noisy counts: mean, spread and shape of a normal distribution (1e-6 each).
    counts = np.full(1000, 10**6)
    chosen, noisy = curator().select("counts", np.arange(1000), counts, cap, 0.2, 5e-3)
    assert len(chosen) == 1000
    errors = (noisy - counts) / (math.sqrt(cap) / 0.2)
    assert abs(errors.mean()) < norm.isf(5e-7) / math.sqrt(1000)
    assert chi2.ppf(5e-7, 1000) < np.sum(errors**2) < chi2.isf(5e-7, 1000)
    assert kstest(errors, "norm").pvalue > 1e-6


def test_whether_an_id_passes_is_decided_with_noise() -> None:
    # The count next to the threshold passes as often as normal noise says (2,000 ids, 1e-6 on each side).
    threshold = 1 + 5 * norm.isf(5e-3)
    near = round(threshold)
    counts = np.full(2000, near)
    chosen, noisy = curator().select("counts", np.arange(2000), counts, 1, 0.2, 5e-3)
    passes = norm.sf(threshold - near, scale=5)
    assert 0.4 < passes < 0.6
    assert binom.ppf(1e-6, 2000, passes) <= len(chosen) <= binom.ppf(1 - 1e-6, 2000, passes)
    assert (noisy > threshold - 1e-4).all()
    assert noisy.min() < threshold + 0.5  # it is there that they are cut off


def test_threshold() -> None:
    # One id, so z is the normal quantile of 1 - delta; counts far above and below it.
    keeper = curator()
    sigma = math.sqrt(9) / 0.2
    threshold = round(1 + sigma * norm.isf(-math.expm1(math.log1p(-5e-3) / 9)))
    counts = np.array([threshold + round(8 * sigma), threshold - round(8 * sigma)])
    chosen, noisy = keeper.select("counts", np.array([7, 3]), counts, 9, 0.2, 5e-3)
    assert chosen.tolist() == [7]
    assert noisy[0] > threshold - 1
    [record] = keeper.ledger
    assert (record.sensitivity, record.delta, record.shape) == (3.0 * (1 + ROUNDING), 5e-3, (1, 1))
    assert record.noise_scale == pytest.approx(sigma)


@pytest.mark.parametrize("grid", [2.0**-25, 0.5])
@pytest.mark.parametrize("cap", [1, 7, 10**6])
@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-12])
def test_the_threshold_is_that_of_the_proof(delta: float, cap: int, grid: float) -> None:
    record = Record("counts", "", (1,), 1.0, "", 5.0, grid=grid)
    with mpmath.workdps(50):
        lone = -mpmath.expm1(mpmath.log1p(-delta) / cap)
        z = mpmath.findroot(lambda x: mpmath.log(mpmath.ncdf(-x) / lone), norm.isf(float(lone)))
        wide = mpmath.sqrt(25 + 9 * mpmath.mpf(grid) ** 2) * (1 + mpmath.mpf(10) ** -9)
        exact = float(1 + grid + wide * z)
    assert threshold(record, cap, delta) == pytest.approx(exact, rel=1e-13, abs=0)


def test_ids_come_in_order() -> None:
    keeper = curator()
    ids = np.array(["b", "c", "a"], dtype=object)
    chosen, noisy = keeper.select(
        "counts", ids, np.array([100_000, 200_000, 300_000]), 1, 0.2, 5e-3
    )
    assert chosen.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(noisy, [3e5, 1e5, 2e5], atol=100)


def test_refused_beyond_the_reserved_delta() -> None:
    keeper = curator(reserved=1e-3)
    with pytest.raises(ap.BudgetExceededError):
        keeper.select("counts", np.array([1]), ones(1), 1, 0.1, 2e-3)
    assert len(keeper.ledger) == 0
    keeper.select("counts", np.array([1]), ones(1), 1, 0.1, 1e-3)
    with pytest.raises(ap.BudgetExceededError):
        keeper.select("more", np.array([1]), ones(1), 1, 0.1, 1e-9)


def test_refused_beyond_mu() -> None:
    keeper = curator()
    with pytest.raises(ap.BudgetExceededError):
        keeper.select("counts", np.array([1]), ones(1), 1, 1.01 * keeper.target.mu, 5e-3)


@pytest.mark.parametrize(
    "counts",
    [ones(2), np.array([math.nan]), np.ones(1), ones(1)[None], ones(1).astype(np.uint8)],
)
def test_wrong_counts(counts: np.ndarray) -> None:
    with pytest.raises(ap.ReleaseError):
        curator().select("counts", np.array([1]), counts, 1, 0.1, 1e-3)


@pytest.mark.parametrize("counts", [ones(2), 0 * ones(2), np.full(2, np.nan)])
def test_a_cap_beyond_the_grid_is_refused_whatever_the_counts(counts: np.ndarray) -> None:
    # Counts of an odd number of users would be refused and even ones not.
    for cap in (2**50, 2**60):
        keeper = curator()
        with pytest.raises(ap.ParameterError, match="cap"):
            keeper.select("counts", np.arange(2), counts, cap, 1e-9, 1e-3)
        assert len(keeper.ledger) == 0


def test_the_largest_cap_and_the_least_cost() -> None:
    # At these the unit of the grid is one user.
    def select(cap: int, mu: float) -> Curator:
        keeper = Curator(PrivacyTarget(20.0, 0.5, 0.4))
        keeper.select("counts", np.arange(2), ones(2), cap, mu, 1e-3)
        return keeper

    for cap, mu in ((2**50, 1.0), (1, 2.0**-49)):
        [record] = select(cap, mu).ledger
        assert record.grid == 1.0
    for cap, mu in ((2**50 + 1, 1.0), (1, 2.0**-50)):
        with pytest.raises(ap.ParameterError, match="cap"):
            select(cap, mu)


@pytest.mark.parametrize(
    ("mu", "delta", "name"),
    [
        (math.nextafter(1e100, math.inf), 1e-3, "mu"),
        (0.0, 1e-3, "mu"),
        (0.2, 1.0, "delta"),
        (0.2, 0.0, "delta"),
    ],
)
def test_costs_without_sense_are_refused(mu: float, delta: float, name: str) -> None:
    with pytest.raises(ap.ParameterError, match=f"{name} of a"):
        curator().select("counts", np.arange(2), ones(2), 1, mu, delta)


def test_counts_have_the_noise_of_their_own_stream() -> None:
    keeper = Curator(PrivacyTarget(1.0, 1e-2, 5e-3), NoiseSource.from_seed(3))
    counts = np.array([5000, 6000, 7000])
    _, noisy = keeper.select("counts", np.arange(3), counts, 1, 0.2, 5e-3)
    [record] = keeper.ledger
    part = Part("counts", "", UserBound(1.0, "one"))
    drawn = noise_of(NoiseSource.from_seed(3), "counts", 0, 0, 3, part.scales(record))
    np.testing.assert_array_equal(noisy, counts + drawn[:, 0] * record.grid)


def test_counts_of_too_many_users_are_no_error() -> None:
    counts = np.array([2**28 - 1, 2**28 + 1, 2**36])
    chosen, noisy = curator().select("counts", np.arange(3), counts, 1, 0.2, 5e-3)
    assert chosen.tolist() == [0, 1, 2]
    np.testing.assert_allclose(noisy, counts, atol=200)


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
    assert ledger_from_json(ledger_to_json(ledger)).epsilon(1e-5) == ledger.epsilon(1e-5)


def test_accountants_refuse_what_they_do_not_know() -> None:
    from dp_accounting import UnsupportedEventError
    from dp_accounting.pld import PLDAccountant

    ledger = Ledger(PrivacyTarget(1.0, 1e-5, 4e-6))
    ledger.append(Record("counts", "", (1,), 1.0, "", 5.0, delta=4e-6))
    with pytest.raises(UnsupportedEventError):
        PLDAccountant().compose(to_dp_event(ledger))


def test_nothing_is_selected_without_noise() -> None:
    keeper = Curator(PrivacyTarget(math.inf, 1e-5))
    with pytest.raises(ap.ParameterError, match="mu of a release"):
        keeper.select("counts", np.array([2, 1, 5]), np.array([3, 1, 0]), 1, math.inf, 0.1)


def test_repeated_ids_are_refused() -> None:
    with pytest.raises(ap.ReleaseError, match="every id once"):
        curator().select("counts", np.array([1, 1]), ones(2), 1, 0.1, 1e-3)


def test_together_with_sampled_steps() -> None:
    # What is left of delta, and no more, is what the sampled steps are accounted at.
    plain = Ledger(PrivacyTarget(1.0, 6e-6))
    both = Ledger(PrivacyTarget(1.0, 1e-5, 4e-6))
    steps = Record("steps", "", (1,), 1.0, "", 1.5, steps=20, sampling_rate=0.02)
    plain.append(steps)
    both.append(steps)
    both.append(Record("counts", "", (1,), 1.0, "", 1e6, delta=4e-6))
    assert both.epsilon(1e-5) == pytest.approx(plain.epsilon(6e-6), rel=1e-3)
    assert both.epsilon(1e-5) > 1.02 * plain.epsilon(1e-5)
    # At the full delta this would just fit; at what is left of it, it must not.
    limit = plain.epsilon(1e-5) * 1.01
    assert limit < plain.epsilon(6e-6)
    tight = Ledger(PrivacyTarget(limit, 1e-5, 4e-6))
    with pytest.raises(ap.BudgetExceededError):
        tight.append(steps)
