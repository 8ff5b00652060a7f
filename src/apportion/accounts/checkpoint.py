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
       Lost witnesses are noticed: the file is there from the start.
    3. Most such reasons are found before anything is computed: the fingerprints of the parameters
       and (under the key) of the data, the versions of the libraries and the kind of processor must be
       those with which the training began.

        4. A training that is paid from a budget is resumed with that budget only: another call could
       otherwise release what the budget does not see, and the budget give back what was spent.

When it is finished the key is overwritten and removed.

Assumes
    Whoever can read the owner's files can read the data too. Until the training is finished they can
    read the key, with which noise can be removed: files are for their owner alone (mode 600, the folder
    700) and do not belong into a backup. A file that others may write or that belongs to another user,
    a link, a pipe, and a file with a second name are refused; the folders around them may be open to
    others. Overwriting does not reach copies that a disk or a file system has made.

The folder holds: ``key``; ``releases``, the witnesses; ``state``, released values and their ledger, always
replaced as a whole; ``lock``, held by the one process that works here.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from apportion.accounts.durable import (
    NEW,
    NotOursError,
    destroy_own,
    open_own,
    read_own,
    replace_own,
)
from apportion.accounts.fingerprint import fingerprint
from apportion.accounts.ledgers import record_to_dict
from apportion.accounts.state import FORMAT, SPENT, STATE, digest, read_state, typed
from apportion.accounts.witnesses import Witnesses
from apportion.errors import ApportionError, CheckpointError
from apportion.privacy.ledger import Ledger, Record
from apportion.privacy.noise import NoiseSource
from apportion.version import __version__

Result = TypeVar("Result")

_LOCK, _KEY, _STATE, _RELEASES = "lock", "key", STATE, "releases"
_FILES = {_LOCK, *(name + new for name in (_KEY, _STATE, _RELEASES) for new in ("", NEW))}


