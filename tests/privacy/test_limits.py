"""What the kernel accepts ends exactly where its proofs do, and what it accepts becomes plain numbers."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.privacy import (
    Curator,
    Part,
    PrivacyTarget,
    Record,
    UserBound,
    clip_rows,
    clip_values,
    delta_from_epsilon,
    epsilon_from_mu,
    mu_from_epsilon,
    records_of,
    scale_down,
    short_rows,
)
from apportion.privacy.bounds import ROUNDING
from apportion.privacy.discrete import Scales

ONE = np.ones((1, 1))
BOUND = UserBound(1.0, "for example")
PART = Part("A", "sums", BOUND)


def record(**changed: Any) -> Record:
    given = {"name": "A", "what": "sums", "shape": (1,), "because": "for example"}
    return Record(**{**given, "sensitivity": 1.0, "noise_scale": 1.0, **changed})


# What takes a number, the smallest and the largest that it takes.
CLOSED: dict[str, tuple[Callable[[float], object], float, float]] = {
    "a user's bound": (lambda x: UserBound(x, ""), 1e-200, 1e200),
    "clip_rows": (lambda x: clip_rows(ONE, x), 1e-100, 1e100),
    "short_rows": (lambda x: short_rows(ONE, x), 1e-100, 1e100),
    "clip_values": (lambda x: clip_values(ONE, x), 1e-100, 1e100),
    "scale_down": (lambda x: scale_down(ONE[0], x), 1e-100, 1e100),
    "epsilon": (lambda x: mu_from_epsilon(x, 1e-5), 1e-6, 1e6),
    "delta": (lambda x: mu_from_epsilon(1.0, x), 1e-100, 0.9),
    "delta of mu": (lambda x: epsilon_from_mu(1.0, x), 1e-100, 0.9),
    "mu": (lambda x: epsilon_from_mu(x, 1e-5), 0.0, 1e6),
    "mu at an epsilon": (lambda x: delta_from_epsilon(1.0, x), 0.0, 1e6),
    "a record's grid": (lambda x: record(grid=x), 0.0, 1e300),
    "a variance": (lambda x: Scales.of(np.array([x])), 1.0, math.nextafter(2.0**104, 0)),
}
# The same where the ends themselves are refused.
OPEN: dict[str, tuple[Callable[[float], object], float, float]] = {
    "a sensitivity": (lambda x: record(sensitivity=x), 0.0, math.nextafter(1e300, math.inf)),
    "a noise scale": (lambda x: record(noise_scale=x), 0.0, math.nextafter(1e300, math.inf)),
    "a sampling rate": (lambda x: record(sampling_rate=x), 0.0, math.nextafter(1.0, 2)),
    "a record's delta": (lambda x: record(delta=x), -5e-324, 1.0),
    "a release's cost": (lambda x: records_of("A", [PART], 1, x), 0.0, math.nextafter(1e100, math.inf)),
    "a release's rate": (
        lambda x: records_of("A", [PART], 1, 1.0, sampling_rate=x), 0.0, math.nextafter(1.0, 2),
    ),
    "a share": (lambda x: records_of("A", [PART], 1, 1.0, [x]), 0.0, 1e100),
    "selection_delta": (lambda x: PrivacyTarget(1.0, 1e-5, x), -5e-324, 1e-5),
}  # fmt: skip


@pytest.mark.parametrize("name", CLOSED)
def test_ends_are_taken_and_what_is_beyond_is_not(name: str) -> None:
    take, low, high = CLOSED[name]
    take(low)
    take(high)
    for beyond in (math.nextafter(low, -math.inf), math.nextafter(high, math.inf)):
        with pytest.raises((ap.ParameterError, ap.ReleaseError)):
            take(beyond)


@pytest.mark.parametrize("name", OPEN)
def test_what_is_next_to_an_end_is_taken_and_the_end_is_not(name: str) -> None:
    take, low, high = OPEN[name]
    take(math.nextafter(high, 0))
    take(max(0.0, 1e-90 if low == 0 else low))
    for end in (low, high):
        with pytest.raises(ap.ParameterError):
            take(end)


@pytest.mark.parametrize(
    ("name", "take"),
    [
        ("steps", lambda n: record(steps=n)),
        ("steps of a release", lambda n: records_of("A", [PART], 1, 1.0, steps=n)),
    ],
)
def test_there_is_at_least_one_step(name: str, take: Callable[[int], object]) -> None:
    take(1)
    with pytest.raises(ap.ParameterError, match="steps"):
        take(0)


def test_a_release_may_have_no_tasks_and_no_columns() -> None:
    [empty] = records_of("A", [Part("A", "sums", BOUND, width=0)], 0, 1.0)
    assert empty.shape == (0, 0)
    with pytest.raises(ap.ParameterError, match="tasks"):
        records_of("A", [PART], -1, 1.0)
    with pytest.raises(ap.ParameterError, match="width"):
        Part("A", "sums", BOUND, width=-1)


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.uint8, int])
def test_numbers_become_plain(kind: Any) -> None:
    one = kind(1)
    for number in (
        UserBound(one, "").norm,
        record(sensitivity=one).sensitivity,
        record(noise_scale=one).noise_scale,
        record(sampling_rate=one).sampling_rate,
        record(grid=one).grid,
        PrivacyTarget(one, 1e-5).epsilon,
        PrivacyTarget(math.inf, kind(1) * 0.5).delta,
        PrivacyTarget(one, 1e-5, kind(0)).selection_delta,
    ):
        assert type(number) is float
    if kind is not np.float32:
        assert type(record(steps=one).steps) is int
        assert type(Part("A", "", BOUND, width=one).width) is int


def test_what_rounding_adds_to_a_sensitivity() -> None:
    # A part of 32-bit products may pass its bound by some 2^-24: sixteen of these are paid for.
    assert ROUNDING == 2.0**-20
    assert PART.record("A", 1, 0.5).sensitivity == 1 + 2.0**-20
    assert PART.record("A", 1, 0.5).noise_scale == 2 * (1 + 2.0**-20)


def test_the_grid_where_noise_is_beyond_all_measure() -> None:
    assert BOUND.grid(1.0) == 2.0**-25
    assert BOUND.grid(8.0) == 2.0**-25
    assert BOUND.grid(2.0**-40) == 2.0**-9  # noise of 2^40 has at most 2^50 units
    assert UserBound(3.0, "").grid(2.0**-40) == 2.0**-8


def test_the_longest_whole_rows_that_rounding_could_lengthen() -> None:
    # All numbers of a row round up together: sqrt(d) / 2 units must be left for that.
    for d in range(1, 700):
        row = np.full((1, d), 1e6)
        short, _ = short_rows(row, 1.0)
        whole = short.astype(np.int64)
        assert np.sum(whole * whole) <= (2**15 - 1) ** 2
        assert np.sqrt(np.sum(whole * whole)) >= 2**15 - 1 - math.sqrt(d) - 1e-3


def test_costs_of_parts_and_steps_add_up_to_that_of_the_release() -> None:
    parts = [PART, Part("b", "sums", UserBound(5.0, ""))]
    records = records_of("x", parts, 3, 0.7, [3.0, 1.0], steps=9)
    assert [each.name for each in records] == ["x.A", "x.b"]
    assert records[0].mu ** 2 == pytest.approx(0.49 * 0.75)
    assert records[1].mu ** 2 == pytest.approx(0.49 * 0.25)
    assert records[0].noise_scale / records[0].sensitivity == pytest.approx(
        3 / 0.7 / math.sqrt(0.75)
    )
    whole = records_of("x", parts, 3, 0.7)
    assert whole[0].mu == pytest.approx(whole[1].mu)


def test_a_curator_of_no_privacy_pays_with_nothing() -> None:
    with pytest.raises(ap.ParameterError, match="mu of a release"):
        Curator(PrivacyTarget(math.inf, 1e-5)).open("A", [PART], 1, math.inf)
