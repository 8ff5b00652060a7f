"""One budget for all trainings on the same people, in a file that survives anything.

Guarantee
    The total of all trainings in the file satisfies ``epsilon`` at ``cap.delta`` <= ``cap.epsilon``, by the
    same accounting as that of one training (``ledger.total_epsilon``): all their releases together are one
    ledger. A training is counted in full, in one transaction and before its first release, or refused.
    Every release is committed, durably, before its noisy values are returned. What a training reserved and
    did not use is given back in the transaction that ends it, and after that it cannot commit, so it
    cannot release, anything more. A training that is killed stays counted in full: whatever the moment, the
    file never counts less than what left. See docs/guarantee.md.

Assumes
    The disk keeps what it says that it has written, nobody changes the file or puts an old copy in its
    place, and all trainings on these people name the same file. Gaussian costs may be chosen by looking at
    what earlier trainings released; those of trainings with sampled users must not be.

How
    SQLite, write-ahead log, ``synchronous=FULL``. Each operation opens the file, runs one transaction and
    closes it, so that a budget may be shared by threads and processes.
"""

import json
import math
import secrets
import sqlite3
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from apportion.privacy.checks import number
from apportion.privacy.costs import ROUNDING, covers, gaussian_cost, kind, merged, whole_cost
from apportion.privacy.errors import (
    BudgetExceededError,
    BudgetFileError,
    ParameterError,
)
from apportion.privacy.gaussian import epsilon_from_mu, mu_from_epsilon
from apportion.privacy.json_text import parse_json
from apportion.privacy.ledger import PrivacyTarget, Record, total_epsilon

VERSION = 2
_APPLICATION = 0x41707074  # marks the file as ours, in its header

_TABLES = (
    "CREATE TABLE cap (epsilon REAL NOT NULL, delta REAL NOT NULL, began TEXT NOT NULL)",
    "CREATE TABLE trainings (number INTEGER PRIMARY KEY, token TEXT NOT NULL UNIQUE,"
    " what TEXT NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL,"
    " began TEXT NOT NULL, ended TEXT, cost TEXT NOT NULL, key TEXT)",
    "CREATE TABLE releases (training TEXT NOT NULL REFERENCES trainings (token),"
    " name TEXT NOT NULL, at TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (training, name))",
)


@dataclass(frozen=True)
class Training:
    """One training in a budget.

    Attributes
        token: its name in the file, random.
        what: which kind of training.
        target: its own (epsilon, delta).
        began, ended: when, in UTC; ``ended`` is None while it runs, and after a crash.
        cost: what is counted: as reserved, or, once it has ended, as spent.
        releases: what it has released.
    """

    token: str
    what: str
    target: PrivacyTarget
    began: str
    ended: str | None
    cost: tuple[Record, ...]
    releases: tuple[Record, ...]

    @property
    def epsilon(self) -> float:
        """What is counted for it, at its own delta."""
        return total_epsilon(self.cost, self.target.delta)