class Checkpoint:
    """A folder from which an interrupted training goes on; made by the first call, locked by each.

    Args:
        folder: new, empty, or of the same training.
        public: by name, what may be known of the training; each must be as it was.
        setting: by name, in words, what else its last digits depend on; likewise.
        private: the data, likewise; it is fingerprinted under the key only.
        budget: the ``id`` of the budget that pays for the training, if there is one. It must be the same
            from the first release on.
        training: the name of a training that begins here, by default a new one.

    Attributes
        training: a random name of this training, the same each time that it is gone on with.
        finished: whether there is nothing left to do; there is no key then.
        done: how many steps are done.
        values: released after these, as the training wrote them.
        released: whether noise may have been drawn already.
    """

    def __init__(
        self,
        folder: str | Path,
        public: Mapping[str, Any],
        setting: Mapping[str, str],
        private: Any,
        budget: str | None = None,
        training: str | None = None,
    ) -> None:
        self.folder = Path(folder)
        self._budget, self._name = budget, training
        self._records: tuple[Record, ...] = ()
        self.finished, self.done, self.values = False, 0, b""
        given = {
            "public": {name: fingerprint(value) for name, value in public.items()},
            "setting": dict(setting),
        }
        self._lock = self._enter()
        try:
            with typed(self.folder):
                if not os.path.lexists(self.folder / _STATE):
                    self._begin(given, private)
                else:
                    self._resume(given, private)
        except BaseException:
            self.close()
            raise

    def _enter(self) -> int:
        """Make the folder if there is none, and lock it."""
        try:
            import fcntl
        except ImportError as error:
            raise CheckpointError("checkpoints need a system with file locks (fcntl)") from error
        with typed(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            present = {path.name for path in self.folder.iterdir()}
            if foreign := sorted(present - _FILES):
                raise CheckpointError(
                    f"{self.folder} is no checkpoint: it holds {foreign[0]!r}; choose another folder"
                )
            if not present:
                self.folder.chmod(0o700)
            lock = open_own(self.folder / _LOCK, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(lock).st_ino == (self.folder / _LOCK).stat().st_ino:
                    return lock
            except (BlockingIOError, FileNotFoundError):
                pass  # somebody holds it, or has just removed it with the folder
            except BaseException:
                os.close(lock)
                raise
            os.close(lock)
            raise CheckpointError(f"another process is training from the checkpoint {self.folder}")

    def _begin(self, given: dict[str, Any], private: Any) -> None:
        # Noise is drawn once there is a witness, and a witness is written once there is a state.
        releases = self.folder / _RELEASES
        if os.path.lexists(releases) and read_own(releases):
            raise CheckpointError(f"{self.folder / _STATE} is missing. {SPENT}")
        for name in (_KEY, _KEY + NEW):
            destroy_own(self.folder / name)
        self._key = secrets.token_bytes(32)
        self.training = secrets.token_hex(16) if self._name is None else self._name
        self._given = {**given, "private": fingerprint(private, self._key)}
        replace_own(self.folder / _KEY, self._key)
        self._witnesses = Witnesses.begin(releases, self._key)
        self._write_state()

    def _resume(self, given: dict[str, Any], private: Any) -> None:
        header, self.values = read_state(self.folder)
        self.finished = header["finished"]
        if not self.finished:
            self._key = self._read_key()
        if header["mac"] != digest(header, b"" if self.finished else self._key):
            raise CheckpointError(
                f"{self.folder / _STATE} is damaged, or {_KEY} is another one. {SPENT}"
            )
        self._given, self.training = header["given"], header["training"]
        self.done, self._records = header["done"], header["ledger"]
        for kind in ("public", "setting"):
            self._compare(self._given[kind], given[kind], plain=kind == "setting")
        if self.finished:
            self._check_budget(header["budget"])
            self._tidy()
            return
        if self._given["private"] != fingerprint(private, self._key):
            raise CheckpointError(
                f"the training in {self.folder} was begun with other data, and cannot be resumed with this: "
                "the same noise on other sums would give their difference away"
            )
        self._witnesses = Witnesses.read(self.folder / _RELEASES, self._key)
        if self._records and not self._witnesses:
            raise CheckpointError(f"{self.folder / _RELEASES} is damaged: it is empty. {SPENT}")
        if header["budget"] != self._budget:
            if self.released:
                self._check_budget(header["budget"])
            self._write_state()  # nothing was released: another may pay

    @property
    def released(self) -> bool:
        """Whether noise may have been drawn already."""
        return self.finished or self.done > 0 or bool(self._witnesses)

    @property
    def records(self) -> tuple[Record, ...]:
        """What was released up to the last ``save``."""
        return self._records

    def _check_budget(self, then: str | None) -> None:
        if then == self._budget:
            return
        if then is None:
            raise CheckpointError(
                f"the training in {self.folder} was begun without a budget: resume it without, and count "
                "it there by hand (apportion budget reserve)"
            )
        which = "that budget" if self._budget is None else "that budget, which is not this one"
        raise CheckpointError(
            f"the training in {self.folder} is paid from a budget (id {then[:8]}): resume it with {which}"
        )

    def _compare(self, then: Mapping[str, str], now: Mapping[str, str], *, plain: bool) -> None:
        for name in dict.fromkeys((*then, *now)):
            if then.get(name) != now.get(name):
                values = f": {then.get(name)}, not {now.get(name)}" if plain else ""
                raise CheckpointError(
                    f"the training in {self.folder} was begun with another {name}{values}. "
                    "Resume it as it was begun, or begin anew in another folder"
                )

    def noise(self) -> NoiseSource:
        """The noise of this training."""
        return NoiseSource.from_key(self._key)

    def witness(self, record: Record, step: int, first_task: int, *sums: Any) -> None:
        """Refuse sums that are not those which the noise of this place was, or may have been, added to.

        On return the witness is on disk.
        """
        with typed(self.folder):
            self._witnesses.check(record, step, first_task, *sums)

    def save(self, done: int, values: bytes, ledger: Ledger) -> None:
        """What was released up to and with this step; on return it is on disk."""
        self.done, self.values, self._records = done, values, tuple(ledger)
        self._write_state()

    def restore(self, ledger: Ledger) -> None:
        """Add the records of the steps that are done to a ledger that has those from before the steps."""
        before = tuple(ledger)
        if self._records[: len(before)] != before:
            raise CheckpointError(f"{self.folder / _STATE} has another ledger than this training")
        try:
            ledger.append(*self._records[len(before) :])
        except ApportionError as error:
            if not self.finished:  # what a budget refuses
                raise
            raise CheckpointError(f"{self.folder / _STATE} is damaged. {SPENT}") from error

    def read(self, function: Callable[[bytes], Result]) -> Result:
        """What a function makes of the values; whatever is wrong with them is an error of ours."""
        try:
            return function(self.values)
        except Exception as error:
            raise CheckpointError(f"{self.folder / _STATE} is damaged. {SPENT}") from error

    def finish(self, values: bytes, ledger: Ledger) -> None:
        """Keep the result, and destroy the key."""
        self.finished = True
        self._given.pop("private", None)  # nobody can check it any more
        self.save(self.done, values, ledger)
        with typed(self.folder):
            self._tidy()

    def _tidy(self) -> None:
        for name in (_KEY, _KEY + NEW, _RELEASES):
            destroy_own(self.folder / name)

    def discard(self) -> None:
        """Remove the folder of a training that has released nothing, so that it was none."""
        if self.released:
            raise CheckpointError(f"the training in {self.folder} has released something")
        with typed(self.folder):
            self._tidy()
            for name in _FILES:
                (self.folder / name).unlink(missing_ok=True)
            self.folder.rmdir()

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
            "version": __version__,
            "training": self.training,
            "budget": self._budget,
            "finished": self.finished,
            "done": self.done,
            "given": self._given,
            "ledger": [record_to_dict(record) for record in self._records],
            "values": hashlib.blake2b(self.values).hexdigest(),
        }
        header["mac"] = digest(header, b"" if self.finished else self._key)
        with typed(self.folder):
            replace_own(self.folder / _STATE, json.dumps(header).encode() + b"\n" + self.values)

    def _read_key(self) -> bytes:
        path = self.folder / _KEY
        try:
            key = read_own(path, forbidden=0o077)
        except FileNotFoundError:
            raise CheckpointError(
                f"{path} is missing, so the training cannot be resumed: another key would show a second "
                f"noisy view of what was released. {SPENT}"
            ) from None
        except NotOursError as error:
            raise CheckpointError(
                f"{path} {error} (it must be a plain file of mode 600): whoever has read it can remove the "
                f"noise. {SPENT}"
            ) from None
        if len(key) != 32:
            raise CheckpointError(f"{path} is damaged. {SPENT}")
        return key


def steps_done(folder: str | Path) -> int:
    """How many steps of the training in a folder are done, if there is one; of a damaged one, 0."""
    try:
        return int(read_state(Path(folder))[0]["done"])
    except (OSError, NotOursError, CheckpointError):
        return 0


def remove_finished(folder: str | Path) -> None:
    """Remove the folder of a finished training, once its result is elsewhere."""
    folder = Path(folder)
    with typed(folder):
        if os.path.lexists(folder / _KEY):
            raise CheckpointError(f"the training in {folder} is not finished")
        for name in _FILES:
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()
