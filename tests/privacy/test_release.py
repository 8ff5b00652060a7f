"""Releases: noise of the recorded size, blocks, joint splits, refusals."""

import contextlib
import copy
import math
import pickle
import threading
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

import apportion as ap
from apportion.accounts.declared import Declared
from apportion.packing import pack, unpack
from apportion.privacy import (
    Curator,
    NoiseSource,
    OpenRelease,
    Part,
    PrivacyTarget,
    Record,
    UserBound,
    packed_width,
)
from apportion.privacy.bounds import ROUNDING
from apportion.privacy.release import _add_noise

TARGET = PrivacyTarget(epsilon=1.0, delta=1e-5)
BOUND = UserBound(2.0, "by construction")


def curator(seed: int = 0) -> Curator:
    return Curator(TARGET, NoiseSource.from_seed(seed))


def units(sums: np.ndarray, mu: float, bound: UserBound = BOUND) -> np.ndarray:
    """Sums as whole numbers of the grid's units."""
    return np.rint(sums / bound.grid(mu)).astype(np.int64)


def nothing(*shape: int) -> np.ndarray:
    return np.zeros(shape, dtype=np.int64)


def symmetric(desk: Curator, d: int, tasks: int, mu: float) -> np.ndarray:
    """Noise alone, of packed symmetric matrices."""
    part = Part("A", "matrices", BOUND, width=d, symmetric=True)
    [noisy] = desk.open("A", [part], tasks, mu).feed(0, nothing(tasks, packed_width(d)))
    return noisy


def test_sums_get_the_recorded_noise() -> None:
    desk = curator()
    noisy = desk.release("sums", units(np.full((4000, 3), 10.0), 0.2), BOUND, 0.2)
    (record,) = desk.ledger
    assert record.noise_scale == pytest.approx(2.0 / 0.2)
    assert record.mu == pytest.approx(0.2)
    # The sample variance of 12,000 draws is chi-square; two sides at 1e-6.
    ratio = np.sum((noisy - 10.0) ** 2) / record.noise_scale**2
    assert stats.chi2.ppf(1e-6, noisy.size) < ratio < stats.chi2.isf(1e-6, noisy.size)


def test_symmetric_noise_is_spherical_in_the_frobenius_norm() -> None:
    desk = curator()
    noisy = symmetric(desk, 3, 4000, 0.2)
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


