"""Releases: noise of the recorded size, blocks, joint splits, refusals."""

import contextlib
import copy
import math
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from scipy import stats

import apportion as ap
from apportion.privacy import (
    Curator,
    NoiseSource,
    Part,
    PrivacyTarget,
    Record,
    UserBound,
    pack,
    packed_width,
    unpack,
)
from apportion.privacy.bounds import ROUNDING
from apportion.privacy.release import _add_noise

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


@pytest.mark.parametrize("mu", [0.2, 3e-9])
def test_symmetric_parts_have_half_the_variance_off_the_diagonal(mu: float) -> None:
    d, tasks = 4, 3000
    desk = curator()
    noisy = desk.symmetric("A", np.zeros((tasks, packed_width(d))), BOUND, mu)
    scale = next(iter(desk.ledger)).noise_scale
    rows, columns = np.triu_indices(d)
    variance = np.where(rows == columns, scale**2, scale**2 / 2)
    ratio = np.sum(noisy**2, axis=0) / variance
    assert (ratio > stats.chi2.ppf(1e-6, tasks)).all()
    assert (ratio < stats.chi2.isf(1e-6, tasks)).all()


@pytest.mark.parametrize("mu", [1e-9, 1e-3, 0.2, 30.0, 1e6, 1e9])
def test_the_noise_is_never_less_than_recorded(mu: float) -> None:
    for part in parts(3):
        record = part.record("A", 10, mu)
        assert math.frexp(record.grid)[0] == 0.5  # a power of two
        scales = part.scales(record)
        assert scales is not None
        variances = np.repeat(scales.variance, np.diff(scales.ends, prepend=0))
        spread = variances[np.argsort(scales.order)] * record.grid**2
        rows, columns = np.triu_indices(3)
        share = np.where(rows == columns, 1.0, 0.5) if part.symmetric else np.ones(3)
        # Nine units more, for the grid (see the proof); these are nothing unless mu is huge.
        expected = share * record.noise_scale**2 + 9 * record.grid**2
        assert (spread >= expected).all()
        np.testing.assert_allclose(spread, expected, rtol=1e-14)
        assert mu > 1e3 or spread.max() <= record.noise_scale**2 * (1 + 1e-6)


def test_the_recorded_sensitivity_includes_rounding() -> None:
    record = Part("A", "matrices", BOUND).record("A", 10, 0.2)
    assert record.sensitivity == 2.0 * (1 + 2.0**-20) == BOUND.norm * (1 + ROUNDING)
    assert record.noise_scale == record.sensitivity / 0.2
    without = Part("A", "matrices", BOUND).record("A", 10, math.inf)
    assert (without.sensitivity, without.noise_scale, without.grid) == (2.0, 0.0, 0.0)


@pytest.mark.parametrize("mu", [1e-9, 0.2])
def test_released_values_are_multiples_of_the_recorded_grid(mu: float) -> None:
    desk = curator()
    grid = BOUND.grid(mu)
    noisy = desk.sums("sums", grid * np.arange(200.0)[:, None], BOUND, mu)
    (record,) = desk.ledger
    assert record.grid == grid
    np.testing.assert_array_equal(noisy / grid, np.rint(noisy / grid))
    assert not np.array_equal(noisy / grid % 2, np.zeros_like(noisy))  # all multiples, not some


@pytest.mark.parametrize("wrong", [0.5, 1.25, -0.5])
def test_sums_off_the_grid_are_refused_and_not_shown(wrong: float) -> None:
    desk = curator()
    sums = np.zeros((100, 3))
    sums[70, 2] = 12345 * BOUND.grid(0.2) if wrong < 0 else 0.0
    sums[80, 1] = wrong * BOUND.grid(0.2)
    with pytest.raises(ap.ReleaseError, match="not on the grid") as refused:
        desk.sums("sums", sums, BOUND, 0.2)
    assert not any(character.isdigit() for character in str(refused.value))
    assert len(desk.ledger) == 1  # it counts all the same


@pytest.mark.parametrize("many", [2.0**53, 2.0**53 + 2, 2.0**70, 1e300])
@pytest.mark.parametrize("sign", [1, -1])
def test_sums_of_too_many_users_count_as_the_most(many: float, sign: int) -> None:
    # An error would tell that they are there, and one user may make the difference.
    grid = BOUND.grid(0.2)
    most = curator().sums("sums", np.full((3, 1), sign * 2.0**53 * grid), BOUND, 0.2)
    found = curator().sums("sums", np.full((3, 1), sign * many * grid), BOUND, 0.2)
    np.testing.assert_array_equal(found, most)
    assert np.abs(found / grid - sign * 2.0**53).max() < 2.0**40


def test_what_was_refused_is_not_fed_again() -> None:
    release = curator().open("sums", [Part("sums", "", BOUND)], 10, 0.2)
    with pytest.raises(ap.ReleaseError, match="not on the grid"):
        release.feed(0, np.full((10, 1), release.grids[0] / 2))
    with pytest.raises(ap.ReleaseError, match="fed twice"):
        release.feed(0, np.zeros((10, 1)))


