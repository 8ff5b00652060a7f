"""The bounds hold exactly, in rational arithmetic, for whatever comes in."""

import copy
import math
from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import apportion as ap
from apportion.allocation.scaling import clipped, normalized
from apportion.privacy import (
    UserBound,
    UserWeights,
    clip_rows,
    clip_values,
    scale_down,
    short_rows,
)
from apportion.privacy.bounds import blocks_of_users, row_norms

finite = st.floats(allow_nan=False, allow_infinity=False)
bounds = st.floats(1e-100, 1e100)


def norm_squared(values: np.ndarray) -> Fraction:
    return sum((Fraction(float(value)) ** 2 for value in values), Fraction(0))


@given(
    hnp.arrays(np.float64, st.tuples(st.integers(0, 4), st.integers(1, 5)), elements=finite), bounds
)
def test_clipped_rows_are_within_the_bound(rows: np.ndarray, bound: float) -> None:
    for row in clip_rows(rows, bound):
        assert norm_squared(row) <= Fraction(bound) ** 2


def test_long_rows_keep_a_distance_from_the_bound() -> None:
    # Whatever comes after rounds in 64 bits: 1e-9 is left for it, and no more.
    rows = np.random.default_rng(0).normal(size=(300, 7)) * 1e3
    for row in clip_rows(rows, 0.7):
        assert norm_squared(row) <= (Fraction(0.7) * (1 - Fraction(99, 10**11))) ** 2
        assert norm_squared(row) >= (Fraction(0.7) * (1 - Fraction(101, 10**11))) ** 2
    factors = scale_down(np.linspace(0.8, 1e6, 300), 0.7)
    for factor, norm in zip(factors, np.linspace(0.8, 1e6, 300), strict=True):
        part = Fraction(float(factor)) * Fraction(float(norm)) / Fraction(0.7)
        assert 1 - Fraction(101, 10**11) <= part <= 1 - Fraction(99, 10**11)


def test_short_rows_stay_and_long_rows_keep_their_direction() -> None:
    rows = np.array([[0.3, 0.4], [30.0, 40.0], [0.0, 0.0]])
    np.testing.assert_allclose(
        clip_rows(rows, 1.0), [[0.3, 0.4], [0.6, 0.8], [0.0, 0.0]], rtol=1e-8
    )


@given(hnp.arrays(np.float64, 5, elements=finite), bounds)
def test_clipped_values_are_within_the_bound(values: np.ndarray, bound: float) -> None:
    assert (np.abs(clip_values(values, bound)) <= bound).all()


@pytest.mark.parametrize("values", [[-2.0, 0.5], [0.5, 2.0], [1.0, 1.5], [-0.0], []])
def test_values_within_the_bound_are_not_copied(values: list[float]) -> None:
    given = np.array(values)
    assert clip_values(given, 2.0) is given
    small = given / 8
    assert clip_values(small, 0.25) is small


def test_values_beyond_the_bound_become_the_bound_and_others_stay() -> None:
    found = clip_values(np.array([-7.0, -0.5, 0.0, np.nan, 1.5, 7.0, np.inf]), 2.0)
    np.testing.assert_array_equal(found, [-2.0, -0.5, 0.0, np.nan, 1.5, 2.0, 2.0])


def test_rows_at_the_limit_are_not_copied() -> None:
    limit = 0.7 * (1 - 1e-9)
    rows = np.array([[limit], [0.1], [-limit]])
    assert clip_rows(rows, 0.7) is rows
    rows[2] = np.nextafter(limit, 1)
    assert clip_rows(rows, 0.7) is not rows


def test_scaling_down() -> None:
    factors = scale_down(np.array([4.0, 2.0, 1.0, 0.0, 1e200, np.inf, np.nan, 5e-324]), 2.0)
    np.testing.assert_allclose(factors, [0.5, 1, 1, 1, 2e-200, 0, 1, 1], rtol=1e-8)
    assert factors[0] < 0.5  # with a margin
    assert factors[1] < 1
    assert (factors[2:4] == 1).all()
    assert scale_down(np.zeros(0), 1.0).shape == (0,)


