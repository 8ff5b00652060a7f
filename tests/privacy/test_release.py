"""Releases: noise of the recorded size, blocks, joint splits, refusals."""

import math

import numpy as np
import pytest
from scipy import stats

import apportion as ap
from apportion.privacy import Curator, NoiseSource, Part, PrivacyTarget, UserBound, pack, unpack

TARGET = PrivacyTarget(epsilon=1.0, delta=1e-5)
BOUND = UserBound(2.0, "by construction")


def curator(seed: int = 0) -> Curator:
    return Curator(TARGET, NoiseSource.from_seed(seed))


def test_sums_get_the_recorded_noise() -> None:
    desk = curator()
    noisy = desk.sums("sums", np.full((4000, 3), 10.0), BOUND, 0.2)
    (record,) = desk.ledger
    assert record.noise_scale == pytest.approx(2.0 / 0.2)
    assert record.mu == pytest.approx(0.2)
    # The sample variance of 12,000 draws is chi-square; two sides at 1e-6.
    ratio = np.sum((noisy - 10.0) ** 2) / record.noise_scale**2
    assert stats.chi2.ppf(1e-6, noisy.size) < ratio < stats.chi2.isf(1e-6, noisy.size)


def test_symmetric_noise_is_spherical_in_the_frobenius_norm() -> None:
    desk = curator()
    noisy = desk.symmetric("A", np.zeros((4000, 6)), BOUND, 0.2)
    scale = next(iter(desk.ledger)).noise_scale
    matrices = unpack(noisy, 3)
    for direction in (
        np.diag([1.0, 0, 0]),
        np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0.0]]),
        np.ones((3, 3)),
    ):
        unit = direction / np.linalg.norm(direction)
        along = np.einsum("tij,ij->t", matrices, unit)
        ratio = np.sum(along**2) / scale**2
        assert stats.chi2.ppf(1e-6, 4000) < ratio < stats.chi2.isf(1e-6, 4000)


def test_packing_round_trip() -> None:
    matrices = np.random.default_rng(0).normal(size=(5, 4, 4))
    matrices = matrices + matrices.transpose(0, 2, 1)
    np.testing.assert_array_equal(unpack(pack(matrices), 4), matrices)


def parts(d: int = 2) -> list[Part]:
    return [
        Part("A", "matrices", UserBound(3.0, "x"), width=d, symmetric=True),
        Part("b", "vectors", UserBound(0.5, "y"), width=d),
    ]


def test_joint_release_splits_its_cost_as_asked() -> None:
    desk = curator()
    release = desk.open("both", parts(), tasks=3, mu=0.2, shares=(1, 3))
    A, b = release.records
    assert (A.name, b.name) == ("both.A", "both.b")
    assert A.mu**2 == pytest.approx(0.25 * 0.04)
    assert b.mu**2 == pytest.approx(0.75 * 0.04)
    assert A.noise_scale == pytest.approx(3.0 / A.mu)
    assert desk.ledger.mu == pytest.approx(0.2)


def test_blocks_in_any_order_give_what_one_block_gives() -> None:
    rng = np.random.default_rng(0)
    A, b = rng.integers(-9, 9, (200, 3)) / 4, rng.integers(-9, 9, (200, 2)) / 4
    whole = curator().open("both", parts(), 200, 0.2).feed(0, A, b)
    release = curator().open("both", parts(), 200, 0.2)
    pieces = {
        start: release.feed(start, A[start:stop], b[start:stop])
        for start, stop in [(130, 200), (0, 1), (1, 130)]
    }
    assert release.complete
    for part in range(2):
        joined = np.concatenate([pieces[start][part] for start in sorted(pieces)])
        np.testing.assert_array_equal(joined, whole[part])


def test_a_task_is_released_once() -> None:
    release = curator().open("both", parts(), 10, 0.2)
    release.feed(3, np.zeros((3, 3)), np.zeros((3, 2)))
    with pytest.raises(ap.ReleaseError, match="fed twice"):
        release.feed(5, np.zeros((2, 3)), np.zeros((2, 2)))
    assert not release.complete


@pytest.mark.parametrize(
    ("first", "A", "b"),
    [
        (0, np.zeros((2, 3)), np.zeros((2, 3))),
        (0, np.zeros((2, 3)), np.zeros((1, 2))),
        (9, np.zeros((2, 3)), np.zeros((2, 2))),
        (-1, np.zeros((2, 3)), np.zeros((2, 2))),
        (0, np.full((2, 3), np.nan), np.zeros((2, 2))),
    ],
)
def test_impossible_blocks(first: int, A: np.ndarray, b: np.ndarray) -> None:
    release = curator().open("both", parts(), 10, 0.2)
    with pytest.raises(ap.ReleaseError):
        release.feed(first, A, b)


def test_a_release_is_recorded_before_its_first_value() -> None:
    desk = curator()
    desk.open("both", parts(), 10, 0.2)
    assert desk.ledger.mu == pytest.approx(0.2)


def test_a_release_over_budget_yields_nothing() -> None:
    desk = curator()
    with pytest.raises(ap.BudgetExceededError):
        desk.sums("sums", np.zeros((2, 1)), BOUND, mu=1.01 * TARGET.mu)
    assert len(desk.ledger) == 0


@pytest.mark.parametrize("shares", [(1,), (1, 0), (1, -1), (1, 2, 3), (math.nan, 1)])
def test_bad_shares(shares: tuple[float, ...]) -> None:
    with pytest.raises(ap.ParameterError, match="shares must be"):
        curator().open("both", parts(), 10, 0.2, shares)


@pytest.mark.parametrize("mu", [0.0, -1.0, math.nan])
def test_bad_mu(mu: float) -> None:
    with pytest.raises(ap.ParameterError, match="mu of a release must be a number above 0"):
        curator().sums("sums", np.zeros((2, 1)), BOUND, mu)


def test_without_privacy_sums_come_back_exactly() -> None:
    desk = Curator(PrivacyTarget(math.inf, 1e-5))
    sums = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_array_equal(desk.sums("sums", sums, BOUND, math.inf), sums)
    assert desk.ledger.epsilon(1e-5) == math.inf


def test_counts_are_sums_of_width_one() -> None:
    noisy = curator().counts("counts", np.arange(5.0), BOUND, 0.2, "users")
    assert noisy.shape == (5,)
    assert not np.allclose(noisy, np.arange(5.0))
