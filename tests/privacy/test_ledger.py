"""The ledger: composition, refusal, interchange."""

import copy
import dataclasses
import json
import math
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant
from scipy.special import log_ndtr

import apportion as ap
from apportion.accounts.ledgers import ledger_from_json, ledger_to_dict, ledger_to_json, to_dp_event
from apportion.privacy import Curator, Ledger, Part, PrivacyTarget, Record, UserBound
from apportion.privacy.gaussian import LARGEST_MU


def record(name: str, mu: float) -> Record:
    return Record(name, "a sum", (3, 2), 2.0, "two at most", 2.0 / mu)


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger(PrivacyTarget(epsilon=2.0, delta=1e-6))
    ledger.append(record("counts", 0.1))
    ledger.append(record("stats.A", 0.2), record("stats.b", 0.3))
    return ledger


def test_costs_add_in_squares(ledger: Ledger) -> None:
    assert ledger.mu == pytest.approx(math.sqrt(0.01 + 0.04 + 0.09))
    assert ledger.epsilon(1e-6) == pytest.approx(ap.epsilon_from_mu(math.sqrt(0.14), 1e-6))


def test_the_noise_of_a_release_is_known_by_its_name(ledger: Ledger) -> None:
    assert ledger.noise_of("stats.A") == 2.0 / 0.2
    assert ledger.noise_of("counts") == 2.0 / 0.1
    assert ledger.noise_of("nothing") == 0.0


def test_dp_accounting_agrees(ledger: Ledger) -> None:
    accountant = PLDAccountant()
    accountant.compose(to_dp_event(ledger))
    assert ledger.epsilon(1e-6) == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-3)


def test_every_record_is_an_event_of_its_kind() -> None:
    def made(steps: int, rate: float, delta: float = 0.0) -> Record:
        return Record("x", "sums", (1,), 2.0, "two", 3.0, steps, rate, delta)

    one = dp_accounting.GaussianDpEvent(1.5)
    some = dp_accounting.PoissonSampledDpEvent(0.25, one)
    expected = {
        made(1, 1.0): [one],
        made(7, 1.0): [dp_accounting.SelfComposedDpEvent(one, 7)],
        made(2, 0.25): [dp_accounting.SelfComposedDpEvent(some, 2)],
        made(1, 0.25): [some],
        made(1, 1.0, 1e-6): [one, dp_accounting.UnsupportedDpEvent()],
    }
    for record, events in expected.items():
        assert to_dp_event([record]) == dp_accounting.ComposedDpEvent(events)
    everything = [event for events in expected.values() for event in events]
    assert to_dp_event(expected) == dp_accounting.ComposedDpEvent(everything)


def test_what_is_left_in_squares() -> None:
    ledger = Ledger(PrivacyTarget(1.0, 1e-5))
    assert ledger.affordable_mu() == pytest.approx(ledger.target.mu)
    ledger.append(Record("a", "sums", (1,), 0.6 * ledger.target.mu, "one", 1.0))
    assert ledger.affordable_mu() == pytest.approx(0.8 * ledger.target.mu)
    ledger.append(Record("b", "sums", (1,), 0.8 * ledger.target.mu, "one", 1.0))
    assert ledger.affordable_mu() < 1e-5 * ledger.target.mu


def test_refuses_to_pass_the_target_and_keeps_what_it_has(ledger: Ledger) -> None:
    before = list(ledger)
    with pytest.raises(ap.BudgetExceededError, match="refused 'more'"):
        ledger.append(record("more", ledger.target.mu))
    with pytest.raises(ap.BudgetExceededError):  # together too much, though the first alone is not
        ledger.append(record("small", 0.01), record("large", ledger.target.mu))
    assert list(ledger) == before


def test_the_whole_target_can_be_spent_in_shares() -> None:
    ledger = Ledger(PrivacyTarget(1.0, 1e-5))
    shares = [0.1, 0.2, 0.3, 0.05, 0.35]
    for number, share in enumerate(shares):
        ledger.append(record(str(number), ledger.target.mu * math.sqrt(share)))
    assert 1.0 - 1e-9 < ledger.epsilon(1e-5) <= 1.0


def test_the_target_is_passed_by_rounding_at_most() -> None:
    target = PrivacyTarget(1.0, 1e-5)
    most = target.mu * (1 + 1e-12)  # a tenth of what mu_from_epsilon keeps off
    assert Ledger(target).allows(Record("a", "sums", (1,), most, "one", 1.0))
    assert not Ledger(target).allows(Record("a", "sums", (1,), math.nextafter(most, 2), "one", 1.0))


def test_samples_that_cost_beyond_all_targets_count_as_all_users() -> None:
    # To compute with them takes time and memory without end, and a ledger may come from anywhere.
    most = Record("a", "sums", (1,), 3.0, "one", 1.0, steps=100, sampling_rate=0.012)
    ledger = Ledger(PrivacyTarget(math.inf, 1e-5))
    ledger.append(most)
    assert ledger.epsilon(1e-5) == ap.epsilon_from_mu(30.0, 1e-5)
    fewer = Record("a", "sums", (1,), 3.0, "one", 1.0, steps=10, sampling_rate=0.03)
    ledger = Ledger(PrivacyTarget(math.inf, 1e-5))
    ledger.append(fewer)
    assert ledger.epsilon(1e-5) < 0.9 * ap.epsilon_from_mu(3.0 * math.sqrt(10), 1e-5)


