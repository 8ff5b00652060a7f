"""The rules by which a user's part becomes whole numbers, in exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from apportion.privacy import rounding
from apportion.privacy.bounds import ROUNDING, UserBound, short_rows
from apportion.privacy.rounding import LONGEST

ODD = [0.0, -0.0, 5e-324, -1e-310, 1e300, -1e308, np.inf, -np.inf, np.nan]
# What any bound and any budget give: powers of two.
grids = st.integers(-300, 300).map(lambda power: 2.0**power)
numbers = st.floats() | st.sampled_from(ODD)


def square(whole: np.ndarray) -> int:
    """The squared norm of whole numbers."""
    return sum(int(each) ** 2 for each in whole.ravel())


@given(hnp.arrays(np.float64, 8, elements=numbers), grids)
@example(np.array([0.3, -0.3, 0.5, 0.25, -0.25, 2.0**26, 2.0**25 * (1 + 2e-16), 1.0]), 0.25)
@settings(derandomize=True, max_examples=300, deadline=None)
def test_truncated_numbers_are_never_larger(values: np.ndarray, grid: float) -> None:
    units = rounding.truncated(values, grid)
    assert units.dtype == np.int64
    for value, whole in zip(values, units.tolist(), strict=True):
        if not math.isfinite(value) or abs(Fraction(value)) >= Fraction(grid) * 2**28:
            assert whole == 0
        else:
            assert whole == int(Fraction(value) / Fraction(grid))  # toward zero


def test_truncated_numbers_of_32_bits_are_as_good() -> None:
    values = np.array([0.3, -7.9, 2.0], dtype=np.float32)
    assert rounding.truncated(values, 0.5).tolist() == [0, -15, 4]


def hard_features(d: int, rng: np.random.Generator) -> np.ndarray:
    """Rows at their bound and far below it: equal numbers, one number, numbers next to nothing."""
    rows = rng.normal(size=(40, d)) * rng.lognormal(0.0, 3.0, (40, 1))
    rows[0], rows[1], rows[2], rows[3] = 1.0, 0.0, -1e9, np.eye(d)[-1] * 1e250
    rows[4] = 1.0 / LONGEST
    return rows


@pytest.mark.parametrize("d", [1, 2, 15, 64, 300])
@pytest.mark.parametrize("mu", [1e-9, 1e-3, 1.0, 1e6])
def test_square_roots_stand_for_no_more_than_their_weight(d: int, mu: float) -> None:
    """|z z'|_F = |z|^2 <= w G^2 / grid, up to the rounding that the sensitivity includes."""
    rng = np.random.default_rng(d)
    for bound in (0.7, 1e-30, 3e40):
        features, unit = short_rows(hard_features(d, rng) * bound, bound, stretch=True)
        grid = UserBound(bound * bound, "x x'").grid(mu)
        limit = Fraction(bound) ** 2 * (1 + Fraction(ROUNDING)) / Fraction(grid)
        for weight in (1.0, 0.3, d * 2.0**-26, 1e-9, 0.0):
            roots = rounding.roots_of_weights(np.full(len(features), weight), unit, d, grid)
            z = rounding.square_roots(features, roots)
            assert z.dtype == np.int64
            for row in z:
                assert square(row) <= Fraction(weight) * limit
            assert weight or not z.any()


@pytest.mark.parametrize("d", [1, 2, 15, 64, 300])
@pytest.mark.parametrize("mu", [1e-9, 1e-3, 1.0, 1e6])
def test_right_hand_sides_are_no_longer_than_their_bound(d: int, mu: float) -> None:
    """|trunc(f x)| <= w |y| G / grid, up to the rounding that the sensitivity includes."""
    rng = np.random.default_rng(d)
    for G, L in ((0.7, 1.3), (1e-30, 1e20), (1e30, 1e-40)):
        features, unit = short_rows(hard_features(d, rng) * G, G, stretch=True)
        grid = UserBound(G * L, "y x").grid(mu)
        for weight in (1.0, 0.3, 1e-9, 0.0):
            for label in (L, -L, L / 3, 0.0):
                factor = np.full(len(features), weight * label * (unit / grid))
                parts = rounding.right_hand_sides(features, factor)
                most = Fraction(weight) * abs(Fraction(label)) * Fraction(G) / Fraction(grid)
                for row in parts:
                    assert square(row) <= (most * (1 + Fraction(ROUNDING))) ** 2


