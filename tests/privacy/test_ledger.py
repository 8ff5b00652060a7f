"""The ledger: composition, refusal, interchange."""

import dataclasses
import json
import math

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant

import apportion as ap
from apportion.privacy import Ledger, PrivacyTarget, Record


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


def test_dp_accounting_agrees(ledger: Ledger) -> None:
    accountant = PLDAccountant()
    accountant.compose(ledger.to_dp_event())
    assert ledger.epsilon(1e-6) == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-3)


def test_dp_event_of_a_ledger_without_noise_is_not_private() -> None:
    ledger = Ledger(PrivacyTarget(math.inf, 1e-5))
    ledger.append(Record("sums", "a sum", (3,), math.inf, "not bounded", 0.0))
    accountant = PLDAccountant()
    accountant.compose(ledger.to_dp_event())
    assert ledger.epsilon(1e-5) == accountant.get_epsilon(1e-5) == math.inf
    assert isinstance(ledger.to_dp_event().events[0], dp_accounting.NonPrivateDpEvent)


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


def test_a_release_without_noise_is_refused_under_a_finite_target(ledger: Ledger) -> None:
    with pytest.raises(ap.BudgetExceededError):
        ledger.append(Record("bare", "a sum", (3,), 1.0, "one", 0.0))


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
    [(0.0, 1.0), (-1.0, 1.0), (math.nan, 1.0), (1.0, -1.0), (1.0, math.nan), (1.0, math.inf)],
)
def test_impossible_records(sensitivity: float, noise: float) -> None:
    with pytest.raises(ap.ParameterError):
        Record("r", "w", (1,), sensitivity, "b", noise)


def test_json_round_trip(ledger: Ledger) -> None:
    again = Ledger.from_json(ledger.to_json())
    assert list(again) == list(ledger)
    assert again.target == ledger.target


def test_json_of_no_privacy_is_valid_json() -> None:
    ledger = Ledger(PrivacyTarget(math.inf, 1e-5))
    ledger.append(Record("sums", "a sum", (3,), math.inf, "not bounded", 0.0))
    again = Ledger.from_json(ledger.to_json())
    assert "Infinity" not in ledger.to_json()
    assert list(again) == list(ledger)


@pytest.mark.parametrize("damage", ["target", "records"])
def test_damaged_json(ledger: Ledger, damage: str) -> None:
    values = json.loads(ledger.to_json())
    del values[damage]
    with pytest.raises(ap.DataError, match="not a ledger"):
        Ledger.from_json(json.dumps(values))


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
    values = json.loads(ledger.to_json())
    values["records"][0].update(change)
    with pytest.raises(ap.DataError, match="not a ledger"):
        Ledger.from_json(json.dumps(values))


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null"])
def test_not_json_at_all(text: str) -> None:
    with pytest.raises(ap.DataError, match="not a ledger"):
        Ledger.from_json(text)


def test_a_forged_ledger_over_its_target_is_refused(ledger: Ledger) -> None:
    values = json.loads(ledger.to_json())
    values["records"][0]["noise_scale"] = 1e-3
    with pytest.raises(ap.BudgetExceededError):
        Ledger.from_json(json.dumps(values))