class Budget:
    """A file from which repeated trainings on the same people draw, never past its cap.

    Args:
        path: of the file.
        cap: the (epsilon, delta) of all trainings together. Creates the file if there is none; a file
            that is there must have the same. None opens a file that is there.
        timeout: how many seconds to wait for other processes.

    >>> import apportion as ap, tempfile
    >>> path = tempfile.mkdtemp() + "/budget.db"
    >>> budget = ap.Budget(path, cap=ap.PrivacyTarget(epsilon=2.0, delta=1e-5))
    >>> data = ap.simulate_tasks(users=500, tasks=5, tasks_per_user=2)
    >>> model = ap.MultiTaskRidge(epsilon=1.0, delta=1e-5).fit(data, budget=budget)
    >>> round(budget.epsilon, 3), round(budget.left, 3)
    (1.0, 1.658)
    >>> model = ap.MultiTaskRidge(epsilon=1.8, delta=1e-5).fit(data, budget=budget)
    Traceback (most recent call last):
    ...
    apportion.privacy.errors.BudgetExceededError: refused a training with epsilon 1.8 ...
    """

    def __init__(
        self, path: str | Path, cap: PrivacyTarget | None = None, *, timeout: float = 60.0
    ) -> None:
        self.path = Path(path).absolute()
        self._timeout = number("timeout", timeout, at_least=0, at_most=1e6)
        if cap is not None:
            if not isinstance(cap, PrivacyTarget):
                raise ParameterError(f"cap must be a PrivacyTarget, got a {type(cap).__name__}")
            if math.isinf(cap.epsilon):
                raise ParameterError("a budget needs a finite epsilon")
            if cap.selection_delta > 0:
                raise ParameterError("a cap has one delta: selections are taken off it")
            self._create(cap)
        with self._transaction(write=False) as connection:
            self.cap = _read_cap(connection)
        if cap is not None and cap != self.cap:
            raise ParameterError(
                f"{self.path} has another cap: epsilon {self.cap.epsilon:g} at delta {self.cap.delta:g}"
            )

    def reserve(
        self,
        what: str,
        target: PrivacyTarget,
        cost: Sequence[Record] | None = None,
        token: str | None = None,
    ) -> "Reservation":
        """Set aside what a training will cost, or refuse it. By default the whole of its target.

        With a ``token`` that is known already, goes on with that training (``resume``).
        """
        if math.isinf(target.epsilon):
            raise ParameterError("without privacy (epsilon is infinite) no budget is enough")
        cost = whole_cost(target) if cost is None else tuple(cost)
        if token is not None and self.knows(token):
            return self.resume(token)
        return Reservation(self, self._insert(what, target, cost, ended=False, token=token), cost)

    def set_aside(self, what: str, target: PrivacyTarget) -> None:
        """Count a training that takes place elsewhere, for good.

        It must consist of Gaussian releases, as those of this package do (but for sampled users): another
        mechanism with the same (epsilon, delta) may cost more beside others.
        """
        if math.isinf(target.epsilon):
            raise ParameterError("without privacy (epsilon is infinite) no budget is enough")
        self._insert(what, target, whole_cost(target), ended=True)

    def resume(self, token: str) -> "Reservation":
        """Go on with a training that was interrupted, under the same noise key.

        What it has committed already may be committed again: with the same key, to which the reservation
        is tied by its first ``Curator``, it is the same release.
        """
        with self._transaction(write=False) as connection:
            return Reservation(self, token, _read_open(connection, token), resumed=True)

    def holds(self, token: str | None, records: Iterable[Record]) -> bool:
        """Whether a training that has ended, with exactly these releases, is counted here."""
        with self._transaction(write=False) as connection:
            found = [one for one in _read_trainings(connection) if one.token == token]
        return bool(found) and found[0].ended is not None and found[0].releases == tuple(records)

    @property
    def epsilon(self) -> float:
        """The epsilon of everything that is counted, at the cap's delta."""
        with self._transaction(write=False) as connection:
            return total_epsilon(_read_costs(connection), self.cap.delta)

    @property
    def left(self) -> float:
        """The largest epsilon, at the cap's delta, of one more training (without sampled users)."""
        with self._transaction(write=False) as connection:
            counted = _read_costs(connection)
        return _left(counted, self.cap)

    def history(self) -> list[Training]:
        """All trainings, in the order in which they began."""
        with self._transaction(write=False) as connection:
            return _read_trainings(connection)

    def knows(self, token: str) -> bool:
        """Whether a training of this name has reserved something here."""
        with self._transaction(write=False) as connection:
            query = "SELECT count(*) FROM trainings WHERE token = ?"
            (found,) = connection.execute(query, (token,)).fetchone()
        return bool(found)

    def _insert(
        self,
        what: str,
        target: PrivacyTarget,
        cost: Sequence[Record],
        ended: bool,
        token: str | None = None,
    ) -> str:
        token = secrets.token_hex(16) if token is None else token
        now = _now()
        with self._transaction() as connection:
            cap, counted = _read_cap(connection), _read_costs(connection)
            if total_epsilon([*counted, *cost], cap.delta) > cap.epsilon:
                raise BudgetExceededError(
                    f"refused a training with epsilon {target.epsilon:g} at delta {target.delta:g}: the "
                    f"total would pass the budget's {cap.epsilon:g} at {cap.delta:g}, of which "
                    f"{total_epsilon(counted, cap.delta):.4g} is spent or reserved. Nothing was released"
                )
            values = (token, what, target.epsilon, target.delta, now, now if ended else None)
            connection.execute(
                "INSERT INTO trainings (token, what, epsilon, delta, began, ended, cost)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*values, _to_json(cost)),
            )
        return token

    def _create(self, cap: PrivacyTarget) -> None:
        """Make the tables, unless some are there; a creation that was killed leaves a file without."""
        with self._connection("rwc") as connection:
            if not _is_empty(connection):
                return
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            if _is_empty(connection):
                for table in _TABLES:
                    connection.execute(table)
                values = (cap.epsilon, cap.delta, _now())
                connection.execute("INSERT INTO cap VALUES (?, ?, ?)", values)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")

    @contextmanager
    def _transaction(self, write: bool = True) -> Iterator[sqlite3.Connection]:
        """All or nothing, and on the disk when it ends without an error."""
        with self._connection("rw") as connection:
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            _check_kind(connection, self.path)
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def _connection(self, mode: str) -> Iterator[sqlite3.Connection]:
        try:
            address = f"{self.path.as_uri()}?mode={mode}"
            with closing(
                sqlite3.connect(address, uri=True, timeout=self._timeout, isolation_level=None)
            ) as connection:
                connection.execute("PRAGMA synchronous = FULL")
                yield connection
        except sqlite3.Error as error:
            raise BudgetFileError(self._describe(error)) from error
        except UnicodeDecodeError:  # a message of SQLite about what it found
            raise BudgetFileError(f"{self.path} is not a budget, or damaged") from None

    def _describe(self, error: sqlite3.Error) -> str:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return f"{self.path} was locked by another process for {self._timeout:g} s; try again"
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return f"{self.path} is not a budget, or damaged ({error})"
        if code == sqlite3.SQLITE_FULL:
            return f"cannot write {self.path}: the disk is full"
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            return f"cannot write {self.path}: the file or its folder is read-only"
        if code == sqlite3.SQLITE_CANTOPEN:
            return self._describe_missing()
        return f"cannot write or read {self.path}: {error}"

    def _describe_missing(self) -> str:
        try:
            there, is_folder = self.path.exists(), self.path.is_dir()
        except OSError as error:  # such as a name that is too long
            return f"cannot open {self.path}: {error.strerror}"
        if not self.path.parent.is_dir():
            return f"there is no folder {self.path.parent}"
        if is_folder:
            return f"{self.path} is a folder, not a budget"
        if not there:
            return (
                f"there is no budget {self.path}, or its folder is read-only; create one with a cap: "
                "apportion budget create, or Budget(path, cap=PrivacyTarget(...))"
            )
        return f"cannot open {self.path}: it or its folder is not for this user to read and write"


