"""What follows from the log of a budget: its cap, and its trainings with what each is counted for.

Events: ``created``; ``reserved`` (a training may begin); ``set aside`` (one that takes place elsewhere);
``tied`` (to a noise key, by its digest); ``resumed``; ``released``; ``ended`` (it counts for this from now
on, and can release nothing more); ``saved`` (its model is in a folder); ``migrated`` (from an older format).
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from apportion.accounts.ledgers import record_from_dict, record_to_dict
from apportion.accounts.log import Event, damage_told, read_events, read_events_of
from apportion.errors import BudgetExceededError, BudgetFileError
from apportion.privacy.ledger import PrivacyTarget, Record, total_epsilon


@dataclass(frozen=True)
class Training:
    """One training in a budget.

    Attributes
        token: its name in the file, random.
        what: which kind of training.
        target: its own (epsilon, delta).
        began, ended: when, in UTC; ``ended`` is None while it runs, and after a crash.
        machine: on which it was begun, or resumed last.
        cost: what is counted: as reserved, or, once it has ended, as spent.
        releases: what it has released.
        label: what whoever began it calls it.
        version: of apportion, with which it was begun.
        digest: of the model that was saved last, as in its report; empty if none was.
        output: the folder of that model.
        key: a digest of its noise key; empty before its first release.
    """

    token: str
    what: str
    target: PrivacyTarget
    began: str
    ended: str | None
    machine: str
    cost: tuple[Record, ...]
    releases: tuple[Record, ...] = ()
    label: str = ""
    version: str = ""
    digest: str = ""
    output: str = ""
    key: str = ""

    @property
    def epsilon(self) -> float:
        """What is counted for it, at its own delta."""
        return total_epsilon(self.cost, self.target.delta)

    @property
    def released(self) -> dict[str, Record]:
        """What it has released, by name, in order."""
        return {record.name: record for record in self.releases}


def read_cap(connection: sqlite3.Connection) -> tuple[str, PrivacyTarget]:
    """The random name of the budget, and its cap."""
    with damage_told():
        first = next(read_events(connection, most=1), None)
        if first is None or first.kind != "created":
            raise BudgetFileError("the budget is damaged: its log does not begin with its cap")
        cap = PrivacyTarget(float(first.values["epsilon"]), float(first.values["delta"]))
        return str(first.values["id"]), cap


def read_costs(connection: sqlite3.Connection) -> list[Record]:
    """What is counted for all trainings."""
    trainings = _replay(read_events(connection, but=("released",)))
    return [record for training in trainings for record in training.cost]


def read_trainings(connection: sqlite3.Connection) -> list[Training]:
    """All of them, in the order in which they began."""
    return _replay(read_events(connection))


def read_training(connection: sqlite3.Connection, token: str) -> Training | None:
    """One of them, if it is there."""
    return next(iter(_replay(read_events_of(connection, token))), None)


def read_open(connection: sqlite3.Connection, token: str) -> Training:
    """One that has not ended; otherwise an error."""
    training = read_training(connection, token)
    if training is None or training.ended is not None:
        raise BudgetExceededError(
            "this training has ended, or its reservation is not in the budget: nothing more is released"
        )
    return training


def to_plain(records: Iterable[Record]) -> list[dict[str, Any]]:
    """As events hold them."""
    return [record_to_dict(record) for record in records]


def _replay(events: Iterable[Event]) -> list[Training]:
    found: dict[str, Training] = {}
    with damage_told():
        for event in events:
            if event.training:
                found[event.training] = _after(found.get(event.training), event)
    return list(found.values())


def _after(training: Training | None, event: Event) -> Training:
    """A training after one more event."""
    values = event.values
    if training is None:
        if event.kind not in ("reserved", "set aside"):
            raise ValueError(f"{event.kind!r} of a training that has not begun")
        return Training(
            token=event.training,
            what=str(values["what"]),
            target=PrivacyTarget(float(values["epsilon"]), float(values["delta"])),
            began=event.at,
            ended=event.at if event.kind == "set aside" else None,
            machine=str(values["machine"]),
            cost=_records(values["cost"]),
            label=str(values["label"]),
            version=str(values["version"]),
        )
    if event.kind == "tied":
        return replace(training, key=str(values["key"]))
    if event.kind == "resumed":
        return replace(training, machine=str(values["machine"]))
    if event.kind == "released":
        return replace(training, releases=training.releases + _records(values["records"]))
    if event.kind == "ended":
        return replace(training, ended=event.at, cost=_records(values["cost"]))
    if event.kind == "saved":
        return replace(training, digest=str(values["digest"]), output=str(values["output"]))
    raise ValueError(f"{event.kind!r} is no event of a training")


def _records(values: Any) -> tuple[Record, ...]:
    return tuple(record_from_dict(one) for one in values)