@given(hnp.arrays(np.float64, 6, elements=st.floats(0, 1e300)), bounds)
@example(np.full(6, 3.7726295404939704e223), 1e-100)  # the factor is too small for all its digits
@example(np.full(6, 2.9407587527500118e299), 1.4180552788175596e-17)
@settings(derandomize=True, max_examples=300, deadline=None)
def test_scaled_norms_are_within_the_bound(norms: np.ndarray, bound: float) -> None:
    factors = scale_down(norms, bound)
    assert ((factors >= 0) & (factors <= 1)).all()
    for norm, factor in zip(norms, factors, strict=True):
        assert Fraction(float(norm)) * Fraction(float(factor)) <= Fraction(bound)
        assert factor == 1 or norm > bound * (1 - 2e-9)


def test_scaling_down_leaves_the_norms_alone() -> None:
    norms = np.array([4.0, 1.0])
    scale_down(norms, 2.0)
    assert norms.tolist() == [4.0, 1.0]


class TestPartNorms:
    weights = UserWeights(
        np.array([0, 0, 2]), np.array([0, 1, 1]), np.array([0.6, 0.8, 0.5]) * (1 - 1e-9)
    )

    def test_known_answer(self) -> None:
        norms = self.weights.part_norms(np.array([5.0, -5.0, 3.0]))
        np.testing.assert_allclose(norms, [5.0, 0.0, 1.5])
        assert self.weights.part_norms(np.array([0.0, 10.0, 0.0])) == pytest.approx([8.0, 0.0, 0.0])

    def test_the_least_length(self) -> None:
        values = np.array([5.0, -5.0, 3.0])
        for users, length in ((0, 3), (2, 3), (3, 3), (5, 5)):
            assert len(self.weights.part_norms(values, users)) == length
        assert self.weights.part_norms(values, 5)[3:].tolist() == [0.0, 0.0]
        nobody = UserWeights(np.zeros(0, int), np.zeros(0, int), np.zeros(0))
        assert nobody.part_norms(np.zeros(0), 2).tolist() == [0.0, 0.0]

    def test_squares_beyond_numbers(self) -> None:
        norms = self.weights.part_norms(np.array([1e200, 1.0, 3.0]))
        assert norms.tolist() == [np.inf, 0.0, pytest.approx(1.5)]
        norms = self.weights.part_norms(np.array([1e-200, -1e-200, 1e150]))
        assert norms.tolist() == [0.0, 0.0, pytest.approx(5e149)]

    @given(
        hnp.arrays(np.float64, 3, elements=st.floats(-1e250, 1e250)),
        st.floats(1e-100, 1e100),
    )
    @settings(derandomize=True, max_examples=300, deadline=None)
    def test_scaled_down_parts_are_within_the_bound(self, values: np.ndarray, bound: float) -> None:
        weights = self.weights
        factors = scale_down(weights.part_norms(values), bound)
        parts = weights.values * (values * factors[weights.user])
        for user in (0, 2):
            assert norm_squared(parts[weights.user == user]) <= Fraction(bound) ** 2


@pytest.mark.parametrize("bound", [0, -1.0, np.nan, np.inf, "1", None, True])
def test_bad_bounds(bound: float) -> None:
    with pytest.raises(ap.ParameterError, match="bound must be"):
        scale_down(np.ones(1), bound)
    with pytest.raises(ap.ParameterError, match="bound must be"):
        clip_rows(np.ones((1, 1)), bound)
    with pytest.raises(ap.ParameterError, match="bound must be"):
        clip_values(np.ones(1), bound)


INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_weights_do_not_wrap_when_they_are_squared(dtype: type) -> None:
    # 16 squared is nothing in 8 bits, 256 in 16, 2^32 in 64.
    half = 2 ** (np.iinfo(dtype).bits // 2)
    for weight in (half, half // 2, 2):
        with pytest.raises(ap.ReleaseError, match="pass its budget"):
            UserWeights(np.zeros(1, int), np.zeros(1, int), np.array([weight], dtype=dtype))
    weights = UserWeights(np.zeros(1, int), np.zeros(1, int), np.array([1], dtype=dtype))
    assert weights.values.dtype == np.float64


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_weights_are_squared_in_64_bits(dtype: type) -> None:
    # A thousand weights whose squares round down, or vanish, in short numbers.
    weight: np.ndarray = np.array(np.full(1000, 0.0317), dtype=dtype)
    assert np.sum(weight.astype(float) ** 2) > 1
    with pytest.raises(ap.ReleaseError, match="pass its budget"):
        UserWeights(np.zeros(1000, int), np.arange(1000), weight)
    for make in (normalized, clipped):
        found = make(np.zeros(1000, int), np.arange(1000), weight)
        assert found.values.dtype == np.float64
        assert spent(found)[0] <= 1


@pytest.mark.parametrize("name", ["user", "task", "values"])
def test_weights_are_nobody_elses(name: str) -> None:
    given = {
        "user": np.array([0, 0, 1]), "task": np.array([0, 1, 1]), "values": np.array([0.6, 0.8, 1.0])
    }  # fmt: skip
    base = given[name]
    view = base[:]
    view.flags.writeable = False
    weights = UserWeights(**{**given, name: view})
    base[:] = 9
    assert spent(weights) == {0: Fraction(0.6) ** 2 + Fraction(0.8) ** 2, 1: 1}
    for array in (weights.user, weights.task, weights.values):
        assert not array.flags.writeable
        assert array.base is None


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy])
def test_copies_of_weights_are_as_fixed(make: Any) -> None:
    weights = make(UserWeights(np.array([0, 0]), np.array([0, 1]), np.array([0.6, 0.8])))
    assert weights.values.tolist() == [0.6, 0.8]
    for array in (weights.user, weights.task, weights.values):
        assert not array.flags.writeable


