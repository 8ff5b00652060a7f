"""A training that can be killed and gone on with: its key, what it has released, and its witnesses.

Guarantee
    However often a training is killed and gone on with, what it shows is what one training that was
    never killed shows: the same bytes, at the cost in its one ledger. Three things see to that.

    1. All noise follows from one key, which is on disk before any noise is drawn. So a release that is
       computed again shows the same bytes, and not a second noisy view.
    2. The same noise on two different sums would give their difference away. So before noise is drawn
       for sums, a *witness* is written to disk: a fingerprint, under the key, of the sums and of the
       record that says how much noise they get. If there is one already and it is another one, no noise
       is drawn and the training stops. This holds whatever the reason: other data, other parameters,
       another processor that rounds otherwise.
    3. Most such reasons are found before anything is computed: the fingerprints of the parameters
       and (under the key) of the data, the versions of the libraries and the kind of processor must be
       those with which the training began.

    When it is finished the key is overwritten and removed.

Assumes
    Whoever can read the owner's files can read the data too. Until the training is finished they can
    read the key, with which noise can be removed: files are for their owner alone (mode 600, the folder
    700) and do not belong into a backup. Overwriting does not reach copies that a disk or a file
    system has made.

The folder holds: ``key``; ``releases``, the witnesses; ``state``, released values and their ledger, always
replaced as a whole; ``lock``, held by the one process that works here.
"""

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from apportion.accounts.fingerprint import fingerprint
from apportion.errors import ApportionError, CheckpointError
from apportion.privacy.ledger import Ledger, Record
from apportion.privacy.noise import NoiseSource

# Changes also whenever a key gives other noise: a training that went on would show its sums twice.
FORMAT = 2
_LOCK, _KEY, _STATE, _RELEASES = "lock", "key", "state", "releases"
_NEW = ".new"  # of a file that is being written
_FILES = {_LOCK, _KEY, _STATE, _RELEASES, _KEY + _NEW, _STATE + _NEW}
_SPENT = (
    "What it has released stays spent: count its whole budget. For a new training remove the folder"
)