@pytest.mark.parametrize("factor", [*ODD, 2.0**60, 1e40, -1e40])
def test_factors_that_no_bounded_row_has_give_nothing_or_little(factor: float) -> None:
    features = np.array([[0, 0, 0], [1, -1, 0], [LONGEST, 0, 0]], dtype=np.int16)
    parts = rounding.right_hand_sides(features, np.full(3, factor))
    assert not parts[0].any()  # features of zero have any factor
    assert np.abs(parts).max() < 2**31


@given(
    hnp.arrays(np.float64, (3, 4), elements=st.floats(-1e200, 1e200) | st.sampled_from([0.0])),
    hnp.arrays(np.float64, 3, elements=st.floats(-1e200, 1e200) | st.sampled_from(ODD)),
    st.integers(-60, 60).map(lambda power: 2.0**power),
)
@settings(derandomize=True, max_examples=200, deadline=None)
def test_gradients_are_no_longer_than_slope_times_features(
    features: np.ndarray, slope: np.ndarray, grid: float
) -> None:
    with np.errstate(under="ignore"):
        parts = rounding.gradients(features, slope, grid)
    assert np.abs(parts).max() < 2**28
    for x, s, row in zip(features, slope, parts, strict=True):
        if not math.isfinite(s):
            assert not row[x == 0].any()
            continue
        for number, whole in zip(x, row.tolist(), strict=True):
            # The product is rounded as 64-bit numbers are: the margin of clipped gradients covers that.
            exact = abs(Fraction(s) * Fraction(number) / Fraction(grid)) * (1 + Fraction(1, 2**50))
            assert abs(whole) <= exact
            assert abs(whole) in (0, math.floor(exact), math.floor(exact) - 1)


def test_parts_that_no_bounded_gradient_has_give_nothing() -> None:
    slope = np.array([2.0**28, -(2.0**28), 2.0**28 - 0.5, 1e300])
    parts = rounding.gradients(np.ones((4, 1)), slope, 1.0)
    assert parts[:, 0].tolist() == [0, 0, 2**28 - 1, 0]
    assert rounding.truncated(slope, 1.0).tolist() == [0, 0, 2**28 - 1, 0]


def test_slopes_that_are_no_numbers_are_not_used() -> None:
    slope = np.array([1.0, np.nan, np.inf, -np.inf, 2.0, 3.0])
    norm = np.array([1.0, 1.0, 1.0, 1.0, 1e-151, 1e-150])
    assert rounding.usable_slopes(slope, norm).tolist() == [1.0, 0.0, 0.0, 0.0, 0.0, 3.0]


@given(
    hnp.arrays(np.float64, 5, elements=st.floats(-1e300, 1e300)),
    hnp.arrays(np.float64, 5, elements=st.floats(1e-100, 1e100)),
    st.floats(1e-50, 1e50),
)
@settings(derandomize=True, max_examples=200, deadline=None)
def test_shortened_slopes_are_within_the_bound(
    slope: np.ndarray, norm: np.ndarray, bound: float
) -> None:
    with np.errstate(over="ignore", under="ignore"):
        excess = np.abs(slope) * (norm / bound)
    for short, s, size in zip(rounding.shortened(slope, excess), slope, norm, strict=True):
        assert abs(short) <= abs(s)
        assert abs(Fraction(short)) * Fraction(size) <= Fraction(bound) * (1 + Fraction(1, 10**12))
        if abs(Fraction(s)) * Fraction(size) < Fraction(bound) * (1 - Fraction(1, 10**12)):
            assert short == s


def test_what_a_row_gives_follows_from_that_row_alone() -> None:
    rng = np.random.default_rng(1)
    features, unit = short_rows(rng.normal(size=(30, 9)), 1.0)
    weight, factor = rng.uniform(size=30), rng.normal(size=30) * 1e4
    roots = rounding.roots_of_weights(weight, unit, 9, 2.0**-25)
    together = rounding.square_roots(features, roots), rounding.right_hand_sides(features, factor)
    for row in range(30):
        own = slice(row, row + 1)
        root = rounding.roots_of_weights(weight[own], unit, 9, 2.0**-25)
        alone = (
            rounding.square_roots(features[own], root),
            rounding.right_hand_sides(features[own], factor[own]),
        )
        for one, all_ in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one[0], all_[row])
