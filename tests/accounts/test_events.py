"""The log of a budget in memory: what is written, what is refused, and what follows for each training."""

import hashlib
import json
import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

import apportion as ap
from apportion.accounts import history, log
from apportion.accounts.history import to_plain
from apportion.errors import BudgetExceededError, BudgetFileError
from apportion.privacy import PrivacyTarget, Record

AT = "2026-01-01T00:00:00+00:00"
A, B = (Record(name, "sums", (3,), 1.0, "one", 9.0) for name in "ab")


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(log.TABLE)
        connection.execute(log.INDEX)
        yield connection


def begin(token: str = "t", kind: str = "reserved") -> tuple[str, str, dict[str, Any]]:
    values = {"what": "x", "epsilon": 1.0, "delta": 1e-5, "cost": to_plain([A])}
    return kind, token, {**values, "machine": "here", "label": "May", "version": "1.0"}


def write(connection: sqlite3.Connection, *events: tuple[str, str, dict[str, Any]]) -> None:
    for kind, token, values in events:
        log.append(connection, kind, token, values, AT)


def test_each_event_has_the_hash_of_itself_and_of_all_before(
    connection: sqlite3.Connection,
) -> None:
    write(connection, ("created", "", {"id": "i"}), begin(), ("tied", "t", {"key": "k"}))
    last, rows = "", connection.execute("SELECT * FROM events ORDER BY number").fetchall()
    for place, (number, *cells, digest) in enumerate(rows, 1):
        last = hashlib.sha256(json.dumps([last, *cells]).encode()).hexdigest()
        assert (number, digest) == (place, last)
    assert log.read_hashes(connection) == [row[-1] for row in rows]
    assert [event.kind for event in log.read_events(connection)] == ["created", "reserved", "tied"]
    assert [event.kind for event in log.read_events(connection, but=["tied"])] == [
        "created", "reserved",
    ]  # fmt: skip
    [first] = log.read_events(connection, most=1)
    assert (first.at, first.kind, first.training, first.values) == (AT, "created", "", {"id": "i"})


def test_events_are_dated_in_utc_to_the_second(connection: sqlite3.Connection) -> None:
    before = log.now()
    log.append(connection, "created", "", {})
    [event] = log.read_events(connection)
    assert before <= event.at <= log.now()
    assert len(event.at) == len(AT)
    assert event.at.endswith("+00:00")


def test_what_is_no_json_is_never_written(connection: sqlite3.Connection) -> None:
    for number in (math.nan, math.inf):
        with pytest.raises(ValueError, match="not JSON compliant"):
            log.append(connection, "created", "", {"epsilon": number})
    assert log.read_hashes(connection) == []


@pytest.mark.parametrize("column", ["at", "kind", "training", "body"])
def test_cells_that_are_no_text_are_seen(connection: sqlite3.Connection, column: str) -> None:
    write(connection, ("created", "", {"id": "i"}))
    connection.execute(f"UPDATE events SET {column} = x'00'")
    with pytest.raises(BudgetFileError, match="log was changed"):
        list(log.read_events(connection))


def test_a_training_is_what_its_events_say(connection: sqlite3.Connection) -> None:
    write(connection, ("created", "", {"id": "i"}), begin("t"), begin("u", "set aside"))
    [training, elsewhere] = history.read_trainings(connection)
    assert training == history.Training(
        "t", "x", PrivacyTarget(1.0, 1e-5), AT, None, "here", (A,), (), "May", "1.0"
    )  # fmt: skip
    assert (elsewhere.token, elsewhere.ended) == ("u", AT)
    write(
        connection,
        ("tied", "t", {"key": "k"}),
        ("released", "t", {"records": to_plain([A])}),
        ("resumed", "t", {"machine": "there"}),
        ("released", "t", {"records": to_plain([B])}),
        ("saved", "t", {"digest": "d", "output": "model"}),
    )
    training = history.read_open(connection, "t")
    assert (training.key, training.machine, training.digest, training.output) == (
        "k", "there", "d", "model",
    )  # fmt: skip
    assert training.releases == (A, B)
    assert training.released == {"a": A, "b": B}
    assert training.ended is None
    assert history.read_costs(connection) == [A, A]
    write(connection, ("ended", "t", {"cost": to_plain([A, B])}))
    ended = history.read_training(connection, "t")
    assert ended is not None
    assert (ended.ended, ended.cost, ended.key) == (AT, (A, B), "k")
    assert history.read_costs(connection) == [A, B, A]
    assert [one.token for one in history.read_trainings(connection)] == ["t", "u"]
    for token in ("t", "u", "v"):
        with pytest.raises(BudgetExceededError, match="has ended"):
            history.read_open(connection, token)
    assert history.read_training(connection, "v") is None


def test_what_is_counted_for_a_training_is_at_its_own_delta() -> None:
    records = (Record("a", "", (1,), 1.0, "", 5.0), Record("b", "", (1,), 1.0, "", 4.0))
    training = history.Training("t", "x", PrivacyTarget(1.0, 1e-7), AT, None, "", records)
    assert training.epsilon == ap.epsilon_from_mu(math.hypot(0.2, 0.25), 1e-7)


@pytest.mark.parametrize(
    "event",
    [
        ("tied", "t", {"key": "k"}),
        ("released", "t", {"records": []}),
        ("ended", "t", {"cost": []}),
        ("created", "t", {"id": "i"}),
    ],
)
def test_nothing_happens_to_a_training_before_it_begins(
    connection: sqlite3.Connection, event: Any
) -> None:
    write(connection, event)
    with pytest.raises(BudgetFileError, match="has not begun"):
        history.read_trainings(connection)


@pytest.mark.parametrize(
    "event",
    [
        ("else", "t", {}),
        begin("t"),
        ("tied", "t", {}),
        ("released", "t", {"records": [{}]}),
        ("released", "t", {"records": 3}),
        ("ended", "t", {"cost": None}),
    ],
)
def test_events_without_sense_are_damage(connection: sqlite3.Connection, event: Any) -> None:
    write(connection, begin("t"), event)
    with pytest.raises(BudgetFileError, match="damaged"):
        history.read_trainings(connection)


@pytest.mark.parametrize("first", [None, begin("t"), ("saved", "", {})])
def test_a_log_begins_with_its_cap(connection: sqlite3.Connection, first: Any) -> None:
    if first is not None:
        write(connection, first)
    with pytest.raises(BudgetFileError, match="does not begin with its cap"):
        history.read_cap(connection)


@pytest.mark.parametrize("values", [{"epsilon": 1.0}, {"epsilon": "x", "delta": 1e-5}])
def test_a_damaged_cap(connection: sqlite3.Connection, values: Any) -> None:
    write(connection, ("created", "", {"id": "i", **values}))
    with pytest.raises(BudgetFileError, match="damaged"):
        history.read_cap(connection)


def test_the_cap_is_read(connection: sqlite3.Connection) -> None:
    write(connection, ("created", "", {"id": "i", "epsilon": 2.0, "delta": 1e-5}), begin("t"))
    assert history.read_cap(connection) == ("i", PrivacyTarget(2.0, 1e-5))