def test_noise_is_added_to_whole_numbers_before_anything_is_rounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Numbers beyond 2^53 are even in 64-bit arithmetic: rounding both would tell 1 + 2 from 2 + 1.
    far = 2**54
    record = Record("sums", "", (1, 1), 1.0, "", noise_scale=1.0, grid=1.0)
    released = []
    for total, drawn in [(1.0, far + 2), (2.0, far + 1), (3.0, far)]:
        fixed = np.array([[drawn]])
        monkeypatch.setattr(NoiseSource, "discrete_gaussian", lambda *_, fixed=fixed: fixed.copy())
        scales = Part("sums", "", BOUND).scales(record)
        noisy = _add_noise(NoiseSource(), map, scales, record, 0, 0, np.array([[total]]))
        released.append(float(noisy[0, 0]))
    assert len(set(released)) == 1


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


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.float16, np.float32, bool])
def test_sums_of_any_type_get_the_same_noise(dtype: Any) -> None:
    sums = np.array([[0], [1], [1]])
    expected = curator().sums("sums", sums.astype(float), BOUND, 0.2)
    np.testing.assert_array_equal(curator().sums("sums", sums.astype(dtype), BOUND, 0.2), expected)


@pytest.mark.parametrize("dtype", [np.complex128, np.longdouble, object, "U1"])
def test_sums_of_what_is_no_number_of_64_bits_are_refused(dtype: Any) -> None:
    with pytest.raises(ap.ReleaseError, match="numbers of at most 64 bits"):
        curator().sums("sums", np.zeros((2, 1)).astype(dtype), BOUND, 0.2)


def test_sums_that_change_while_they_are_released() -> None:
    # What is witnessed and what gets noise must be one thing; and nobody else's array is written to.
    sums = np.zeros((3, 1))

    def witness(record: Any, step: int, first: int, block: Any) -> None:
        seen.append(block.copy())
        sums[:] = 7.0

    seen: list[Any] = []
    desk = Curator(TARGET, NoiseSource.from_seed(0), witness=witness)
    found = desk.sums("sums", sums, BOUND, 0.2)
    np.testing.assert_array_equal(seen, [np.zeros((3, 1))])
    np.testing.assert_array_equal(found, curator().sums("sums", np.zeros((3, 1)), BOUND, 0.2))
    np.testing.assert_array_equal(sums, np.full((3, 1), 7.0))


def test_noise_of_a_step_is_used_once_whatever_other_threads_do() -> None:
    # Were the step read after the tasks are marked, the difference of two releases would be raw.
    part = Part("A", "sums", BOUND)
    steps, lost = 2, threading.Event()

    def witness(record: Any, step: int, *_: Any) -> None:
        if not lost.is_set():
            lost.set()
            release.next_step()  # another thread, just now

    desk = Curator(TARGET, NoiseSource.from_seed(0), witness=witness)
    release = desk.open("sums", [part], 3, 0.2, steps=steps)
    first = release.feed(0, np.zeros((3, 1)))[0]
    second = release.feed(0, np.zeros((3, 1)))[0]
    assert not np.intersect1d(first, second).size


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, pickle.dumps])
def test_releases_and_curators_are_never_copied(make: Any) -> None:
    desk = curator()
    release = desk.open("sums", [Part("A", "sums", BOUND)], 3, 0.2)
    for one in (desk, release):
        with pytest.raises(TypeError, match="never copied or saved"):
            make(one)


def test_the_parts_of_a_release_are_its_own() -> None:
    parts = [Part("A", "sums", BOUND)]
    release = curator().open("sums", parts, 3, 0.2)
    parts.append(Part("b", "sums", BOUND))
    assert len(release.feed(0, np.zeros((3, 1)))) == 1


def test_a_part_has_a_plain_width() -> None:
    part = Part("A", "matrices", BOUND, width=np.int8(100), symmetric=True)
    assert part.columns == 5050
    with pytest.raises(ap.ParameterError, match="width of a part"):
        Part("A", "matrices", BOUND, width=2.5)


@pytest.mark.parametrize("shares", [(math.inf, 1), (1e308, 1e308)])
def test_shares_beyond_all_numbers(shares: Any) -> None:
    with pytest.raises(ap.ParameterError, match="shares must be"):
        curator().open("both", parts(), 10, 0.2, shares)


def test_of_two_threads_that_feed_the_same_tasks_one_is_refused() -> None:
    # Otherwise the difference of what both get is that of the raw sums.
    for seed in range(10):
        curator = Curator(PrivacyTarget(1.0, 1e-5), NoiseSource.from_seed(seed))
        release = curator.open("sums", [Part("A", "sums", BOUND, width=500)], 400, 0.1)
        ready = threading.Barrier(2)
        released: list[Any] = []

        def feed(release: Any = release, ready: Any = ready, released: Any = released) -> None:
            sums = np.zeros((400, 500))
            ready.wait()
            with contextlib.suppress(ap.ReleaseError):
                released.append(release.feed(0, sums))

        threads = [threading.Thread(target=feed) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(released) == 1
