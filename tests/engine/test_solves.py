"""Many small symmetric systems at once, against NumPy's eigenvectors and LAPACK's solver."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from apportion.engine import solves
from apportion.engine.solves import solve_filtered, solve_positive
from apportion.native import kernels
from apportion.packing import pack
from tests.threads import this_many_threads

Array = np.ndarray[Any, np.dtype[np.float64]]

# The most systems that are solved at once.
LANES = 32
DIMENSIONS = [1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 64, 128, 129, 256]


def by_eigenvectors(A: Array, b: Array, alpha: Array, ridge: float) -> Array:
    """The readable solution: what ``solve_filtered`` is to give."""
    with threadpool_limits(1, user_api="blas"):
        values, vectors = np.linalg.eigh(A)
    values = np.maximum(values, 0.0) + alpha[:, None]
    largest = values.max(axis=1, keepdims=True, initial=0.0)
    known = values > A.shape[-1] * np.finfo(np.float64).eps * largest
    filtered = np.divide(values, values**2 + ridge**2, out=np.zeros_like(values), where=known)
    rotated = np.einsum("tij,ti->tj", vectors, b)
    return np.asarray(np.einsum("tij,tj->ti", vectors, filtered * rotated))


def noisy(systems: int, d: int, noise: float, seed: int = 0) -> tuple[Array, Array, Array]:
    """Sums of x x' over few or many rows, with noise; vectors; and ridges."""
    rng = np.random.default_rng(seed)
    A = np.empty((systems, d, d))
    for system in range(systems):
        X = rng.normal(size=(rng.integers(0, 3 * d + 2), d))
        A[system] = X.T @ X
    E = rng.normal(size=A.shape)
    A += noise * (E + E.transpose(0, 2, 1)) / 2
    return A, rng.normal(size=(systems, d)), rng.uniform(0.0, 2.0, systems)


def check_layouts(solve: Any, packed: Array, b: Array) -> None:
    """However the numbers lie in memory, and of whatever type they are, the solutions are the same."""
    wide, tall = np.repeat(packed, 2, axis=1)[:, ::2], np.asfortranarray(b)
    np.testing.assert_array_equal(solve(wide, tall), solve(packed, b))
    small = packed.astype(np.float32), b.astype(np.float32)
    alike = solve(*(rows.astype(np.float64) for rows in small))
    np.testing.assert_array_equal(solve(*small), alike)


def with_values(values: Array, seed: int = 0) -> Array:
    """Matrices with these eigenvalues, [systems, d], and random eigenvectors."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(*values.shape, values.shape[1])))[0]
    A = (Q * values[:, None, :]) @ Q.transpose(0, 2, 1)
    return np.asarray((A + A.transpose(0, 2, 1)) / 2)


def assert_near(mine: Array, reference: Array, tolerance: float = 1e-9) -> None:
    """Relative to each system's largest entry; as float32 allows, unless all is float64."""
    if solves._SINGLE > 0:
        tolerance = max(tolerance, 3e-5)
    scale = np.abs(reference).max(axis=1, keepdims=True) + 1e-300
    np.testing.assert_allclose(mine / scale, reference / scale, rtol=0, atol=tolerance)


@pytest.fixture(params=[solves._SINGLE, -1.0], ids=["as it is", "float64"])
def both_precisions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solves, "_SINGLE", request.param)