@dataclass(frozen=True)
class Reservation:
    """What one training has set aside of a budget."""

    budget: Budget
    token: str
    cost: tuple[Record, ...]
    resumed: bool = False

    def sampled_mu(self, steps: int, sampling_rate: float) -> float:
        """The mu (as if all users took part) that is reserved for a release to sampled users."""
        wanted = (steps, sampling_rate)
        found = [record.mu for record in self.cost if kind(record) == wanted]
        return max(found, default=0.0) / (1 + ROUNDING)

    def tie(self, key: str) -> None:
        """Tie the training to a noise key, by its digest; refuse another one than before.

        The same release under another key would be a second noisy view.
        """
        with self.budget._transaction() as connection:
            _read_open(connection, self.token)
            connection.execute(
                "UPDATE trainings SET key = ? WHERE token = ? AND key IS NULL", (key, self.token)
            )
            query = "SELECT key FROM trainings WHERE token = ?"
            if connection.execute(query, (self.token,)).fetchone() != (key,):
                raise BudgetExceededError(
                    "this training was begun under another noise key: its releases would be seen a "
                    "second time, with other noise. Resume it from its checkpoint, or reserve anew"
                )

    def commit(self, records: Sequence[Record]) -> None:
        """Write the records of one release to the budget, durably, all or none.

        Refuses what passes the reservation, what was committed before, and anything once the training
        has ended.
        """
        with self.budget._transaction() as connection:
            reserved = _read_open(connection, self.token)
            before = _read_releases(connection, self.token)
            new = [one for one in records if not (self.resumed and before.get(one.name) == one)]
            for record in new:
                if record.name in before:
                    raise BudgetExceededError(
                        f"refused {record.name!r}: this training has released it already"
                    )
            if not covers(reserved, [*before.values(), *new]):
                names = ", ".join(repr(record.name) for record in new)
                raise BudgetExceededError(
                    f"refused {names}: it would pass what this training has reserved"
                )
            connection.executemany(
                "INSERT INTO releases VALUES (?, ?, ?, ?)",
                [(self.token, one.name, _now(), json.dumps(one.to_dict())) for one in new],
            )

    def settle(self) -> None:
        """End the training: from now on it counts for what it has released, and can release no more.

        If that cannot be written, the reservation stays counted in full, with a warning.
        """
        try:
            with self.budget._transaction() as connection:
                spent = merged(_read_releases(connection, self.token).values())
                connection.execute(
                    "UPDATE trainings SET ended = ?, cost = ? WHERE token = ? AND ended IS NULL",
                    (_now(), _to_json(spent), self.token),
                )
        except BudgetFileError as error:
            message = f"the whole reservation of this training stays counted: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)


