"""Batched solves: equal to the twin up to rounding, with the same bits on every machine."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from apportion.native import kernels
from apportion.packing import pack
from apportion.twins import solves as twin
from tests.engine.test_solves import noisy
from tests.native.interrupting import seconds_to_end

pytestmark = pytest.mark.skipif(kernels is None, reason="no compiled kernels")
# Around the lanes of one vector and of two, in float32 and float64.
SYSTEMS = [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65]
SIZES = [*range(1, 71), 127, 128, 129]
Array = np.ndarray[Any, np.dtype[np.float64]]


def filtered(single: bool, system: Any, threads: int = 2, sweeps: int = 6) -> tuple[Array, Any]:
    packed, b, alpha, ridge, scale, shared = system
    limits = 1e30, 0.0, sweeps * (b.shape[1] + 4)
    return kernels.solve_filtered(packed, b, alpha, ridge, *limits, single, scale, shared, threads)


def systems(count: int, d: int, seed: int = 0) -> tuple[Any, ...]:
    A, b, alpha = noisy(count, d, 2.0, seed)
    scale = np.random.default_rng(seed).uniform(0.0, 2.0, count)
    return (
        np.ascontiguousarray(pack(A)),
        b,
        alpha,
        3.0 * np.sqrt(d),
        scale,
        pack(np.eye(d)[None])[0],
    )


def assert_near(found: Array, expected: Array, tolerance: float) -> None:
    error = np.linalg.norm(found - expected, axis=1)
    assert (error <= tolerance * np.linalg.norm(expected, axis=1)).all()


@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize(("single", "tolerance"), [(True, 3e-5), (False, 1e-12)])
def test_every_dimension_is_solved(d: int, single: bool, tolerance: float) -> None:
    some = systems(3, d)
    theta, failed = filtered(single, some)
    assert not failed.any()
    assert_near(theta, twin.solve_filtered(*some), tolerance)


@pytest.mark.parametrize("d", [256, 512])
def test_large_dimensions_are_solved(d: int) -> None:
    some = systems(3, d)
    for single, tolerance in ((True, 1e-4), (False, 1e-12)):
        assert_near(filtered(single, some)[0], twin.solve_filtered(*some), tolerance)


@pytest.mark.parametrize("count", SYSTEMS)
@pytest.mark.parametrize("single", [True, False])
def test_any_number_of_systems(count: int, single: bool) -> None:
    some = systems(count, 5)
    assert_near(filtered(single, some)[0], twin.solve_filtered(*some), 3e-5)


@pytest.mark.parametrize("d", SIZES)
def test_positive_systems_of_every_dimension(d: int) -> None:
    packed, b, alpha, _, scale, shared = systems(9, d)
    alpha = alpha + 100.0 * d  # positive, whatever the noise
    theta, failed = kernels.solve_positive(packed, b, alpha, scale, shared, 2)
    assert not failed.any()
    rows, columns = np.triu_indices(d)
    A = np.zeros((9, d, d))
    A[:, rows, columns] = A[:, columns, rows] = packed + scale[:, None] * shared
    A += alpha[:, None, None] * np.eye(d)
    assert_near(theta, np.linalg.solve(A, b[:, :, None])[:, :, 0], 1e-11)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 8, 17, 33, 64, 65])
def test_bits_do_not_depend_on_machine_threads_or_neighbors(d: int) -> None:
    some = systems(67, d)
    positive = some[0], some[1], some[2] + 100.0 * d, *some[4:]

    def all_bits(threads: int) -> bytes:
        found = [filtered(single, some, threads) for single in (True, False)]
        return b"".join(a.tobytes() for pair in found for a in pair) + b"".join(
            a.tobytes() for a in kernels.solve_positive(*positive, threads)
        )

    expected = by_isa(lambda: all_bits(1))
    assert len(set(expected + [all_bits(threads) for threads in (2, 3, 5)])) == 1
    alone = tuple(each[40:41] if np.ndim(each) and len(each) == 67 else each for each in some)
    for single in (True, False):
        np.testing.assert_array_equal(filtered(single, alone)[0][0], filtered(single, some)[0][40])


def by_isa(function: Callable[[], Any]) -> list[Any]:
    """What a function gives under each instruction set."""
    before, found = kernels.isa(), []
    for name in kernels.isas():
        kernels.use_isa(name)
        found.append(function())
    kernels.use_isa(before)
    return found


@pytest.mark.parametrize(
    ("place", "wrong", "error"),
    [
        (0, np.zeros((3, 5)), "packed must have"),
        (0, np.zeros((2, 6)), "packed must have length 3"),
        (0, np.zeros((3, 12))[:, ::2], "packed must be contiguous"),
        (1, np.zeros((3, 0)), "b must have"),
        (2, np.zeros(4), "alpha must have length 3"),
        (3, -1.0, "ridge"),
        (3, np.nan, "ridge"),
        (4, None, "scale and shared"),
        (5, np.zeros(5), "shared must have length 6"),
    ],
)
def test_wrong_calls_are_refused(place: int, wrong: Any, error: str) -> None:
    some: list[Any] = list(systems(3, 3))
    some[place] = wrong
    with pytest.raises(ValueError, match=error):
        filtered(True, some)
    with pytest.raises(TypeError, match="packed must be of dtype float64"):
        filtered(True, (some[0].astype(np.float32), *some[1:]))


@pytest.mark.parametrize("single", [True, False])
def test_ctrl_c_ends_a_long_solve_soon(single: bool) -> None:
    some = systems(64, 256)
    before = filtered(single, systems(3, 5))[0]
    # The kernel looks every 50 ms; the rest is for a machine that is busy with other things.
    assert seconds_to_end(lambda: filtered(single, some)) < 0.25 + 0.5
    np.testing.assert_array_equal(filtered(single, systems(3, 5))[0], before)
