"""Ledgers and their records as plain values, JSON text and dp-accounting's events.

What is read is checked as if it were released now: costs are computed again, never read.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from apportion.checks import whole
from apportion.errors import DataError
from apportion.json_text import parse_json
from apportion.privacy.ledger import Ledger, PrivacyTarget, Record
from apportion.privacy.sampled import find_dp_accounting

# A training has one record of sampled steps, or a few; each is accounted for by itself.
_MOST_SAMPLED_RECORDS = 20


def record_to_dict(record: Record) -> dict[str, Any]:
    """Plain values."""
    return {each.name: getattr(record, each.name) for each in fields(record)}


def record_from_dict(values: Mapping[str, Any]) -> Record:
    """The inverse of ``record_to_dict``; anything missing or unknown is an error."""
    if set(values) != {field.name for field in fields(Record)}:
        raise DataError("not a ledger: a record has other fields than it should")
    names = ("sensitivity", "noise_scale", "delta", "grid")
    numbers = {name: float(values[name]) for name in names}
    shape = tuple(whole("shape", size, at_least=0) for size in values["shape"])
    return Record(**{**values, **numbers, "shape": shape})


def ledger_to_dict(ledger: Ledger) -> dict[str, Any]:
    """Plain values. Infinity is written as the string "inf"."""
    target = {each.name: getattr(ledger.target, each.name) for each in fields(ledger.target)}
    return {
        "target": {name: "inf" if value == math.inf else value for name, value in target.items()},
        "records": [record_to_dict(record) for record in ledger],
    }


def ledger_from_dict(values: Any) -> Ledger:
    """The inverse of ``ledger_to_dict``; anything missing or unknown is an error."""
    try:
        target = {name: float(value) for name, value in values["target"].items()}
        ledger = Ledger(PrivacyTarget(**target))
        records = [record_from_dict(entry) for entry in values["records"]]
        if sum(record.sampling_rate < 1 for record in records) > _MOST_SAMPLED_RECORDS:
            raise DataError(
                f"not a ledger of one training: more than {_MOST_SAMPLED_RECORDS} releases to "
                "sampled users"
            )
        if records:
            ledger.append(*records)
    except DataError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DataError(f"not a ledger: {error}") from error
    return ledger


def ledger_to_json(ledger: Ledger) -> str:
    """The target and all records, as JSON text."""
    return json.dumps(ledger_to_dict(ledger), indent=2)


def ledger_from_json(text: str) -> Ledger:
    """The inverse of ``ledger_to_json``; anything missing or unknown is an error."""
    try:
        values = parse_json(text)
    except DataError as error:
        raise DataError(f"not a ledger: {error}") from None
    return ledger_from_dict(values)


def to_dp_event(records: Iterable[Record]) -> Any:
    """Releases, or a whole ledger, as a dp-accounting event (needs the ``accounting`` extra)."""
    dp_accounting = find_dp_accounting()
    events = []
    for record in records:
        event = dp_accounting.GaussianDpEvent(record.noise_scale / record.sensitivity)
        if record.sampling_rate < 1:
            event = dp_accounting.PoissonSampledDpEvent(record.sampling_rate, event)
        if record.steps > 1:
            event = dp_accounting.SelfComposedDpEvent(event, record.steps)
        events.append(event)
        if record.delta > 0:
            # There is no event for it: accountants must refuse instead of leaving it out.
            events.append(dp_accounting.UnsupportedDpEvent())
    return dp_accounting.ComposedDpEvent(events)