class Checkpoint:
    """A folder from which an interrupted training goes on; made by the first call, locked by each.

    Args:
        folder: new, empty, or of the same training.
        public: by name, what may be known of the training; each must be as it was.
        setting: by name, in words, what else its last digits depend on; likewise.
        private: the data, likewise; it is fingerprinted under the key only.

    Attributes
        training: a random name of this training, the same each time that it is gone on with.
        finished: whether there is nothing left to do; there is no key then.
        done: how many steps are done.
        values: released after these, as the training wrote them.
    """

    def __init__(
        self,
        folder: str | Path,
        public: Mapping[str, Any],
        setting: Mapping[str, str],
        private: Any,
    ) -> None:
        self.folder = Path(folder)
        self._records: list[Any] = []
        self._witnesses: dict[str, str] = {}
        self.finished, self.done, self.values = False, 0, b""
        given = {
            "public": {name: fingerprint(value) for name, value in public.items()},
            "setting": dict(setting),
        }
        self._lock = self._enter()
        try:
            with _typed(self.folder):
                if not (self.folder / _STATE).exists():
                    self._begin(given, private)
                else:
                    self._go_on(given, private)
        except BaseException:
            self.close()
            raise

    def _enter(self) -> int:
        """Make the folder if there is none, and lock it."""
        try:
            import fcntl
        except ImportError as error:
            raise CheckpointError("checkpoints need a system with file locks (fcntl)") from error
        with _typed(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            present = {path.name for path in self.folder.iterdir()}
            if foreign := sorted(present - _FILES):
                raise CheckpointError(
                    f"{self.folder} is no checkpoint: it holds {foreign[0]!r}; choose another folder"
                )
            if not present:
                self.folder.chmod(0o700)
            lock = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(lock).st_ino == (self.folder / _LOCK).stat().st_ino:
                    return lock
            except (BlockingIOError, FileNotFoundError):
                pass  # somebody holds it, or has just removed it with the folder
            os.close(lock)
            raise CheckpointError(f"another process is training from the checkpoint {self.folder}")

    def _begin(self, given: dict[str, Any], private: Any) -> None:
        # Noise is drawn once there is a witness, and a witness is written once there is a state.
        if (self.folder / _RELEASES).exists():
            raise CheckpointError(f"{self.folder / _STATE} is missing. {_SPENT}")
        for name in (_KEY, _KEY + _NEW):
            _destroy(self.folder / name)
        self._key = secrets.token_bytes(32)
        self.training = secrets.token_hex(16)
        self._given = {**given, "private": fingerprint(private, self._key)}
        _write(self.folder / _KEY, self._key)
        self._write_state()

    def _go_on(self, given: dict[str, Any], private: Any) -> None:
        state = self._read_state()
        self._given, self.training, self.finished = (
            state[name] for name in ("given", "training", "finished")
        )
        self.done, self._records = state["done"], state["ledger"]
        for kind in ("public", "setting"):
            self._compare(self._given[kind], given[kind], plain=kind == "setting")
        if self.finished:
            self._tidy()
            return
        self._key = self._read_key()
        if self._given["private"] != fingerprint(private, self._key):
            raise CheckpointError(
                f"the training in {self.folder} was begun with other data, and cannot go on with this: "
                "the same noise on other sums would give their difference away"
            )
        self._witnesses = self._read_witnesses()

    def _compare(self, then: Mapping[str, str], now: Mapping[str, str], *, plain: bool) -> None:
        for name in dict.fromkeys((*then, *now)):
            if then.get(name) != now.get(name):
                values = f": {then.get(name)}, not {now.get(name)}" if plain else ""
                raise CheckpointError(
                    f"the training in {self.folder} was begun with another {name}{values}. "
                    "Go on as it was begun, or begin anew in another folder"
                )

    def noise(self) -> NoiseSource:
        """The noise of this training."""
        return NoiseSource.from_key(self._key)

    def witness(self, record: Record, step: int, first_task: int, *sums: Any) -> None:
        """Refuse sums that are not those which the noise of this place was, or may have been, added to.

        On return the witness is on disk.
        """
        place = f"{step} {first_task} {record.name}"
        # Of the record without its shape: how many items are selected follows from the noise.
        parts = (record.sensitivity, record.noise_scale, record.steps, record.sampling_rate)
        found = fingerprint([place, *parts, record.delta, *sums], self._key)
        known = self._witnesses.get(place)
        if known is None:
            with _typed(self.folder):
                _append(self.folder / _RELEASES, f"{found} {place}\n".encode())
            self._witnesses[place] = found
        elif known != found:
            raise CheckpointError(
                f"release {record.name!r} was computed otherwise before the training in {self.folder} "
                "was interrupted: no noise was drawn, since the same noise would give the difference "
                "away. Go on on the same machine, with as many threads"
            )

    def save(self, done: int, values: bytes, ledger: Ledger) -> None:
        """What was released up to and with this step; on return it is on disk."""
        self.done, self.values, self._records = done, values, ledger.to_dict()["records"]
        self._write_state()

    def restore(self, ledger: Ledger) -> None:
        """Add the records of the steps that are done to a ledger that has those from before the steps."""
        stored = Ledger.from_dict({**ledger.to_dict(), "records": self._records})
        before, records = list(ledger), list(stored)
        if records[: len(before)] != before:
            raise CheckpointError(f"{self.folder / _STATE} has another ledger than this training")
        ledger.append(*records[len(before) :])

    def finish(self, values: bytes, ledger: Ledger) -> None:
        """Keep the result, and destroy the key."""
        self.finished = True
        self._given.pop("private", None)  # nobody can check it any more
        self.save(self.done, values, ledger)
        with _typed(self.folder):
            self._tidy()

    def _tidy(self) -> None:
        for name in (_KEY, _KEY + _NEW, _RELEASES):
            _destroy(self.folder / name)

    def close(self) -> None:
        """Let others in."""
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write_state(self) -> None:
        header = {
            "format": FORMAT,
            "training": self.training,
            "finished": self.finished,
            "done": self.done,
            "given": self._given,
            "ledger": self._records,
        }
        content = json.dumps(header).encode() + b"\n" + self.values
        with _typed(self.folder):
            _write(self.folder / _STATE, hashlib.blake2b(content).digest() + content)

    def _read_state(self) -> dict[str, Any]:
        path = self.folder / _STATE
        content = path.read_bytes()
        size = hashlib.blake2b().digest_size
        if hashlib.blake2b(content[size:]).digest() != content[:size]:
            raise CheckpointError(f"{path} is damaged. {_SPENT}")
        line, _, self.values = content[size:].partition(b"\n")
        state: dict[str, Any] = json.loads(line)
        if state["format"] != FORMAT:
            raise CheckpointError(
                f"{path} is of format {state['format']!r}, not {FORMAT}: go on with the version of "
                "apportion that wrote it"
            )
        return state

    def _read_key(self) -> bytes:
        path = self.folder / _KEY
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            raise CheckpointError(
                f"{path} is missing, so the training cannot go on: another key would show a second "
                f"noisy view of what was released. {_SPENT}"
            ) from None
        try:
            found = os.fstat(file)
            if stat.S_IMODE(found.st_mode) & 0o077 or found.st_uid != os.geteuid():
                raise CheckpointError(
                    f"{path} is open to others than its owner (it must have mode 600): whoever has read "
                    f"it can remove the noise. {_SPENT}"
                )
            key = os.read(file, 64)
        finally:
            os.close(file)
        if len(key) != 32:
            raise CheckpointError(f"{path} is damaged. {_SPENT}")
        return key

    def _read_witnesses(self) -> dict[str, str]:
        path = self.folder / _RELEASES
        if not path.exists():
            return {}
        content = path.read_bytes()
        # A line is whole before its noise is drawn: what is torn at the end has had none.
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(path, whole)
        found = {}
        for line in content[:whole].decode("ascii", "replace").splitlines():
            digest, _, place = line.partition(" ")
            if len(digest) != 64 or not place:
                raise CheckpointError(f"{path} is damaged. {_SPENT}")
            found[place] = digest
        return found


def steps_done(folder: str | Path) -> int:
    """How many steps of the training in a folder are done, if there is one; of a damaged one, 0."""
    try:
        content = (Path(folder) / _STATE).read_bytes()[hashlib.blake2b().digest_size :]
        return int(json.loads(content.partition(b"\n")[0])["done"])
    except (OSError, KeyError, TypeError, ValueError):
        return 0


def remove_finished(folder: str | Path) -> None:
    """Remove the folder of a finished training, once its result is elsewhere."""
    folder = Path(folder)
    with _typed(folder):
        if (folder / _KEY).exists():
            raise CheckpointError(f"the training in {folder} is not finished")
        for name in _FILES:
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()


@contextmanager
def _typed(folder: Path) -> Iterator[None]:
    """Errors of the file system as ours."""
    try:
        yield
    except ApportionError:
        raise
    except OSError as error:
        raise CheckpointError(
            f"cannot write or read {error.filename or folder}: {error.strerror}. Once this is mended "
            "the training goes on from where it was"
        ) from error


def _write(path: Path, content: bytes) -> None:
    """Replace a file as a whole, for its owner's eyes only; on return it is on disk."""
    new = path.with_name(path.name + _NEW)
    new.unlink(missing_ok=True)  # of a process that was killed
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            _write_all(file, content)
        finally:
            os.close(file)
        new.replace(path)
    except BaseException:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _append(path: Path, content: bytes) -> None:
    new = not path.exists()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        size = os.fstat(file).st_size
        try:
            _write_all(file, content)
        except BaseException:
            with suppress(OSError):  # what is torn is left out when it is read
                os.ftruncate(file, size)
            raise
    finally:
        os.close(file)
    if new:
        _sync_folder(path.parent)


def _write_all(file: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(file, left) :]
    os.fsync(file)  # some disks find out here that they are full


def _destroy(path: Path) -> None:
    """Overwrite a file and remove it; on return this is on disk."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        _write_all(file, bytes(os.fstat(file).st_size))
    finally:
        os.close(file)
    path.unlink()
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
