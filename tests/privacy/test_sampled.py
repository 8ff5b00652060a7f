"""Sampled steps: what rounding may lose is what the proofs say, and the smaller of two bounds is taken."""

import math
import sys
from functools import cache
from typing import Any
from unittest import mock

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from apportion.errors import ParameterError
from apportion.privacy import Record, epsilon_from_mu, ledger
from apportion.privacy.ledger import total_epsilon
from apportion.privacy.sampled import SampledSteps, rounding, sampled_epsilon

STEPS = SampledSteps(4.0, 0.1, 50)
OTHERS = SampledSteps(6.0, 0.2, 30)
ORDERS = [*range(2, 64), 64, 128, 256, 512, 1024, 2048, 4096]
EXACT = {"rel": 1e-13, "abs": 0}


def event(mu: float, *sampled: SampledSteps) -> Any:
    events = [dp_accounting.GaussianDpEvent(1 / mu)] if mu else []
    for noise, rate, steps in sampled:
        one = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
        events.append(dp_accounting.SelfComposedDpEvent(one, steps))
    return dp_accounting.ComposedDpEvent(events)


@cache
def composed(mu: float, *sampled: SampledSteps) -> tuple[PLDAccountant, RdpAccountant]:
    whole = event(mu, *sampled)
    return PLDAccountant().compose(whole), RdpAccountant(ORDERS).compose(whole)


def renyi(delta: float, steps: int, mu: float, *sampled: SampledSteps) -> float:
    return composed(mu, *sampled)[1].get_epsilon(delta) * (1 + 1e-9) + (1 + steps) * 1e-12