def _left(counted: Sequence[Record], cap: PrivacyTarget) -> float:
    """Exact unless users were sampled; then within 0.1 %, on the safe side."""
    rest = cap.delta - math.fsum(record.delta for record in counted)
    if rest <= 0:
        return 0.0
    most = mu_from_epsilon(cap.epsilon, rest)
    square = most**2 - math.fsum(record.mu**2 for record in counted)
    low = math.sqrt(max(0.0, square))
    if any(record.sampling_rate < 1 for record in counted):
        high = most
        while high - low > 1e-3 * most:
            middle = (low + high) / 2
            fits = total_epsilon([*counted, gaussian_cost(middle)], cap.delta) <= cap.epsilon
            low, high = (middle, high) if fits else (low, middle)
    return epsilon_from_mu(low, cap.delta)


def _is_empty(connection: sqlite3.Connection) -> bool:
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return int(tables) == 0


def _check_kind(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != _APPLICATION:
        raise BudgetFileError(f"{path} is not a budget")
    if version != VERSION:
        raise BudgetFileError(
            f"{path} was written by another version of apportion (format {version}, this version "
            f"uses {VERSION}); update apportion"
        )


def _read_cap(connection: sqlite3.Connection) -> PrivacyTarget:
    with _damage_told():
        [(epsilon, delta)] = connection.execute("SELECT epsilon, delta FROM cap").fetchall()
        return PrivacyTarget(epsilon, delta)


def _read_costs(connection: sqlite3.Connection) -> list[Record]:
    rows = connection.execute("SELECT cost FROM trainings").fetchall()
    return [record for (cost,) in rows for record in _from_json(cost)]


def _read_open(connection: sqlite3.Connection, token: str) -> tuple[Record, ...]:
    """What a training that has not ended has reserved."""
    row = connection.execute(
        "SELECT cost FROM trainings WHERE token = ? AND ended IS NULL", (token,)
    ).fetchone()
    if row is None:
        raise BudgetExceededError(
            "this training has ended, or its reservation is not in the budget: nothing more is released"
        )
    return _from_json(row[0])


def _read_releases(connection: sqlite3.Connection, token: str) -> dict[str, Record]:
    rows = connection.execute(
        "SELECT record FROM releases WHERE training = ? ORDER BY rowid", (token,)
    ).fetchall()
    records = [record for (text,) in rows for record in _from_json(f"[{text}]")]
    return {record.name: record for record in records}


def _read_trainings(connection: sqlite3.Connection) -> list[Training]:
    rows = connection.execute(
        "SELECT token, what, epsilon, delta, began, ended, cost FROM trainings ORDER BY number"
    ).fetchall()
    return [
        Training(
            token,
            what,
            PrivacyTarget(epsilon, delta),
            began,
            ended,
            _from_json(cost),
            tuple(_read_releases(connection, token).values()),
        )
        for token, what, epsilon, delta, began, ended, cost in rows
    ]


def _to_json(records: Iterable[Record]) -> str:
    return json.dumps([record.to_dict() for record in records])


def _from_json(text: str) -> tuple[Record, ...]:
    with _damage_told():
        return tuple(Record.from_dict(values) for values in parse_json(text))


@contextmanager
def _damage_told() -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BudgetFileError(f"the budget is damaged: {error}") from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