@pytest.mark.usefixtures("both_precisions")
class TestFiltered:
    """Projected, filtered, solved."""

    @pytest.mark.parametrize("d", DIMENSIONS)
    @pytest.mark.parametrize("noise", [0.1, 10.0])
    def test_is_what_eigenvectors_give(self, d: int, noise: float) -> None:
        A, b, alpha = noisy(2 * LANES + 3, d, noise)
        mine = solve_filtered(pack(A), b, alpha, noise)
        assert_near(mine, by_eigenvectors(A, b, alpha, noise), 1e-12)

    def test_any_layout_will_do(self) -> None:
        A, b, alpha = noisy(2 * LANES + 3, 12, 1.0)
        packed = pack(A)
        check_layouts(lambda A, b: solve_filtered(A, b, alpha, 1.0), packed, b)

    @pytest.mark.parametrize("d", [2, 5, 32, 65])
    def test_nothing_regularizes(self, d: int) -> None:
        rng = np.random.default_rng(1)
        values = rng.choice([-2.0, 1.0, 3.0], size=(40, d)) * rng.uniform(0.1, 1.0, (40, d))
        A, b = with_values(values), rng.normal(size=(40, d))
        mine = solve_filtered(pack(A), b, np.zeros(40), 0.0)
        assert_near(mine, by_eigenvectors(A, b, np.zeros(40), 0.0))

    @pytest.mark.parametrize("d", [3, 16, 50])
    def test_directions_without_data_are_left_out(self, d: int) -> None:
        rng = np.random.default_rng(2)
        X = rng.normal(size=(20, d // 2, d))
        A, b = X.transpose(0, 2, 1) @ X, rng.normal(size=(20, d))
        mine = solve_filtered(pack(A), b, np.zeros(20), 0.0)
        pseudo = np.einsum("tij,tj->ti", np.linalg.pinv(A, hermitian=True, rcond=1e-12), b)
        assert_near(mine, pseudo)

    @pytest.mark.parametrize(
        "values",
        [
            np.zeros((3, 12)),
            np.ones((3, 12)),
            np.repeat([[5.0, 5.0, 5.0, -1.0]], 3, axis=1),
            np.array([[1.0, 1.0 + 1e-15, 1.0 + 1e-8, 2.0, 2.0, 1e-16, 0.0, -1e-16]]),
            np.logspace(0, -30, 20)[None],
            np.logspace(-30, 0, 20)[None],
            np.concatenate([[[1e5]], np.ones((1, 30))], axis=1),
        ],
        ids=["zero", "unit", "repeated", "clustered", "falling", "rising", "one large"],
    )
    def test_hard_spectra(self, values: Array) -> None:
        b = np.random.default_rng(3).normal(size=values.shape)
        alpha = np.full(len(values), 0.01)
        for A in (with_values(values), values[:, :, None] * np.eye(values.shape[1])):
            assert_near(solve_filtered(pack(A), b, alpha, 0.1), by_eigenvectors(A, b, alpha, 0.1))

    @pytest.mark.parametrize("d", [2, 21, 64])
    def test_matrices_that_are_nearly_tridiagonal_or_split(self, d: int) -> None:
        rng = np.random.default_rng(4)
        A = np.zeros((9, d, d))
        for system, beside in enumerate([1.0, 1e-3, 1e-8, 1e-15, 1e-17, 1e-100, 1e-160, 1e-300, 0]):
            A[system] += np.diag(rng.normal(size=d)) + beside * np.ones((d, d))
            A[system, : d // 2, d // 2 :] *= 1e-9
            A[system, d // 2 :, : d // 2] *= 1e-9
        b, alpha = rng.normal(size=(9, d)), np.full(9, 0.2)
        assert_near(solve_filtered(pack(A), b, alpha, 0.3), by_eigenvectors(A, b, alpha, 0.3))

    @pytest.mark.parametrize("power", [-140, -100, -20, 20, 100, 140])
    def test_any_scale(self, power: int) -> None:
        A, b, alpha = noisy(11, 13, 3.0)
        unit = 10.0**power
        reference = by_eigenvectors(A, b, alpha, 3.0)
        assert_near(solve_filtered(pack(A * unit), b, alpha * unit, 3.0 * unit) * unit, reference)
        assert_near(solve_filtered(pack(A), b * unit, alpha, 3.0) / unit, reference)

    def test_what_was_small_once_stays_small(self) -> None:
        # Beside the first row stands a number lost in the rounding of the second, until that shrinks.
        # Whether it is looked at again must not depend on a neighbor that is not as far yet.
        beside = np.array([2e-16, 0.9, 0.9, 0.9, 0.9])
        special = np.diag([0.0, 1, 1, 1, 1, 1]) + np.diag(beside, 1) + np.diag(beside, -1)
        A, b, alpha = noisy(LANES, 6, 3.0)
        A[0] = special
        packed = pack(A)
        together = solve_filtered(packed, b, alpha, 0.5)
        for i in range(LANES):
            alone = solve_filtered(packed[[i]], b[[i]], alpha[[i]], 0.5)
            np.testing.assert_array_equal(alone[0], together[i])

    @pytest.mark.parametrize("d", [1, 6, 40])
    def test_a_shared_matrix_is_added(self, d: int) -> None:
        A, b, alpha = noisy(10, d, 2.0)
        shared = noisy(1, d, 1.0, seed=9)[0]
        scale = np.linspace(0.0, 3.0, 10)
        mine = solve_filtered(pack(A), b, alpha, 0.5, scale, pack(shared)[0])
        added = A + scale[:, None, None] * shared
        assert_near(mine, by_eigenvectors(added, b, alpha, 0.5))

    @pytest.mark.skipif(kernels is None, reason="no compiled kernels")
    @pytest.mark.parametrize("single", [True, False])
    def test_too_few_sweeps_are_noticed(self, single: bool) -> None:
        A, b, alpha = noisy(LANES, 8, 2.0)
        A[1] = np.diag(np.arange(8.0))  # nothing to do
        packed, limits = np.ascontiguousarray(pack(A)), (1e30, 0.0, 3)
        assert kernels is not None
        _, failed = kernels.solve_filtered(packed, b, alpha, 1.0, *limits, single, None, None, 1)
        assert failed.tolist() == [True, False] + [True] * (LANES - 2)

    def test_no_systems(self) -> None:
        assert solve_filtered(np.zeros((0, 3)), np.zeros((0, 2)), np.zeros(0), 1.0).shape == (0, 2)


class TestAnyInput:
    """Whatever the numbers are, and whoever the neighbors."""

    @settings(deadline=None, max_examples=200)
    @given(st.integers(1, 6), st.data())
    def test_never_nan(self, d: int, data: st.DataObject) -> None:
        entries = st.one_of(
            st.sampled_from([0.0, 1.0, -1.0, 5e-324, 1e-310, 1e-300, 1e300, -1e300, 1e154]),
            st.floats(-1e300, 1e300),
        )
        sizes = st.one_of(st.sampled_from([0.0, 5e-324, 1e-300, 1e100]), st.floats(0, 1e100))
        width = d * (d + 1) // 2
        packed = np.array(data.draw(st.lists(entries, min_size=width, max_size=width)))[None]
        b = np.array(data.draw(st.lists(entries, min_size=d, max_size=d)))[None]
        alpha, ridge = np.array([data.draw(sizes)]), data.draw(sizes)
        theta = solve_filtered(packed, b, alpha, ridge)
        assert not np.isnan(theta).any()

    @pytest.mark.parametrize("entry", [5e-324, 1e-310, 1e-300, 1e-45, 1e-38])
    @pytest.mark.parametrize("ridge", [0.0, 5e-324, 1e-310, 1e-45, 1.0])
    def test_nothing_is_divided_by_what_is_too_small(self, entry: float, ridge: float) -> None:
        A, b = np.full((1, 1), entry), np.array([[0.0]])
        assert solve_filtered(A, b, np.zeros(1), ridge) == 0.0
        assert np.isfinite(solve_filtered(A, b + 1e-20, np.zeros(1), ridge)).all()

    @given(st.lists(st.integers(0, 70), max_size=4), st.integers(1, 3))
    @settings(deadline=None, max_examples=30)
    def test_neighbors_and_threads_change_nothing(self, cuts: list[int], threads: int) -> None:
        A, b, alpha = noisy(70, 9, 4.0)
        A[::7] *= 1e-8
        A[3] = 0.0
        A[10:70:10] = np.eye(9) + 0.3  # splits at once
        A[20:40] = np.round(A[20:40] / 5)
        packed = pack(A)
        whole = solve_filtered(packed, b, alpha, 1.0)
        with this_many_threads(threads):
            parts = [
                solve_filtered(packed[first:stop], b[first:stop], alpha[first:stop], 1.0)
                for first, stop in pairwise(sorted({0, 70, *cuts}))
            ]
        np.testing.assert_array_equal(np.concatenate(parts), whole)


@pytest.mark.skipif(kernels is None, reason="all is float64 without compiled kernels")
class TestPrecision:
    """float32 where its rounding is small beside the ridge, float64 elsewhere; each system by itself."""

    @staticmethod
    def of_norms(norms: Array, d: int = 24) -> tuple[Array, Array, Array]:
        rng = np.random.default_rng(5)
        values = rng.normal(size=(len(norms), d))
        values *= (norms / np.linalg.norm(values, axis=1))[:, None]
        return with_values(values), rng.normal(size=(len(norms), d)), np.full(len(norms), 0.1)

    def test_is_chosen_by_the_norm(self) -> None:
        # The norm is taken from one triangle, diagonal included: it may come out larger, up to sqrt(2).
        norms = solves._SINGLE * np.tile([1.01, 0.7, 10.0, 0.01], 20)
        A, b, alpha = self.of_norms(norms)
        error = np.abs(solve_filtered(pack(A), b, alpha, 1.0) - by_eigenvectors(A, b, alpha, 1.0))
        error = error.max(axis=1) / np.abs(b).max(axis=1)
        single = norms < solves._SINGLE
        assert error[~single].max() < 1e-12 < 1e-9 < error[single].min()

    @pytest.mark.parametrize("d", [2, 16, 65])
    def test_rounding_is_as_small_as_said(self, d: int) -> None:
        # One large value and many below the ridge, where f is steepest.
        rng = np.random.default_rng(6)
        values = rng.uniform(-0.5, 0.5, (60, d))
        values[:, 0] = 0.7 * solves._SINGLE  # or 0.99, if the diagonal happened to be zero
        A, b, alpha = with_values(values), rng.normal(size=(60, d)), np.zeros(60)
        error = solve_filtered(pack(A), b, alpha, 1.0) - by_eigenvectors(A, b, alpha, 1.0)
        # Each system's own b: the smallest of sixty says nothing about the others.
        assert (np.linalg.norm(error, axis=1) < 2.0**-12 * np.linalg.norm(b, axis=1)).all()

    @pytest.mark.parametrize("ridge", [1e28, 1e32, 1e37, 1e40, 1e100])
    def test_a_ridge_may_outweigh_everything(self, ridge: float) -> None:
        A, b, alpha = self.of_norms(np.ones(9))
        mine, expected = (f * ridge**2 for f in (
            solve_filtered(pack(A), b, alpha, ridge), by_eigenvectors(A, b, alpha, ridge)
        ))  # fmt: skip
        np.testing.assert_allclose(mine, expected, atol=1e-5)

    def test_what_does_not_converge_is_left_to_lapack(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        A, b, alpha = noisy(40, 24, 2.0)
        expected = by_eigenvectors(A, b, alpha, 0.5)
        assert np.abs(solve_filtered(pack(A), b, alpha, 0.5) - expected).max() > 1e-9
        monkeypatch.setattr(solves, "_SWEEPS", 1)
        assert_near(solve_filtered(pack(A), b, alpha, 0.5), expected, 1e-12)

    def test_nothing_is_single_without_a_ridge(self, monkeypatch: pytest.MonkeyPatch) -> None:
        A, b, alpha = self.of_norms(np.ones(9))
        monkeypatch.setattr(solves, "_SINGLE", np.inf)
        expected = by_eigenvectors(A, b, alpha, 0.0)
        np.testing.assert_allclose(solve_filtered(pack(A), b, alpha, 0.0), expected, atol=1e-9)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_positive_is_the_solution(d: int) -> None:
    A, b, alpha = noisy(2 * LANES + 1, d, 0.0)
    mine = solve_positive(pack(A), b, alpha + 0.1)
    regular = A + (alpha + 0.1)[:, None, None] * np.eye(d)
    assert_near(mine, np.linalg.solve(regular, b[:, :, None])[:, :, 0])


def test_positive_with_a_shared_matrix() -> None:
    A, b, alpha = noisy(10, 5, 0.0)
    shared, scale = noisy(1, 5, 0.0, seed=4)[0], np.linspace(0.0, 3.0, 10)
    mine = solve_positive(pack(A), b, alpha + 1, scale, pack(shared)[0])
    regular = A + scale[:, None, None] * shared + (alpha + 1)[:, None, None] * np.eye(5)
    assert_near(mine, np.linalg.solve(regular, b[:, :, None])[:, :, 0])


def test_where_nothing_is_left_of_a_pivot_directions_are_left_out() -> None:
    A, b, _ = noisy(10, 6, 0.0)
    A[::2] = np.outer(np.arange(6.0), np.arange(6.0))
    alpha = np.full(10, 1e-30)
    alpha[1::2] = 1.0
    shared, scale = pack(np.eye(6)[None])[0], np.zeros(10)
    mine = solve_positive(pack(A), b, alpha, scale, shared)
    assert_near(mine, by_eigenvectors(A, b, alpha, 0.0))


@pytest.mark.parametrize("power", [-140, 140])
def test_positive_of_any_scale(power: int) -> None:
    A, b, alpha = noisy(11, 13, 0.0)
    unit = 10.0**power
    reference = solve_positive(pack(A), b, alpha + 1)
    assert_near(solve_positive(pack(A * unit), b, (alpha + 1) * unit) * unit, reference)
    assert_near(solve_positive(pack(A), b * unit, alpha + 1) / unit, reference)


def test_a_ridge_far_beyond_the_matrix() -> None:
    theta = solve_positive(np.zeros((1, 3)), np.ones((1, 2)), np.array([1e100]))
    np.testing.assert_allclose(theta, 1e-100, rtol=1e-12)


def test_positive_of_any_layout() -> None:
    A, b, alpha = noisy(2 * LANES + 3, 12, 0.0)
    check_layouts(lambda A, b: solve_positive(A, b, alpha + 1), pack(A), b)