@pytest.mark.parametrize(
    "wrong", [np.array([0.0, np.nan]), np.array(["a", "b"]), np.ones((2, 1), int)]
)
def test_users_and_tasks_are_whole_numbers(wrong: np.ndarray) -> None:
    # A task that is not a number is another one each time: a repeated pair would not be seen.
    good, raw = np.array([0, 1]), np.array([0.1, 0.1])
    for pair in ((wrong, good), (good, wrong)):
        with pytest.raises(ap.ReleaseError, match="whole numbers"):
            UserWeights(*pair, raw)
        with pytest.raises(ap.ReleaseError, match="whole numbers"):
            normalized(*pair, raw)


def test_users_of_short_integers_are_told_apart() -> None:
    user = np.array([0, 100, 127], dtype=np.int8)
    weights = UserWeights(user, np.zeros(3, np.int8), np.ones(3))
    assert spent(weights) == {0: 1, 100: 1, 127: 1}
    with pytest.raises(ap.ReleaseError, match="numbered from 0"):
        UserWeights(np.array([-128, 127], dtype=np.int8), np.zeros(2, int), np.ones(2))


@pytest.mark.parametrize("dtype", [np.complex128, np.longdouble, object])
def test_weights_of_other_types_are_refused(dtype: type) -> None:
    for make in (UserWeights, normalized, clipped):
        with pytest.raises(ap.ReleaseError, match="numbers of at most 64 bits"):
            make(np.zeros(1, int), np.zeros(1, int), np.ones(1, dtype=dtype))


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.float16, np.float32])
def test_norms_of_short_numbers(dtype: type) -> None:
    rows: np.ndarray = np.array([[-100, 100, 100], [3, 4, 0]], dtype=dtype)
    np.testing.assert_allclose(row_norms(rows), [math.sqrt(30000), 5.0], rtol=1e-12)
    if dtype == np.int8:
        assert row_norms(np.array([[-128]], dtype=dtype)) == 128.0
    np.testing.assert_array_equal(clip_rows(rows, 1.0), clip_rows(rows.astype(float), 1.0))


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32])
def test_factors_of_short_norms(dtype: type) -> None:
    # In the norms' own type the limit would be rounded, and with it the factor.
    norms: np.ndarray = np.array([3, 100, 127], dtype=dtype)
    for factor, norm in zip(scale_down(norms, 2.9999), norms, strict=True):
        assert Fraction(float(factor)) * Fraction(float(norm)) <= Fraction(2.9999)


@st.composite
def weighted_pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    pairs = sorted(draw(st.sets(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=40)))
    size = len(pairs)
    raw = draw(hnp.arrays(np.float64, size, elements=st.floats(0, 1e300)))
    array = np.array(pairs, dtype=np.int64).reshape(size, 2)
    return array[:, 0], array[:, 1], raw


def spent(weights: UserWeights) -> dict[int, Fraction]:
    total: dict[int, Fraction] = defaultdict(Fraction)
    for user, value in zip(weights.user, weights.values, strict=True):
        total[int(user)] += Fraction(float(value)) ** 2
    return total


