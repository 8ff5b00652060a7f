"""The file of a budget: an SQLite database, opened for one transaction at a time.

Write-ahead log, ``synchronous=FULL``, and ``fullfsync`` where the system knows it. Whoever may not write
the file, or its folder, reads a copy of it with its log. SQLite's ``immutable`` would do without a copy,
but skips the log, and so counts less than what left.
"""

import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from apportion.accounts import log
from apportion.accounts.durable import sync_folder
from apportion.accounts.formats import BUDGET
from apportion.accounts.migration import make_tables, migrate
from apportion.errors import BudgetFileError, ParameterError

_APPLICATION = 0x41707074  # marks the file as ours, in its header
_LOGS = ("-wal", "-journal")
_TRIES = 20


class Database:
    """A file with the tables of a budget.

    Attributes
        path: of the file itself, links followed: its log and its locks are beside that.
        behind: whether the last transaction read a copy that was made while somebody was writing.
    """

    def __init__(self, path: str | Path, timeout: float, named: Path | None = None) -> None:
        try:
            self.path = Path(os.path.realpath(path))
        except (OSError, ValueError) as error:
            raise BudgetFileError(f"{str(path)!r} cannot be the name of a file") from error
        self._named = self.path if named is None else named  # in errors
        self._timeout = timeout
        self.behind = False

    def create(self, cap: Mapping[str, Any]) -> None:
        """Make the file, for its owner alone, with this for the first event of its log.

        A creation that was killed leaves a file without tables, which is as good as none.
        """
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            pass
        except OSError as error:
            raise BudgetFileError(self._describe_missing(error.strerror)) from error
        with self._connection() as connection:
            if _is_empty(connection):
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            if not _is_empty(connection):
                raise ParameterError(f"{self.path} exists already")
            self.path.chmod(0o600)
            make_tables(connection)
            log.append(connection, "created", "", cap)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute("COMMIT")
        try:
            sync_folder(self.path.parent)
        except OSError as error:
            raise BudgetFileError(f"cannot write {self.path}: {error.strerror}") from error

    @contextmanager
    def transaction(self, write: bool = True) -> Iterator[sqlite3.Connection]:
        """All or nothing, and on the disk when it ends without an error."""
        if not write and self._only_readable():
            with self._copy() as copy, copy.transaction() as connection:
                yield connection
            return
        self.behind = False
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            if _version(connection, self._named) < BUDGET.number:
                connection.execute("ROLLBACK")
                connection.execute("BEGIN IMMEDIATE")
                # Somebody else may have been faster.
                if (version := _version(connection, self._named)) < BUDGET.number:
                    migrate(connection, version)
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            self._look()
            address = f"{self.path.as_uri()}?mode=rw"
            with closing(
                sqlite3.connect(address, uri=True, timeout=self._timeout, isolation_level=None)
            ) as connection:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA fullfsync = ON")  # of macOS; elsewhere it says nothing
                connection.execute("PRAGMA checkpoint_fullfsync = ON")
                yield connection
        except sqlite3.Error as error:
            raise BudgetFileError(self._describe(error)) from error
        except UnicodeDecodeError:  # a message of SQLite about what it found
            raise BudgetFileError(f"{self._named} is not a budget, or damaged") from None

    def _look(self) -> None:
        """Refuse what is no plain file, or has two names: each name would have a log of its own."""
        try:
            found = self.path.stat()
        except OSError as error:
            raise BudgetFileError(self._describe_missing(error.strerror)) from None
        if not stat.S_ISREG(found.st_mode):
            raise BudgetFileError(self._describe_missing(None))
        if found.st_nlink > 1:
            raise BudgetFileError(
                f"{self.path} has another name too (a hard link): remove one of the two"
            )

    def _only_readable(self) -> bool:
        try:
            writable = os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)
            return os.access(self.path, os.R_OK) and not writable
        except ValueError:
            return False

    @contextmanager
    def _copy(self) -> Iterator["Database"]:
        """The file with its log, as they were at one moment, in a folder of this process."""
        self._look()
        with tempfile.TemporaryDirectory() as folder:
            copy = Database(Path(folder) / "budget.db", self._timeout, self.path)
            for _ in range(_TRIES):
                before = self._stamps()
                try:
                    for ending in before:
                        shutil.copyfile(f"{self.path}{ending}", f"{copy.path}{ending}")
                except FileNotFoundError:  # the log has just been written back
                    continue
                except OSError as error:
                    raise BudgetFileError(f"cannot read {self.path}: {error.strerror}") from error
                if self._stamps() == before:
                    break
                for ending in before:
                    Path(f"{copy.path}{ending}").unlink()
            else:
                raise BudgetFileError(f"{self.path} is being written again and again; try again")
            self.behind = len(before) > 1
            yield copy

    def _stamps(self) -> dict[str, tuple[int, int, int]]:
        """Which of its files there are, and what changes when one is written."""
        found = {}
        for ending in ("", *_LOGS):
            try:
                values = Path(f"{self.path}{ending}").stat()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise BudgetFileError(f"cannot read {self.path}: {error.strerror}") from error
            found[ending] = (values.st_ino, values.st_size, values.st_mtime_ns)
        return found

    def _describe(self, error: sqlite3.Error) -> str:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return f"{self._named} was locked by another process for {self._timeout:g} s; try again"
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return f"{self._named} is not a budget, or damaged ({error})"
        if code == sqlite3.SQLITE_FULL:
            return f"cannot write {self._named}: the disk is full"
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            return f"cannot write {self._named}: the file or its folder is read-only"
        if code == sqlite3.SQLITE_CANTOPEN:
            return self._describe_missing(None)
        return f"cannot write or read {self._named}: {error}"

    def _describe_missing(self, reason: str | None) -> str:
        try:
            there, is_folder = self.path.exists(), self.path.is_dir()
        except OSError as error:  # such as a name that is too long
            return f"cannot open {self._named}: {error.strerror}"
        if is_folder:
            return f"{self._named} is a folder, not a budget"
        if not self.path.parent.is_dir():
            return f"there is no folder {self.path.parent}"
        if there and not self.path.is_file():
            return f"{self._named} is not a budget"
        if not there and reason in (None, os.strerror(2)):
            return (
                f"there is no budget {self._named}; create one with a cap: apportion budget create, or "
                "Budget.create(path, PrivacyTarget(...))"
            )
        why = (
            f": {reason}" if reason else ": it or its folder is not for this user to read and write"
        )
        return f"cannot open {self._named}{why}"


def _is_empty(connection: sqlite3.Connection) -> bool:
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return int(tables) == 0


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """The format of a budget that can be read here, or migrated."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != _APPLICATION:
        raise BudgetFileError(f"{path} is not a budget")
    needs = None
    if version > BUDGET.number:
        with suppress(sqlite3.Error):
            [(needs,)] = connection.execute("SELECT needs FROM format")
    if (refusal := BUDGET.refusal(path, version, needs)) is not None:
        raise BudgetFileError(refusal)
    return int(version)