def test_a_release_without_noise_is_refused_under_a_finite_target(ledger: Ledger) -> None:
    with pytest.raises(ap.ParameterError, match="noise_scale must be a number above 0"):
        ledger.append(Record("bare", "a sum", (3,), 1.0, "one", 0.0))
    with pytest.raises(ap.BudgetExceededError, match="noise is less than"):
        ledger.append(Record("bare", "a sum", (3,), 1.0, "one", 1e-300))


@pytest.mark.parametrize(("epsilon", "delta"), [(600.0, 1e-5), (66.0, 1e-5), (210.0, 1e-100)])
def test_targets_beyond_what_is_proved_are_refused(epsilon: float, delta: float) -> None:
    # At (600, 1e-5), what noise that ends at 32 deviations cannot give has probability 0.09 next door.
    with pytest.raises(ap.ParameterError, match=r"epsilon must be at most .* at this delta"):
        PrivacyTarget(epsilon, delta)
    with pytest.raises(ap.ParameterError, match="epsilon must be at most"):
        ap.MultiTaskRidge(epsilon=epsilon, delta=delta).fit(
            ap.simulate_tasks(users=50, tasks=5, tasks_per_user=2)
        )


def test_the_largest_target_is_said() -> None:
    with pytest.raises(ap.ParameterError, match="at most 65 at this delta, got 600") as refused:
        PrivacyTarget(600.0, 1e-5)
    assert "math.inf" in str(refused.value)
    assert PrivacyTarget(65.0, 1e-5).mu <= 8
    assert PrivacyTarget(math.inf, 1e-5).mu == math.inf


def test_what_selections_take_counts_in_the_largest_target() -> None:
    # At a fifth of the delta a mu of 8 is an epsilon of 71.8 instead of 69.2; at 1.8 of it, 68.3.
    largest = math.floor(ap.epsilon_from_mu(8, 2e-7))
    assert largest == 71
    with pytest.raises(ap.ParameterError, match=f"at most {largest} at this delta"):
        PrivacyTarget(600.0, 1e-6, selection_delta=8e-7)


@pytest.mark.parametrize("delta", [0.0, -1e-5, 1.0, math.nan])
def test_a_delta_that_is_none_is_refused_without_privacy_too(delta: float) -> None:
    with pytest.raises(ap.ParameterError, match="delta"):
        PrivacyTarget(math.inf, delta)


def test_what_is_paid_already_is_not_committed_again() -> None:
    committed: list[str] = []
    ledger = Ledger(
        PrivacyTarget(2.0, 1e-6), lambda records: committed.extend(one.name for one in records)
    )
    ledger.append(record("prepared", 0.1), paid=True)
    assert committed == []
    ledger.append(record("counts", 0.1), record("sums", 0.1))
    assert committed == ["counts", "sums"]
    assert [one.name for one in ledger] == ["prepared", "counts", "sums"]


def test_sampled_steps_may_cost_exactly_the_target() -> None:
    steps = Record("g", "sums", (1,), 1.0, "one", 2.0, 10, 0.01)
    open_end = Ledger(PrivacyTarget(math.inf, 1e-6))
    open_end.append(steps)
    cost = open_end.epsilon(1e-6)
    exact = Ledger(PrivacyTarget(cost, 1e-6))
    exact.append(steps)
    assert exact.epsilon(1e-6) == cost
    with pytest.raises(ap.BudgetExceededError):
        Ledger(PrivacyTarget(math.nextafter(cost, 0), 1e-6)).append(steps)


def test_what_lies_beyond_the_noise_is_less_than_any_delta() -> None:
    # The arithmetic of "What the missing numbers cost" in docs/explanation/proofs.md, logarithms of base two.
    def beyond(moved: float) -> float:
        return float(log_ndtr(-(32 - moved)) / math.log(2))

    assert beyond(LARGEST_MU) + 6 < -414
    assert beyond(1.0) + 1 < -690
    assert beyond(1 / 0.3) + math.log2(12) < -594
    assert max(-414.0, 64 - 690.0, 64 - 594.0) + 1 <= -413 < math.log2(1e-100) - 67


def test_one_release_has_at_least_the_noise_that_is_proved() -> None:
    ledger = Ledger(PrivacyTarget(65.0, 1e-5))
    object.__setattr__(ledger.target, "epsilon", 1e5)  # as if targets knew no limit
    object.__setattr__(ledger.target, "mu", 400.0)
    with pytest.raises(ap.BudgetExceededError, match=r"noise is less than 0.125 times"):
        ledger.append(record("x", 8.1))
    ledger.append(record("x", 8.0))


