"""What trainings cost, as records: exact figures, and what covers what."""

import math
from dataclasses import replace

import pytest

from apportion.accounts.costs import (
    covers,
    gaussian_cost,
    merged,
    part_of_cost,
    sampled_cost,
    whole_cost,
)
from apportion.privacy import PrivacyTarget, Record

TARGET = PrivacyTarget(1.0, 1e-5, 4e-6)
MORE = 1 + 2e-12  # shares that are added up again may round
CLOSE = 1e-14


def release(name: str, mu: float, delta: float = 0.0) -> Record:
    return Record(name, "sums", (3,), 2.0 * mu, "given", 2.0, delta=delta)


def test_a_whole_training_costs_its_target() -> None:
    [whole] = whole_cost(TARGET)
    assert whole.mu == pytest.approx(TARGET.mu * MORE, rel=CLOSE, abs=0)
    assert (whole.delta, whole.steps, whole.sampling_rate) == (4e-6, 1, 1.0)
    assert (whole.name, whole.what, whole.noise_scale) == ("all", "Gaussian releases", 1.0)


def test_what_is_paid_is_taken_off_in_squares() -> None:
    paid = [release("a", 0.3 * TARGET.mu, 1e-6), release("b", 0.4 * TARGET.mu, 2e-6)]
    [rest] = whole_cost(TARGET, paid)
    assert rest.mu == pytest.approx(TARGET.mu * math.sqrt(0.75), rel=1e-9, abs=0)
    assert rest.delta == pytest.approx(1e-6, rel=1e-9, abs=0)


@pytest.mark.parametrize("mu", [0.999, 0.9999999])
def test_what_is_nearly_paid_leaves_no_less_than_nothing(mu: float) -> None:
    [rest] = whole_cost(TARGET, [release("a", mu * TARGET.mu, 5e-6)])
    assert rest.mu == pytest.approx(TARGET.mu * math.sqrt(1 - mu**2), rel=1e-4)
    assert rest.delta == 0.0


def test_a_part_costs_its_share_of_the_square_and_all_of_the_delta() -> None:
    [part] = part_of_cost(TARGET, 0.25)
    assert part.mu == pytest.approx(TARGET.mu / 2 * MORE, rel=CLOSE, abs=0)
    assert part.delta == 4e-6


def test_sampled_steps_cost_as_much_together_as_if_all_took_part() -> None:
    cost = sampled_cost(0.6, 9, 0.1)
    assert cost.mu == pytest.approx(0.6 * MORE, rel=CLOSE, abs=0)
    assert cost.sensitivity / cost.noise_scale == pytest.approx(0.2 * MORE, rel=CLOSE, abs=0)
    assert (cost.name, cost.steps, cost.sampling_rate, cost.delta) == ("steps", 9, 0.1, 0.0)


def test_releases_to_all_users_are_one_cost_and_samples_stay() -> None:
    steps, others = sampled_cost(0.6, 9, 0.1), sampled_cost(0.6, 9, 0.2)
    plain = [release("a", 0.3, 1e-6), release("b", 0.4, 2e-6)]
    whole, *rest = merged([plain[0], steps, plain[1], others])
    assert rest == [steps, others]
    assert whole.mu == pytest.approx(0.5, rel=CLOSE, abs=0)
    assert whole.delta == pytest.approx(3e-6, rel=CLOSE, abs=0)
    assert merged([steps]) == [steps]
    assert merged([]) == []


def test_what_is_reserved_covers_that_and_no_more() -> None:
    whole = gaussian_cost(0.5, 3e-6)
    plain = [release("a", 0.3, 1e-6), release("b", 0.4, 2e-6)]
    assert covers([whole], plain)
    assert covers([whole], [])
    assert not covers([], plain[:1])
    assert not covers([whole], [*plain, release("c", 1e-6)])
    assert not covers([whole], [*plain, release("c", 1e-12, 1e-9)])
    assert covers([gaussian_cost(1.0)], [gaussian_cost(1.0 + 1e-15)])
    assert not covers([whole], [gaussian_cost(0.5 * (1 + 1.3e-15), 3e-6)])
    assert not covers([whole], [gaussian_cost(0.5, math.nextafter(3e-6, 1))])


def test_sampled_steps_are_covered_release_for_release() -> None:
    steps = sampled_cost(0.6, 9, 0.1)
    assert covers([gaussian_cost(0.1), steps], [steps])
    assert not covers([steps], [steps, replace(steps, name="again")])
    assert covers([steps, steps], [steps, replace(steps, name="again")])
    for other in (
        replace(steps, steps=8),
        replace(steps, sampling_rate=0.09),
        replace(steps, sensitivity=1.01 * steps.sensitivity),
        replace(steps, delta=1e-9),
        gaussian_cost(0.001),
    ):
        assert not covers([steps], [other])