@pytest.mark.parametrize("d", [2, 16, 17, 48, 130])
def test_noise_off_the_diagonal_is_as_large_as_recorded_in_any_dimension(d: int) -> None:
    # 100,000 variates and more: 2 % less noise would be 4 % less variance, nine standard deviations.
    desk, tasks = curator(), -(-200_000 // (d * (d - 1)))
    noisy = symmetric(desk, d, tasks, 0.2)
    (record,) = desk.ledger
    rows, columns = np.triu_indices(d)
    off = noisy[:, rows != columns] * math.sqrt(2) / record.noise_scale
    assert stats.chi2.ppf(1e-6, off.size) < np.sum(off**2) < stats.chi2.isf(1e-6, off.size)


@pytest.mark.parametrize("mu", [0.2, 3e-9])
def test_symmetric_parts_have_half_the_variance_off_the_diagonal(mu: float) -> None:
    d, tasks = 4, 3000
    desk = curator()
    noisy = symmetric(desk, d, tasks, mu)
    scale = next(iter(desk.ledger)).noise_scale
    rows, columns = np.triu_indices(d)
    variance = np.where(rows == columns, scale**2, scale**2 / 2)
    ratio = np.sum(noisy**2, axis=0) / variance
    assert (ratio > stats.chi2.ppf(1e-6, tasks)).all()
    assert (ratio < stats.chi2.isf(1e-6, tasks)).all()


@pytest.mark.parametrize("mu", [1e-9, 1e-3, 0.2, 30.0, 1e6, 1e9])
def test_the_noise_is_never_less_than_recorded(mu: float) -> None:
    for part in (part for d in (3, 17, 48) for part in parts(d)):
        d, record = part.width, part.record("A", 10, mu)
        assert math.frexp(record.grid)[0] == 0.5  # a power of two
        scales = part.scales(record)
        assert scales is not None
        variances = np.repeat(scales.variance, np.diff(scales.ends, prepend=0))
        spread = variances[np.argsort(scales.order)] * record.grid**2
        rows, columns = np.triu_indices(d)
        share = np.where(rows == columns, 1.0, 0.5) if part.symmetric else np.ones(d)
        # Nine units more, for the grid (see the proof); these are nothing unless mu is huge.
        expected = share * record.noise_scale**2 + 9 * record.grid**2
        assert (spread >= expected).all()
        np.testing.assert_allclose(spread, expected, rtol=1e-14)
        assert mu > 1e3 or spread.max() <= record.noise_scale**2 * (1 + 1e-6)


@pytest.mark.parametrize("mu", [1e-3, 0.2, 3.0])
def test_variances_are_larger_by_what_their_rounding_may_take(mu: float) -> None:
    # Three operations round by 2^-53 each; 2^-50 is added for that.
    for part in parts(3):
        record = part.record("A", 10, mu)
        whole = Fraction(record.noise_scale) ** 2 / Fraction(record.grid) ** 2
        for variance in part.scales(record).variance:
            exact = min(
                (s * whole + 9 for s in (1, Fraction(1, 2))), key=lambda v: abs(v - variance)
            )
            added = Fraction(float(variance)) / exact - 1
            assert abs(added - Fraction(1, 2**50)) <= Fraction(3, 2**53)


def test_the_recorded_sensitivity_includes_rounding() -> None:
    record = Part("A", "matrices", BOUND).record("A", 10, 0.2)
    assert record.sensitivity == 2.0 * (1 + 2.0**-20) == BOUND.norm * (1 + ROUNDING)
    assert record.noise_scale == record.sensitivity / 0.2


@pytest.mark.parametrize("mu", [1e-9, 0.2])
def test_released_values_are_multiples_of_the_recorded_grid(mu: float) -> None:
    desk = curator()
    grid = BOUND.grid(mu)
    noisy = desk.release("sums", np.arange(200)[:, None], BOUND, mu)
    (record,) = desk.ledger
    assert record.grid == grid
    np.testing.assert_array_equal(noisy / grid, np.rint(noisy / grid))
    assert not np.array_equal(noisy / grid % 2, np.zeros_like(noisy))  # all multiples, not some


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.uint64, object])
def test_sums_that_are_not_whole_numbers_are_refused_and_not_shown(dtype: type) -> None:
    desk = curator()
    sums: np.ndarray = np.full((100, 3), 12345).astype(dtype)
    with pytest.raises(ap.ReleaseError, match="sums are whole numbers") as refused:
        desk.release("sums", sums, BOUND, 0.2)
    assert "12345" not in str(refused.value)
    assert len(desk.ledger) == 1  # it counts all the same


def test_of_a_block_that_is_refused_no_part_is_released() -> None:
    """Every part is looked at before noise is drawn for the first one."""
    seen: list[Any] = []
    desk = Curator(TARGET, NoiseSource.from_seed(0), witness=lambda *what: seen.append(what))
    release = desk.open("both", parts(), 10, 0.2)
    with pytest.raises(ap.ReleaseError, match="sums are whole numbers"):
        release.feed(0, nothing(10, 3), np.zeros((10, 2)))
    assert not seen
    assert not release.complete


def test_noise_is_added_to_whole_numbers_before_anything_is_rounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Numbers beyond 2^53 are even in 64-bit arithmetic: rounding both would tell 1 + 2 from 2 + 1.
    far = 2**54
    record = Record("sums", "", (1, 1), 1.0, "", noise_scale=1.0, grid=1.0)
    released = []
    for total, drawn in [(1, far + 2), (2, far + 1), (3, far)]:
        fixed = np.array([[drawn]])
        monkeypatch.setattr(NoiseSource, "discrete_gaussian", lambda *_, fixed=fixed: [(0, fixed)])
        scales = Part("sums", "", BOUND).scales(record)
        noisy = _add_noise(NoiseSource(), map, scales, record, 0, 0, np.array([[total]]))
        released.append(float(noisy[0, 0]))
    assert len(set(released)) == 1


