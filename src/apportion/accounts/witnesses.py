"""Fingerprints of the sums that a training's noise was, or may have been, added to, on disk."""

import os
from pathlib import Path
from typing import Any

from apportion.accounts.durable import append_own, read_own, replace_own
from apportion.accounts.fingerprint import fingerprint
from apportion.accounts.state import SPENT
from apportion.errors import CheckpointError
from apportion.privacy.ledger import Record


class Witnesses:
    """One for every place of the noise: a file to which each is added before its noise is drawn.

    Guarantee
        Noise of one place is drawn for one sum alone, however often a training is resumed: point 2 of
        ``checkpoint``.
    """

    def __init__(self, path: Path, key: bytes, known: dict[str, str]) -> None:
        self._path, self._key, self._known = path, key, known

    def __bool__(self) -> bool:
        return bool(self._known)

    @classmethod
    def begin(cls, path: Path, key: bytes) -> "Witnesses":
        """None yet; the file is there from the start, so that a lost one is noticed."""
        replace_own(path, b"")
        return cls(path, key, {})

    @classmethod
    def read(cls, path: Path, key: bytes) -> "Witnesses":
        """Those of a training that was interrupted."""
        try:
            content = read_own(path)
        except FileNotFoundError:
            raise CheckpointError(
                f"{path} is missing: without it nobody can tell which sums had noise. {SPENT}"
            ) from None
        # A line is whole before its noise is drawn: what is torn at the end has had none.
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(path, whole)
        found = {}
        for line in content[:whole].decode("ascii", "replace").splitlines():
            digest, _, place = line.partition(" ")
            if len(digest) != 64 or not place:
                raise CheckpointError(f"{path} is damaged. {SPENT}")
            found[place] = digest
        return cls(path, key, found)

    def check(self, record: Record, step: int, first_task: int, *sums: Any) -> None:
        """Refuse other sums than those of this place before; on return the witness is on disk."""
        place = f"{step} {first_task} {record.name}"
        # Of the record without its shape: how many items are selected follows from the noise.
        parts = (record.sensitivity, record.noise_scale, record.steps, record.sampling_rate)
        found = fingerprint([place, *parts, record.delta, *sums], self._key)
        known = self._known.get(place)
        if known is None:
            append_own(self._path, f"{found} {place}\n".encode())
            self._known[place] = found
        elif known != found:
            raise CheckpointError(
                f"release {record.name!r} was computed otherwise before the training in "
                f"{self._path.parent} was interrupted: no noise was drawn, since the same noise would give "
                "the difference away. Resume it on the machine where it was begun"
            )