@given(weighted_pairs())
def test_no_user_passes_its_budget(pairs: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    for make in (normalized, clipped):
        assert all(total <= 1 for total in spent(make(*pairs)).values())


@given(weighted_pairs())
def test_normalizing_spends_the_whole_budget(
    pairs: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    user, _, raw = pairs
    for who, total in spent(normalized(*pairs)).items():
        if raw[user == who].max() > 0:
            assert total > 1 - 1e-8


def test_clipping_leaves_users_below_their_budget_alone() -> None:
    user, task = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    weights = clipped(user, task, np.array([0.3, 0.4, 3.0, 4.0]))
    np.testing.assert_allclose(weights.values, [0.3, 0.4, 0.6, 0.8], rtol=1e-8)


@pytest.mark.parametrize(
    ("user", "task", "raw"),
    [
        ([0, 0], [1, 1], [0.5, 0.5]),  # a repeated pair
        ([1, 0], [0, 0], [0.5, 0.5]),  # not sorted: a repetition could hide
        ([0, 0], [1, 0], [0.5, 0.5]),
        ([0, 1, 1], [5, 3, 3], [0.5, 0.5, 0.5]),  # of a later user
        ([0, 2, 1], [0, 0, 0], [0.5, 0.5, 0.5]),
        ([0, 1, 1], [0, 2, 1], [0.5, 0.5, 0.5]),
        ([-1, 0], [0, 0], [0.5, 0.5]),
        ([0], [0], [np.nan]),
        ([0], [0], [np.inf]),
        ([0], [0], [-1.0]),
        ([0], [0, 1], [1.0]),
    ],
)
def test_refused_weights(user: list[int], task: list[int], raw: list[float]) -> None:
    for make in (normalized, clipped, UserWeights):
        with pytest.raises(ap.ReleaseError):
            make(np.array(user), np.array(task), np.array(raw))


def test_weights_over_budget_cannot_be_made() -> None:
    with pytest.raises(ap.ReleaseError, match="pass its budget"):
        UserWeights(np.array([0, 0]), np.array([0, 1]), np.array([0.8, 0.8]))


class TestUsersAtTheEdgeOfABlock:
    """Sums of squares are added up in blocks of pairs; a user's pairs must not be divided among two."""

    EDGE = 2**20

    def pairs(self, edge: int, tasks: int) -> tuple[np.ndarray, np.ndarray]:
        """One user with some tasks around an edge, and users of one task before and after it."""
        before = edge - tasks // 2
        user = np.concatenate(
            [np.arange(before), np.full(tasks, before), before + 1 + np.arange(5)]
        )
        task = np.concatenate([np.zeros(before), np.arange(tasks), np.zeros(5)])
        return user, task.astype(np.int64)

    @pytest.mark.parametrize("edge", [EDGE, 2 * EDGE, 2 * EDGE + 1])
    @pytest.mark.parametrize("tasks", [2, 3])
    def test_a_budget_is_that_of_the_whole_user(self, edge: int, tasks: int) -> None:
        user, task = self.pairs(edge, tasks)
        with pytest.raises(ap.ReleaseError, match="pass its budget"):
            UserWeights(user, task, np.ones(len(user)))
        for scaled in (normalized, clipped):
            squares = np.bincount(user, scaled(user, task, np.ones(len(user))).values ** 2)
            np.testing.assert_allclose(squares, 1.0, rtol=1e-8)

    def test_one_user_may_fill_more_than_a_block(self) -> None:
        task = np.arange(self.EDGE + 7)
        user = np.zeros(len(task), dtype=np.int64)
        fair = np.full(len(task), 1 / math.sqrt(len(task) + 1))
        UserWeights(user, task, fair)
        with pytest.raises(ap.ReleaseError, match="pass its budget"):
            UserWeights(user, task, fair * (1 + 1e-6))


def test_blocks_of_users_are_no_longer_than_they_must() -> None:
    # Sums of squares need memory for one block: 2^20 pairs, or all those of one user.
    edge = 2**20
    alone = np.arange(edge + 1)
    assert [pairs for pairs, _ in blocks_of_users(alone)] == [
        slice(0, edge),
        slice(edge, edge + 1),
    ]
    together = np.repeat([7, 9], [edge + 5, 3])
    assert [own[[0, -1]].tolist() for _, own in blocks_of_users(together)] == [[0, 0], [0, 0]]
    assert next(own[[0, -1]].tolist() for _, own in blocks_of_users(alone + 5)) == [0, edge - 1]
    assert [pairs for pairs, _ in blocks_of_users(together)] == [
        slice(0, edge + 5),
        slice(edge + 5, edge + 8),
    ]


def test_repeated_rows_share_their_pair() -> None:
    weights = normalized(np.array([0, 0]), np.array([0, 1]), np.array([3.0, 4.0]))
    np.testing.assert_allclose(
        weights.per_row(np.array([0, 1, 0, 0, 0])), [0.15, 0.8, 0.15, 0.15, 0.15]
    )


@pytest.mark.parametrize("norm", [-1.0, 0.0, np.inf, np.nan])
def test_impossible_user_bounds(norm: float) -> None:
    with pytest.raises(ap.ParameterError):
        UserBound(norm, "because")


@pytest.mark.parametrize("stretch", [False, True])
@pytest.mark.parametrize("d", [1, 3, 64, 1000])
@pytest.mark.parametrize("size", [1e-300, 1e-3, 1.0, 1e300])
def test_short_rows_stay_within_their_bound(size: float, d: int, stretch: bool) -> None:
    rows = size * np.random.default_rng(d).normal(size=(50, d))
    rows[0] = 0.0
    rows[1] = size  # in every direction alike: most is rounded away, or added
    short, unit = short_rows(rows, 0.7, stretch=stretch)
    assert short.dtype == np.int16
    whole = short.astype(object)
    assert max((whole * whole).sum(axis=1)) <= (2**15 - 1) ** 2
    assert unit * (2**15 - 1) == pytest.approx(0.7)
    assert not short[0].any()
    expected = clip_rows(rows, 0.7 * (1 - math.sqrt(d) / 2 / (2**15 - 1)))
    norms = np.linalg.norm(short[1:] * unit, axis=1)
    if stretch:
        assert (norms > 0.7 * (1 - math.sqrt(d) / (2**15 - 1)) - 1e-9).all()
    else:
        np.testing.assert_allclose(short * unit, expected, atol=unit / 2 * (1 + 1e-9))


@pytest.mark.parametrize(("d", "most"), [(1, 32766), (49, 4680)])
def test_what_is_half_way_between_two_units_is_on_the_safe_side(d: int, most: int) -> None:
    # The bound less what rounding adds is 32766.5 units of one number, 4680.5 of each of 49.
    short, _ = short_rows(np.full((1, d), 5.0), 1.0)
    assert (short == most).all()


@pytest.mark.parametrize("bound", [1e-100, 1e-3, 1.0, 1.5, 2.0, 1e100])
@pytest.mark.parametrize("mu", [1e-9, 1e-3, 1.0, 1e6])
def test_the_grid_is_a_power_of_two_fine_against_bound_and_noise(bound: float, mu: float) -> None:
    grid = UserBound(bound, "for example").grid(mu)
    assert math.frexp(grid)[0] == 0.5
    assert bound / grid < 2**26
    assert bound / grid >= 2**25 or bound / mu / grid >= 2**49
    assert bound / mu / grid < 2**50 or bound / grid >= 2**25


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("stretch", [True, False])
def test_rows_without_a_norm_give_zeros(wrong: float, stretch: bool) -> None:
    # NaN has no order: such a row would pass as if it were short, with all its other numbers.
    rows = np.array([[1.0, 2.0, 2.0], [wrong, 5.0, 5.0], [3.0, 0.0, 4.0]])
    short, _ = short_rows(rows, 1.0, stretch=stretch)
    assert short[1].tolist() == [0, 0, 0]
    others, _ = short_rows(rows[[0, 2]], 1.0, stretch=stretch)
    np.testing.assert_array_equal(short[[0, 2]], others)


@pytest.mark.parametrize("d", [1, 2, 3, 8, 17, 64])
def test_how_a_row_rounds_depends_on_that_row_alone(d: int) -> None:
    # One user more or less must not move another's part by a last bit, however rows lie in memory.
    rows = np.random.default_rng(d).normal(size=(200, d))
    for bound in (row_norms, lambda rows: clip_rows(rows, 0.5)):
        together = bound(rows)
        np.testing.assert_array_equal(bound(np.asfortranarray(rows)), together)
        for first in (0, 1, 63, 199):
            for some in (rows[first:], np.asfortranarray(rows[first:]), rows[first : first + 1]):
                np.testing.assert_array_equal(bound(some), together[first : first + len(some)])
    short, _ = short_rows(rows, 1.0, stretch=True)
    alone = [short_rows(row[None], 1.0, stretch=True)[0][0] for row in rows]
    np.testing.assert_array_equal(short, alone)
