"""The log of a budget: events that are only ever added, each with a hash of itself and of all before it.

An edit, a removal or an event in between breaks the chain of hashes, and every reader sees it. Whoever can
write the file can also write a whole new chain, or put an old copy in its place: that is seen by whoever
has kept an earlier hash (``Budget.events_since``), since no other log has it.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from apportion.errors import BudgetFileError
from apportion.json_text import parse_json

TABLE = (
    "CREATE TABLE events (number INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL,"
    " training TEXT NOT NULL, body TEXT NOT NULL, hash TEXT NOT NULL)"
)
INDEX = "CREATE INDEX events_of_training ON events (training)"
_COLUMNS = "number, at, kind, training, body, hash"


@dataclass(frozen=True)
class Event:
    """Something that happened to a budget.

    Attributes
        at: when, in UTC.
        kind: what, see ``history``.
        training: to which, or an empty text.
        values: what there is to know of it.
    """

    at: str
    kind: str
    training: str
    values: Mapping[str, Any]


def append(
    connection: sqlite3.Connection,
    kind: str,
    training: str,
    values: Mapping[str, Any],
    at: str | None = None,
) -> None:
    """Add an event to the log, in the transaction of the connection."""
    row = connection.execute("SELECT number, hash FROM events ORDER BY number DESC LIMIT 1")
    number, last = row.fetchone() or (0, "")
    cells = (now() if at is None else at, kind, training, json.dumps(values, allow_nan=False))
    connection.execute(
        f"INSERT INTO events ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
        (number + 1, *cells, _hash(last, *cells)),
    )


def read_events(
    connection: sqlite3.Connection, but: Iterable[str] = (), most: int = -1
) -> Iterator[Event]:
    """All events in their order, or so many, but for these kinds; the chain of hashes is checked."""
    left_out, last = set(but), ""
    query = f"SELECT {_COLUMNS} FROM events ORDER BY number LIMIT ?"
    rows = connection.execute(query, (most,)).fetchall()
    for place, (number, at, kind, training, body, digest) in enumerate(rows, 1):
        cells = (at, kind, training, body)
        whole = number == place and all(isinstance(cell, str) for cell in cells)
        if not whole or _hash(last, *cells) != digest:
            raise BudgetFileError(
                f"the budget's log was changed: event {place} is not what was written there. Nothing is "
                "paid from it any more; go back to no older copy, which would count less"
            )
        last = digest
        if kind not in left_out:
            yield _event(at, kind, training, body)


def read_events_of(connection: sqlite3.Connection, training: str) -> Iterator[Event]:
    """The events of one training, in their order."""
    query = "SELECT at, kind, training, body FROM events WHERE training = ? ORDER BY number"
    for cells in connection.execute(query, (training,)).fetchall():
        yield _event(*cells)


def read_hashes(connection: sqlite3.Connection) -> list[str]:
    """Those of all events, in their order."""
    return [str(one) for (one,) in connection.execute("SELECT hash FROM events ORDER BY number")]


def now() -> str:
    """As events are dated."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextmanager
def damage_told() -> Iterator[None]:
    """What is not of the type that it must be, as an error of ours."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BudgetFileError(f"the budget is damaged: {error}") from error


def _hash(last: str, *cells: str) -> str:
    text = json.dumps([last, *cells])
    return hashlib.sha256(text.encode()).hexdigest()


def _event(at: str, kind: str, training: str, body: str) -> Event:
    with damage_told():
        return Event(str(at), str(kind), str(training), dict(parse_json(body)))