@pytest.mark.parametrize(("rate", "least"), [(1.0, 0.125), (0.5, 0.3)])
def test_the_least_noise_is_met_but_for_rounding(rate: float, least: float) -> None:
    ledger = Ledger(PrivacyTarget(math.inf, 1e-5))
    for name, scale in (("a", 1.0), ("b", 1 - 0.99e-9), ("c", 1 - 1e-9)):
        noise = 2.0 * least * scale
        ledger.append(Record(name, "sums", (1,), 2.0, "two", noise, sampling_rate=rate))
    for scale in (1 - 1.01e-9, 0.99):
        with pytest.raises(ap.BudgetExceededError, match=f"noise is less than {least:g} times"):
            ledger.append(
                Record("x", "", (1,), 2.0, "two", 2.0 * least * scale, sampling_rate=rate)
            )


def test_copies_of_a_ledger_take_no_releases(ledger: Ledger) -> None:
    # Two ledgers under one target could spend it twice.
    for other in (
        ledger.copy(),
        copy.copy(ledger),
        copy.deepcopy(ledger),
        pickle.loads(pickle.dumps(ledger)),
    ):
        assert ledger_to_dict(other) == ledger_to_dict(ledger)
        with pytest.raises(ap.ReleaseError, match="takes no more releases"):
            other.append(record("more", 0.01))
    ledger.append(record("more", 0.01))


def test_of_many_threads_one_opens_a_name() -> None:
    # Two releases of one name would have the same noise.
    for _ in range(50):
        curator, ready = Curator(PrivacyTarget(1.0, 1e-5)), threading.Barrier(4)
        part = Part("A", "sums", UserBound(1.0, "one"))

        def open_it(_: int, curator: Any = curator, ready: Any = ready, part: Any = part) -> bool:
            ready.wait()
            try:
                curator.open("same", [part], 2, 0.01)
            except ap.ParameterError:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(open_it, range(4))) == 1
        assert len(curator.ledger) == 1


def test_a_release_is_committed_and_written_in_one_go() -> None:
    # Another thread that appends while a budget is being written to must wait.
    inside: list[str] = []

    def commit(records: Any) -> None:
        inside.append(records[0].name)
        if len(inside) == 1:
            other.start()
            other.join(0.2)
            assert len(inside) == 1

    ledger = Ledger(PrivacyTarget(1.0, 1e-5), commit)
    other = threading.Thread(target=lambda: ledger.append(record("second", 0.01)))
    ledger.append(record("first", 0.01))
    other.join()
    assert [one.name for one in ledger] == inside == ["first", "second"]


def test_names_are_unique(ledger: Ledger) -> None:
    with pytest.raises(ap.ParameterError, match="in the ledger already"):
        ledger.append(record("counts", 0.01))


def test_records_are_frozen_and_the_list_is_a_copy(ledger: Ledger) -> None:
    first = next(iter(ledger))
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.noise_scale = 0.0  # type: ignore[misc]
    assert not hasattr(ledger, "__setitem__")
    assert not hasattr(ledger, "__delitem__")


@pytest.mark.parametrize(
    ("sensitivity", "noise"),
    [
        (0.0, 1.0),
        (-1.0, 1.0),
        (math.nan, 1.0),
        (math.inf, 1.0),
        (1.0, 0.0),
        (1.0, -1.0),
        (1.0, math.nan),
        (1.0, math.inf),
    ],
)
def test_impossible_records(sensitivity: float, noise: float) -> None:
    with pytest.raises(ap.ParameterError):
        Record("r", "w", (1,), sensitivity, "b", noise)


def test_json_round_trip(ledger: Ledger) -> None:
    again = ledger_from_json(ledger_to_json(ledger))
    assert list(again) == list(ledger)
    assert again.target == ledger.target


def test_json_of_no_privacy_is_valid_json() -> None:
    ledger = Ledger(PrivacyTarget(math.inf, 1e-5))
    again = ledger_from_json(ledger_to_json(ledger))
    assert "Infinity" not in ledger_to_json(ledger)
    assert again.target == ledger.target


@pytest.mark.parametrize("damage", ["target", "records"])
def test_damaged_json(ledger: Ledger, damage: str) -> None:
    values = json.loads(ledger_to_json(ledger))
    del values[damage]
    with pytest.raises(ap.DataError, match="not a ledger"):
        ledger_from_json(json.dumps(values))


@pytest.mark.parametrize(
    "change",
    [
        {"noise_scale": "x"},
        {"noise_scale": None},
        {"shape": 3},
        {"extra": 1},
        {"sensitivity": "nan"},
    ],
)
def test_damaged_records(ledger: Ledger, change: dict[str, object]) -> None:
    values = json.loads(ledger_to_json(ledger))
    values["records"][0].update(change)
    with pytest.raises(ap.DataError, match="not a ledger"):
        ledger_from_json(json.dumps(values))


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null"])
def test_not_json_at_all(text: str) -> None:
    with pytest.raises(ap.DataError, match="not a ledger"):
        ledger_from_json(text)


def test_a_forged_ledger_over_its_target_is_refused(ledger: Ledger) -> None:
    values = json.loads(ledger_to_json(ledger))
    values["records"][0]["noise_scale"] = 1e-3
    with pytest.raises(ap.BudgetExceededError):
        ledger_from_json(json.dumps(values))
