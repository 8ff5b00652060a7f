"""What the tables of a budget hold, read and checked."""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from apportion.accounts.ledgers import record_from_dict, record_to_dict
from apportion.errors import BudgetExceededError, BudgetFileError
from apportion.json_text import parse_json
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
    """

    token: str
    what: str
    target: PrivacyTarget
    began: str
    ended: str | None
    machine: str
    cost: tuple[Record, ...]
    releases: tuple[Record, ...]

    @property
    def epsilon(self) -> float:
        """What is counted for it, at its own delta."""
        return total_epsilon(self.cost, self.target.delta)


def read_cap(connection: sqlite3.Connection) -> tuple[str, PrivacyTarget]:
    """The random name of the budget, and its cap."""
    with _damage_told():
        [(name, epsilon, delta)] = connection.execute("SELECT id, epsilon, delta FROM cap")
        return str(name), PrivacyTarget(epsilon, delta)


def read_costs(connection: sqlite3.Connection) -> list[Record]:
    """What is counted for all trainings."""
    rows = connection.execute("SELECT cost FROM trainings").fetchall()
    return [record for (cost,) in rows for record in _from_json(cost)]


def read_open(connection: sqlite3.Connection, token: str) -> tuple[Record, ...]:
    """What a training that has not ended has reserved."""
    row = connection.execute(
        "SELECT cost FROM trainings WHERE token = ? AND ended IS NULL", (token,)
    ).fetchone()
    if row is None:
        raise BudgetExceededError(
            "this training has ended, or its reservation is not in the budget: nothing more is released"
        )
    return _from_json(row[0])


def read_releases(connection: sqlite3.Connection, token: str) -> dict[str, Record]:
    """What a training has committed, by name, in order."""
    rows = connection.execute(
        "SELECT record FROM releases WHERE training = ? ORDER BY rowid", (token,)
    ).fetchall()
    records = [record for (text,) in rows for record in _from_json(f"[{text}]")]
    return {record.name: record for record in records}


def read_trainings(connection: sqlite3.Connection) -> list[Training]:
    """All of them, in the order in which they began."""
    rows = connection.execute(
        "SELECT token, what, epsilon, delta, began, ended, machine, cost FROM trainings ORDER BY number"
    ).fetchall()
    return [
        Training(
            token,
            what,
            PrivacyTarget(epsilon, delta),
            began,
            ended,
            on_machine,
            _from_json(cost),
            tuple(read_releases(connection, token).values()),
        )
        for token, what, epsilon, delta, began, ended, on_machine, cost in rows
    ]


def to_json(records: Iterable[Record]) -> str:
    """As costs are stored."""
    return json.dumps([record_to_dict(record) for record in records])


def _from_json(text: str) -> tuple[Record, ...]:
    with _damage_told():
        return tuple(record_from_dict(values) for values in parse_json(text))


@contextmanager
def _damage_told() -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BudgetFileError(f"the budget is damaged: {error}") from error
