"""Budgets of older formats, brought to the present one in place, in one transaction.

Nothing of the old form stays: a version of the package that only knows that form refuses the file.
"""

import sqlite3
from collections.abc import Callable

from apportion.accounts.formats import BUDGET
from apportion.accounts.history import to_plain
from apportion.accounts.ledgers import record_from_dict
from apportion.accounts.log import INDEX, TABLE, append, damage_told
from apportion.json_text import parse_json


def make_tables(connection: sqlite3.Connection) -> None:
    """Those of the present format, empty."""
    for statement in ("CREATE TABLE format (needs TEXT NOT NULL)", TABLE, INDEX):
        connection.execute(statement)
    connection.execute("INSERT INTO format VALUES (?)", (BUDGET.needs,))
    connection.execute(f"PRAGMA user_version = {BUDGET.number}")


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Bring a budget of this older format to the present one, one format after the other."""
    with damage_told():
        for number in range(version, BUDGET.number):
            STEPS[number](connection)
    connection.execute("UPDATE format SET needs = ?", (BUDGET.needs,))
    connection.execute(f"PRAGMA user_version = {BUDGET.number}")


def _from_second(connection: sqlite3.Connection) -> None:
    """Format 2 had a table of trainings, with their present cost, and one of their releases."""
    [(name, epsilon, delta, began)] = connection.execute(
        "SELECT id, epsilon, delta, began FROM cap"
    )
    trainings = connection.execute(
        "SELECT token, what, epsilon, delta, began, ended, machine, cost, key FROM trainings"
        " ORDER BY number"
    ).fetchall()
    releases = connection.execute("SELECT training, at, record FROM releases ORDER BY rowid")
    released = releases.fetchall()
    make_tables(connection)
    cap = {"id": str(name), "epsilon": float(epsilon), "delta": float(delta), "version": ""}
    append(connection, "created", "", cap, str(began))
    append(connection, "migrated", "", {"format": 2})
    for token, what, own_epsilon, own_delta, start, end, machine, cost, key in trainings:
        # What a training had reserved before it ended was not kept: it began with what it counts for.
        records = [record_from_dict(one) for one in parse_json(cost)]
        values = {"what": str(what), "epsilon": float(own_epsilon), "delta": float(own_delta)}
        values |= {"cost": to_plain(records), "machine": str(machine), "label": "", "version": ""}
        append(connection, "reserved", token, values, str(start))
        if key is not None:
            append(connection, "tied", token, {"key": str(key)}, str(start))
        for training, at, record in released:
            if training == token:
                own = to_plain([record_from_dict(parse_json(record))])
                append(connection, "released", token, {"records": own}, str(at))
        if end is not None:
            append(connection, "ended", token, {"cost": to_plain(records)}, str(end))
    for table in ("releases", "trainings", "cap"):
        connection.execute(f"DROP TABLE {table}")


# For each older format, what brings its tables to those of the next.
STEPS: dict[int, Callable[[sqlite3.Connection], None]] = {2: _from_second}