@pytest.mark.parametrize("tasks", [[0], [0, 2], [1, 0, 2], [0, 1, 1], [0, 1, 2, 3], []])
def test_a_task_without_noise_is_an_error(
    tasks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Record("sums", "", (3, 1), 1.0, "", noise_scale=1.0, grid=1.0)
    noise = [(at, np.ones((1, 1), dtype=np.int64)) for at in tasks]
    monkeypatch.setattr(NoiseSource, "discrete_gaussian", lambda *_: noise)
    scales = Part("sums", "", BOUND).scales(record)
    with pytest.raises(ap.ReleaseError, match="every task"):
        _add_noise(NoiseSource(), map, scales, record, 0, 0, np.zeros((3, 1), dtype=np.int64))


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
    A, b = rng.integers(-9, 9, (200, 3)), rng.integers(-9, 9, (200, 2))
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
    release.feed(3, nothing(3, 3), nothing(3, 2))
    with pytest.raises(ap.ReleaseError, match="fed twice"):
        release.feed(5, nothing(2, 3), nothing(2, 2))
    assert not release.complete


def test_a_step_ends_when_every_task_has_been_fed() -> None:
    release = curator().open("both", parts(), 10, 0.2, steps=3)
    release.feed(0, nothing(9, 3), nothing(9, 2))
    with pytest.raises(ap.ReleaseError, match="every task has been fed"):
        release.next_step()
    release.feed(9, nothing(1, 3), nothing(1, 2))
    for _ in range(2):
        release.next_step()
        assert not release.complete
        release.feed(0, nothing(10, 3), nothing(10, 2))
    with pytest.raises(ap.ReleaseError, match="only 3 steps"):
        release.next_step()


@pytest.mark.parametrize(
    ("first", "A", "b"),
    [
        (0, nothing(2, 3), nothing(2, 3)),
        (0, nothing(2, 3), nothing(1, 2)),
        (9, nothing(2, 3), nothing(2, 2)),
        (-1, nothing(2, 3), nothing(2, 2)),
        (0, np.full((2, 3), np.nan), nothing(2, 2)),
        (0, np.int64(1), np.int64(1)),
        (0, nothing(3), nothing(2)),
    ],
)
def test_impossible_blocks(first: int, A: np.ndarray, b: np.ndarray) -> None:
    release = curator().open("both", parts(), 10, 0.2)
    with pytest.raises(ap.ReleaseError):
        release.feed(first, A, b)


def test_a_block_of_nothing() -> None:
    release = curator().open("both", parts(), 10, 0.2)
    with pytest.raises(ap.ReleaseError, match="shapes"):
        release.feed(0)
    for first in (0, 4, 10):
        A, b = release.feed(first, nothing(0, 3), nothing(0, 2))
        assert (A.shape, b.shape) == ((0, 3), (0, 2))
    assert not release.complete


def test_sums_that_got_no_noise_are_not_returned() -> None:
    # Whatever draws noise in several threads may lose some of it.
    release = curator().open("both", parts(), 200, 0.2)
    release.run = lambda add, tiles: map(add, list(tiles)[:-1])
    with pytest.raises(ValueError, match="shorter"):
        release.feed(0, nothing(200, 3), nothing(200, 2))


def test_every_part_has_a_record() -> None:
    records = curator().open("both", parts(), 10, 0.2).records
    with pytest.raises(ValueError, match="shorter"):
        OpenRelease(NoiseSource(), parts(), records[:1])


def test_every_step_has_a_sample_of_its_own() -> None:
    def keys() -> list[bytes]:
        release, found = curator().open("b", parts()[1:], 1, 0.2, None, 3, 0.1), []
        for step in range(3):
            if step:
                release.next_step()
            found += [release.sample_key(), release.sample_key()]
            release.feed(0, nothing(1, 2))
        return found

    found = keys()
    assert found == keys()
    assert found[::2] == found[1::2]
    assert len(set(found)) == 3
    assert {len(key) for key in found} == {16}


def test_a_release_is_recorded_before_its_first_value() -> None:
    desk = curator()
    desk.open("both", parts(), 10, 0.2)
    assert desk.ledger.mu == pytest.approx(0.2)


def test_a_release_over_budget_yields_nothing() -> None:
    desk = curator()
    with pytest.raises(ap.BudgetExceededError):
        desk.release("sums", nothing(2, 1), BOUND, mu=1.01 * TARGET.mu)
    assert len(desk.ledger) == 0


@pytest.mark.parametrize("shares", [(1,), (1, 0), (1, -1), (1, 2, 3), (math.nan, 1)])
def test_bad_shares(shares: tuple[float, ...]) -> None:
    with pytest.raises(ap.ParameterError, match="shares must be"):
        curator().open("both", parts(), 10, 0.2, shares)


@pytest.mark.parametrize("mu", [0.0, -1.0, math.nan])
def test_bad_mu(mu: float) -> None:
    with pytest.raises(ap.ParameterError, match="mu of a release must be a number above 0"):
        curator().release("sums", nothing(2, 1), BOUND, mu)


def test_nothing_is_released_without_noise() -> None:
    # A training without privacy asks the session for exact sums; nothing of it goes through here.
    desk = Curator(PrivacyTarget(math.inf, 1e-5))
    with pytest.raises(ap.ParameterError, match="mu of a release"):
        desk.release("sums", nothing(5, 2), BOUND, math.inf)
    with pytest.raises(ap.BudgetExceededError, match="noise is less than"):
        desk.release("sums", nothing(5, 2), BOUND, 9.0)
    assert len(desk.ledger) == 0


class TestDeclared:
    """A plan is what happens."""

    PARTS = (
        Part("A", "matrices", UserBound(3.0, "x"), width=2, symmetric=True),
        Part("b", "vectors", UserBound(0.5, "y"), width=2),
    )

    @pytest.mark.parametrize(
        "declared",
        [
            Declared("mean", (Part("mean", "sums", BOUND, width=2),), 0.1, tasks=1),
            Declared("both", PARTS, 0.5, (1.0, 3.0)),
            Declared("steps", PARTS[1:], 0.3, steps=7),
            Declared("sampled", PARTS[1:], 0.3, steps=5, sampling_rate=0.2),
        ],
        ids=lambda declared: declared.name,
    )
    def test_records_are_those_that_open_writes(self, declared: Declared) -> None:
        desk = curator()
        release = declared.open(desk, 6)
        assert list(desk.ledger) == declared.records(6, declared.mu(TARGET))
        assert release.records == tuple(desk.ledger)
        assert [record.name for record in desk.ledger] == declared.part_names()
        if declared.sampling_rate == 1:
            assert desk.ledger.mu == pytest.approx(TARGET.mu * math.sqrt(declared.share))

    def test_at_another_cost(self) -> None:
        desk, declared = curator(), Declared("both", self.PARTS, 0.5, (1.0, 3.0))
        declared.open(desk, 4, mu=0.05)
        assert list(desk.ledger) == declared.records(4, 0.05)
        assert desk.ledger.mu == pytest.approx(0.05)

    def test_a_selection_has_its_delta(self) -> None:
        target = PrivacyTarget(1.0, 1e-2, 5e-3)
        desk = Curator(target, NoiseSource.from_seed(0))
        part = Part("users", "users per item, those above a threshold", UserBound(3.0, "x"))
        declared = Declared("catalog", (part,), 0.1, selects=True)
        ids, counts = np.arange(3), np.array([10**6, 0, 10**6])
        chosen, _ = desk.select("catalog", ids, counts, 9, declared.mu(target), 5e-3)
        [found], [planned] = desk.ledger, declared.records(len(chosen), declared.mu(target), 5e-3)
        assert planned.delta == 5e-3
        assert replace(found, because="") == replace(planned, because="")


def test_sums_that_change_while_they_are_released() -> None:
    # What is witnessed and what gets noise must be one thing; and nobody else's array is written to.
    sums = nothing(3, 1)

    def witness(record: Any, step: int, first: int, block: Any) -> None:
        seen.append(block.copy())
        sums[:] = 7

    seen: list[Any] = []
    desk = Curator(TARGET, NoiseSource.from_seed(0), witness=witness)
    found = desk.release("sums", sums, BOUND, 0.2)
    np.testing.assert_array_equal(seen, [nothing(3, 1)])
    np.testing.assert_array_equal(found, curator().release("sums", nothing(3, 1), BOUND, 0.2))
    np.testing.assert_array_equal(sums, np.full((3, 1), 7))


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
    first = release.feed(0, nothing(3, 1))[0]
    second = release.feed(0, nothing(3, 1))[0]
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
    assert len(release.feed(0, nothing(3, 1))) == 1


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
            sums = nothing(400, 500)
            ready.wait()
            with contextlib.suppress(ap.ReleaseError):
                released.append(release.feed(0, sums))

        threads = [threading.Thread(target=feed) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(released) == 1