@pytest.mark.parametrize("mu", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("sampled", [[STEPS], [STEPS, OTHERS], [SampledSteps(0.7, 0.3, 9)]])
def test_what_rounding_may_lose(mu: float, sampled: list[SampledSteps]) -> None:
    grid = 1e-4
    kinds = [(each.noise, each.steps) for each in sampled] + ([(1 / mu, 1)] if mu else [])
    count = sum(steps for _, steps in kinds) + len(kinds)
    losses = sum(steps * (10.5 / r + 1.5 / r**2) for r, steps in kinds)  # on either side of zero
    length = 2 * (2 * losses) / grid + 2 * count
    square = sum(steps / r**2 for r, steps in kinds)
    entry = math.log2(length) / 2**50
    terms = (
        count / 2**46,  # the curve of each step
        count / 2**51 / grid,  # its probabilities
        2 * count * entry * (2 + math.log(length)),  # transforms
        entry * math.sqrt(length),  # the transform back
        (square + math.sqrt(square)) / 2**51 / grid,  # the sum
    )
    assert rounding(mu, sampled) == pytest.approx(sum(terms), rel=1e-12, abs=0)


@pytest.mark.parametrize(
    ("mu", "sampled"), [(0.0, [STEPS]), (0.4, [STEPS]), (0.4, [STEPS, OTHERS])]
)
def test_at_usual_deltas_rounding_is_taken_off(mu: float, sampled: list[SampledSteps]) -> None:
    delta = 1e-4
    expected = composed(mu, *sampled)[0].get_epsilon(delta - rounding(mu, sampled))
    assert sampled_epsilon(mu, sampled, delta) == pytest.approx(expected, **EXACT)


def test_at_deltas_that_rounding_swallows_the_other_bound_is_taken() -> None:
    lost = rounding(0.0, [STEPS])
    for delta in (lost, 0.5 * lost, 1e-30):
        found = sampled_epsilon(0.0, [STEPS], delta)
        assert found == pytest.approx(renyi(delta, 50, 0.0, STEPS), **EXACT)
    # Small orders are the best where much is spent, large ones where little is.
    for much_or_little in (SampledSteps(0.4, 0.5, 30), SampledSteps(60.0, 0.05, 3)):
        found = sampled_epsilon(0.0, [much_or_little], 1e-30)
        expected = renyi(1e-30, much_or_little.steps, 0.0, much_or_little)
        assert found == pytest.approx(expected, **EXACT)
    both = sampled_epsilon(0.4, [STEPS, OTHERS], 1e-30)
    assert both == pytest.approx(renyi(1e-30, 80, 0.4, STEPS, OTHERS), **EXACT)


def test_between_these_the_smaller_is_taken() -> None:
    lost = rounding(0.0, [STEPS])
    taken = set()
    for delta in (1.0001 * lost, 2 * lost, 100 * lost):
        distributions = composed(0.0, STEPS)[0].get_epsilon(delta - lost)
        bounds = distributions, renyi(delta, 50, 0.0, STEPS)
        assert sampled_epsilon(0.0, [STEPS], delta) == pytest.approx(min(bounds), **EXACT)
        taken.add(bounds[0] < bounds[1])
    assert taken == {True, False}


def test_a_ledger_takes_the_smaller_of_sampled_and_whole_costs() -> None:
    plain = [Record(name, "", (1,), 2.0, "", 2.0 / mu) for name, mu in (("a", 0.24), ("b", 0.32))]
    few = [
        Record("c", "", (1,), 3.0, "", 12.0, 50, 0.1),
        Record("d", "", (1,), 1.0, "", 6.0, 30, 0.2),
    ]
    for delta in (1e-4, 1e-30):
        expected = sampled_epsilon(0.4, [STEPS, OTHERS], delta)
        assert total_epsilon([*plain, *few], delta) == pytest.approx(expected, rel=1e-9)
        assert expected < 0.9 * epsilon_from_mu(math.hypot(0.4, *(one.mu for one in few)), delta)
    most = [Record("c", "", (1,), 3.0, "", 12.0, 50, 1 - 1e-12)]
    whole = epsilon_from_mu(most[0].mu, 1e-4)
    assert (
        total_epsilon(most, 1e-4)
        == whole
        < sampled_epsilon(0.0, [STEPS._replace(rate=1 - 1e-12)], 1e-4)
    )


@pytest.mark.parametrize(
    ("mu", "sampled"),
    [
        (math.inf, [STEPS]),
        (0.0, [SampledSteps(0.0, 0.1, 5)]),
        (0.0, [STEPS, SampledSteps(math.inf, 0.1, 5)]),
    ],
)
def test_what_cannot_be_computed_is_no_guarantee(mu: float, sampled: list[SampledSteps]) -> None:
    assert sampled_epsilon(mu, sampled, 1e-5) == math.inf


def steps_of(noise: float, steps: int, rate: float) -> Record:
    return Record("g", "", (1,), 1.0, "", noise, steps, rate)


def test_what_sampled_steps_cost_about() -> None:
    # Many steps behave like one release of q sqrt(T (exp(1 / sigma^2) - 1)), and cost no more than unsampled.
    many = 0.01 * math.sqrt(1000 * math.expm1(0.25))
    assert ledger._rough_mu(steps_of(2.0, 1000, 0.01)) == pytest.approx(many, **EXACT)
    assert ledger._rough_mu(steps_of(2.0, 100, 0.9999)) == pytest.approx(5.0, **EXACT)
    least = 1e-5 * math.sqrt(4 * math.expm1(0.3**-2))
    assert ledger._rough_mu(steps_of(0.3, 4, 1e-5)) == pytest.approx(least, rel=1e-12, abs=0)
    assert ledger._rough_mu(steps_of(0.25, 4, 1e-5)) == 8.0  # with less noise nothing is known
    assert ledger._rough_mu(steps_of(1e-200, 1, 1e-5)) == 1e200
    doubled = Record("g", "", (1,), 2.0, "", 4.0, 1000, 0.01)
    assert ledger._rough_mu(doubled) == pytest.approx(many, **EXACT)


def test_without_samples_the_exact_formula_is_the_only_one() -> None:
    assert ledger._sampled_epsilon([Record("c", "", (1,), 1.0, "", 2.0)], 1e-5) == math.inf


def test_what_would_take_too_long_to_account_is_no_guarantee() -> None:
    beside = Record("c", "", (1,), 9.9, "", 1.0)
    assert ledger._sampled_epsilon([beside, steps_of(2.0, 10, 0.01)], 1e-5) < math.inf
    more = Record("c", "", (1,), 10.0, "", 1.0)
    assert ledger._sampled_epsilon([more, steps_of(2.0, 10, 0.01)], 1e-5) == math.inf


@pytest.mark.parametrize("noise", [1e-200, 1e200])
def test_noise_beyond_all_measure_is_accounted_as_if_nobody_were_sampled(noise: float) -> None:
    beyond = SampledSteps(noise, 0.1, 5)
    for steps in ([beyond], [STEPS, beyond], [beyond, STEPS]):
        assert sampled_epsilon(0.0, steps, 1e-5) == math.inf


def test_a_ledger_may_hold_noise_beyond_all_measure() -> None:
    # Its square is no number; this raised an error that was none of ours.
    assert total_epsilon([steps_of(1e200, 5, 0.1)], 1e-5) == 0.0


def test_a_cost_too_small_to_be_squared_counts_for_more() -> None:
    alone = sampled_epsilon(0.0, [STEPS], 1e-5)
    assert sampled_epsilon(1e-200, [STEPS], 1e-5) == pytest.approx(alone, rel=1e-6)


def test_without_the_package_it_says_what_to_install() -> None:
    with (
        mock.patch.dict(sys.modules, {"dp_accounting": None}),
        pytest.raises(ParameterError, match=r"pip install 'apportion\[accounting\]'"),
    ):
        sampled_epsilon(0.0, [STEPS], 1e-5)
