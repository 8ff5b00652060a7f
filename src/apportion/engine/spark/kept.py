"""Sessions of shards between two tasks: in files that every process of an executor maps into its memory.

Spark hands a shard's next task to any process of the executor. What was made of the rows (weights, orders,
users' vectors) must not be made again, nor lie in memory twice: its arrays are written to files once. A file
that is missing or torn costs time, not correctness: the shard is then made anew from its rows.
"""

import io
import mmap
import os
import pickle
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from apportion.engine.session import LocalSession
from apportion.privacy import UserWeights

_INDEX = "index"
_VERSION = 16  # bytes
_ALIGNED = 64
_LEAST = 2**12  # bytes; smaller arrays stay in the index


@dataclass(frozen=True)
class Place:
    """Where bytes lie: a file of the folder, the first byte, how many."""

    file: str
    first: int
    size: int


class Kept:
    """The session of one shard, and which of its arrays are in files already.

    Attributes
        session: of the shard.
        serial: of the last call that it was told.
    """

    def __init__(self, session: LocalSession, folder: Path) -> None:
        self.session, self.serial = session, 0
        self._folder = folder
        self._written = Written(folder)
        self._saved, self._version = -1, b""  # the index that has all that is in files

    @classmethod
    def read(
        cls, folder: Path, *, most: int, least: int = 0, known: Self | None = None
    ) -> Self | None:
        """What was saved last, if the last call that it was told is from ``least`` to ``most``.

        None also if it is what is known already; weights that are known are not checked again.
        """
        try:
            with (folder / _INDEX).open("rb") as file:
                serial, version = int.from_bytes(file.read(8), "little"), file.read(_VERSION)
                if not least <= serial <= most or (known is not None and known._version == version):
                    return None
                written = Written(folder, None if known is None else known._written)
                found = cls(written.load(file), folder)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            return None
        found.serial = found._saved = serial
        found._written, found._version = written, version
        return found

    def newer(self, *, least: int, most: int) -> Self | None:
        """What another process has saved since, if there is such; see ``read``."""
        return self.read(self._folder, least=least, most=most, known=self)

    def save(self, up_to: int) -> Self:
        """Write what is not in files yet; what was written, where it lies in files instead of memory.

        After the call ``up_to`` vectors were solved that nobody needs any more: they are left out.
        """
        session = self.session if up_to == self.serial else self.session.without_vectors()
        content, fresh = self._written.dump(session)
        if not fresh and self._saved == up_to:
            return self
        version = uuid.uuid4().bytes
        new = self._folder / f"{_INDEX}.{version.hex()}"
        new.write_bytes(up_to.to_bytes(8, "little") + version + content)
        new.replace(self._folder / _INDEX)
        self._written.tidy()
        found = self.newer(least=up_to, most=up_to)
        self._saved, self._version = up_to, version
        return found or self


class Written:
    """Arrays that are in files of a folder, by where they lie in memory."""

    def __init__(self, folder: Path, known: Self | None = None) -> None:
        self._folder = folder
        # The memory is held, so that no other array comes to lie there.
        self._places: dict[tuple[int, int], tuple[Place, Any]] = {}
        self._weights: dict[int, tuple[Any, UserWeights]] = {}
        self._known = {} if known is None else known._weights
        self._maps: dict[str, memoryview] = {}

    def load(self, file: BinaryIO) -> LocalSession:
        """A session from its index."""
        places = pickle.load(file)
        views = [self._view(place) for place in places]
        session: LocalSession = _Unpickler(file, views, self).load()
        self._known = {}
        return session

    def dump(self, session: LocalSession) -> tuple[bytes, bool]:
        """The index of a session; and whether anything had to be written."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Another process may have written the same in files of its own, and removed these.
        there = {path.name for path in self._folder.iterdir()}
        self._places = {at: own for at, own in self._places.items() if own[0].file in there}
        self._weights = {
            at: own for at, own in self._weights.items() if all(p.file in there for p, _ in own[0])
        }
        used: dict[tuple[int, int], tuple[Place, Any]] = {}
        weights: dict[int, tuple[Any, UserWeights]] = {}
        with _File(self._folder) as file:

            def place_of(buffer: pickle.PickleBuffer) -> Place:
                raw = buffer.raw()
                where = (np.frombuffer(raw, np.uint8).ctypes.data, raw.nbytes)
                if where not in self._places:
                    self._places[where] = (file.add(raw), raw)
                used[where] = self._places[where]
                return used[where][0]

            places: list[Place] = []

            def out_of_band(buffer: pickle.PickleBuffer) -> bool:
                if buffer.raw().nbytes < _LEAST:
                    return True
                places.append(place_of(buffer))
                return False

            def weights_name(own: UserWeights) -> Any:
                if id(own) in self._weights:
                    name, _ = self._weights[id(own)]
                else:
                    arrays: tuple[Any, ...] = (own.user, own.task, own.values)
                    name = [
                        (place_of(pickle.PickleBuffer(each)), each.dtype.str) for each in arrays
                    ]
                weights[id(own)] = (name, own)
                return name

            body = io.BytesIO()
            _Pickler(body, out_of_band, weights_name).dump(session)
            fresh = file.size > 0
        self._places, self._weights = used, weights
        return pickle.dumps(places) + body.getvalue(), fresh

    def tidy(self) -> None:
        """Remove files of which nothing is used any more."""
        used = {place.file for place, _ in self._places.values()} | {_INDEX}
        used |= {place.file for name, _ in self._weights.values() for place, _ in name}
        for path in self._folder.iterdir():
            if path.name not in used:
                with suppress(OSError):
                    path.unlink()

    def weights(self, name: Any) -> UserWeights:
        """Weights that were written: checked again, as all weights are that are made, or known."""
        for each, own in self._known.values():
            if each == name:
                self._weights[id(own)] = (name, own)
                return own
        arrays = [np.frombuffer(self._view(place), np.dtype(kind)) for place, kind in name]
        own = UserWeights(*arrays)
        self._weights[id(own)] = (name, own)
        return own

    def _view(self, place: Place) -> memoryview:
        if place.size == 0:
            return memoryview(b"")
        if place.file not in self._maps:
            with (self._folder / place.file).open("rb") as file:
                self._maps[place.file] = memoryview(
                    mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                )
        view = self._maps[place.file][place.first : place.first + place.size]
        if view.nbytes != place.size:
            raise EOFError
        address = np.frombuffer(view, np.uint8).ctypes.data
        self._places[address, place.size] = (place, view)
        return view


class _File:
    """A new file that is made when the first bytes come."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"{uuid.uuid4().hex}.arrays"
        self._file: Any = None
        self.size = 0

    def add(self, content: memoryview) -> Place:
        if self._file is None:
            made = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            self._file = os.fdopen(made, "wb")
        place = Place(self._path.name, self.size, content.nbytes)
        self._file.write(content)
        self._file.write(bytes(-content.nbytes % _ALIGNED))
        self.size += content.nbytes + -content.nbytes % _ALIGNED
        return place

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, out_of_band: Any, weights_name: Any) -> None:
        super().__init__(file, protocol=5, buffer_callback=out_of_band)
        self._weights_name = weights_name

    def persistent_id(self, value: Any) -> Any:
        return self._weights_name(value) if type(value) is UserWeights else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: BinaryIO, views: list[memoryview], written: Written) -> None:
        super().__init__(file, buffers=views)
        self._written = written

    def persistent_load(self, name: Any) -> UserWeights:
        return self._written.weights(name)
