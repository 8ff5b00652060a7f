"""Ledgers as plain values: complete, or refused."""

import json
from dataclasses import fields

import pytest

import apportion as ap
from apportion.accounts.ledgers import (
    ledger_from_dict,
    ledger_to_dict,
    ledger_to_json,
    record_from_dict,
    record_to_dict,
)
from apportion.privacy.ledger import Ledger, PrivacyTarget, Record

RECORD = Record("counts", "users of each task", (3, 2), 1.0, "one each", 2.5)


def of_samples(number: int) -> dict[str, object]:
    """What a file would hold: one release to everybody, the others to few sampled users."""
    target = {"epsilon": "inf", "delta": 1e-5}
    records = [record_to_dict(RECORD)]
    for place in range(number):
        sampled = Record(f"step {place}", "sums", (1,), 1.0, "one", 40.0, 2, 1e-3)
        records.append(record_to_dict(sampled))
    return {"target": target, "records": records}


@pytest.mark.parametrize("name", [field.name for field in fields(Record)])
def test_a_record_without_a_field_is_refused(name: str) -> None:
    # Those that have a default as well: a file that lacks the steps does not mean one.
    values = record_to_dict(RECORD)
    del values[name]
    with pytest.raises(ap.DataError, match="other fields than it should"):
        record_from_dict(values)


def test_a_record_of_no_tasks_is_read() -> None:
    empty = Record("counts", "users of each task", (0,), 1.0, "one each", 2.5)
    assert record_from_dict(record_to_dict(empty)) == empty


@pytest.mark.parametrize("size", [-1, 1.5, "3"])
def test_impossible_shapes_are_refused(size: object) -> None:
    values = ledger_to_dict(Ledger(PrivacyTarget(5.0, 1e-6)))
    values["records"] = [{**record_to_dict(RECORD), "shape": [3, size]}]
    with pytest.raises(ap.DataError):
        ledger_from_dict(values)


def test_few_records_of_samples_are_read() -> None:
    assert len(ledger_from_dict(of_samples(20))) == 21


def test_more_records_of_samples_are_refused_before_they_are_accounted() -> None:
    # Each takes a second to account for: a forged file could have a million.
    with pytest.raises(ap.DataError, match="more than 20 releases to sampled users"):
        ledger_from_dict(of_samples(21))


def test_any_number_of_records_of_everybody_is_read() -> None:
    ledger = Ledger(PrivacyTarget(5.0, 1e-6))
    for place in range(30):
        ledger.append(Record(f"sums {place}", "sums", (1,), 1.0, "one", 40.0))
    assert list(ledger_from_dict(ledger_to_dict(ledger))) == list(ledger)


def test_text_is_read_by_people() -> None:
    ledger = Ledger(PrivacyTarget(5.0, 1e-6))
    ledger.append(RECORD)
    text = ledger_to_json(ledger)
    assert json.loads(text)["records"][0]["name"] == "counts"
    assert '\n      "name": "counts"' in text
