"""A disk that fails once, and one that forgets what was not synced. For a process begun under ``disk.c``."""

import ctypes
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

SOURCE = Path(__file__).with_name("disk.c")
_SECTOR = 512


def build(folder: Path) -> Path:
    """The library to be loaded before the C library."""
    library = folder / "disk.so"
    words = ["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(words, check=True)
    return library


class Disk:
    """The files of one folder, in this process."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder).encode()
        self._calls = ctypes.CDLL(None)  # with what was loaded before
        self._calls.disk_watch.argtypes = (
            ctypes.c_char_p, ctypes.c_long, ctypes.c_int, ctypes.c_int
        )  # fmt: skip
        self._calls.disk_calls.restype = ctypes.c_long
        self._rest()

    def _rest(self) -> None:
        """Nothing fails, nothing is recorded, and no call waits for the real disk."""
        self._calls.disk_watch(self._folder, 0, 0, -1)

    @contextmanager
    def failing(self, at: int, error: int) -> Iterator[None]:
        """The call of this number, from one on, fails once with this error."""
        self._calls.disk_watch(self._folder, at, error, -1)
        try:
            yield
        finally:
            self.calls, self.failed = self._calls.disk_calls(), bool(self._calls.disk_failed())
            self._rest()

    @contextmanager
    def recorded(self, path: Path) -> Iterator[None]:
        """What is written and synced goes to a file, too."""
        record = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._calls.disk_watch(self._folder, 0, 0, record)
        try:
            yield
        finally:
            self._rest()
            os.close(record)

    def mark(self, text: str) -> None:
        """Something has left the process."""
        self._calls.disk_mark(text.encode())


@dataclass(frozen=True)
class Call:
    kind: str
    path: str
    other: str
    offset: int
    content: bytes


def read_record(path: Path) -> list[Call]:
    """The calls of a record, in their order."""
    content, place, calls = path.read_bytes(), 0, []
    while place < len(content):
        end = content.index(b"\n", place)
        kind, name, other, offset, size = content[place:end].decode().split("\t")
        place = end + 1 + int(size)
        calls.append(Call(kind, name, other, int(offset), content[end + 1 : place]))
    return calls


@dataclass
class _File:
    """What the disk has for certain, and what it may have."""

    synced: bytearray = field(default_factory=bytearray)
    waiting: list[Call] = field(default_factory=list)

    def content(self, calls: list[Call]) -> bytes:
        found = bytearray(self.synced)
        for call in calls:
            if call.kind == "cut":
                del found[call.offset :]
                found.extend(bytes(call.offset - len(found)))
            else:
                found.extend(bytes(max(0, call.offset - len(found))))
                found[call.offset : call.offset + len(call.content)] = call.content
        return bytes(found)


class Memory:
    """A folder as the disk has it: names and contents, each synced or not."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._now: dict[str, _File | None] = {}  # None: a folder
        self._synced: dict[str, _File | None] = {}

    def after(self, call: Call) -> None:
        """One more call."""
        if call.kind == "create":
            self._now[call.path] = _File()
        elif call.kind == "mkdir":
            self._now[call.path] = None
        elif call.kind in ("unlink", "rmdir"):
            self._now.pop(call.path, None)
        elif call.kind == "rename":
            self._now[call.other] = self._now.pop(call.path)
        elif call.kind in ("write", "cut"):
            file = self._now.get(call.path)
            if file is not None:
                file.waiting.append(call)
        elif call.kind == "sync":
            file = self._now.get(call.path)
            if file is not None:
                file.synced = bytearray(file.content(file.waiting))
                file.waiting.clear()
            else:  # the names in a folder
                for path in {*self._now, *self._synced}:
                    if os.path.dirname(path) == call.path:  # noqa: PTH120
                        self._synced.pop(path, None)
                        if path in self._now:
                            self._synced[path] = self._now[path]

    def lost(self, way: str, target: Path, source: random.Random) -> None:
        """The folder after the power has failed now, in a new place.

        Args:
            way: "least": only what was synced; "names": all names, but only synced contents; "contents":
                the other way round; "some": names or not, and of every file some of the writes, torn.
            target: the new place, replaced.
            source: of chance.
        """
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(mode=0o700)
        names = self._synced
        if way == "names" or (way == "some" and source.random() < 0.5):
            names = self._now
        for path, file in sorted(names.items()):
            place = target / os.path.relpath(path, self._folder)
            if not place.parent.is_dir() or path.endswith("-shm"):
                continue  # the memory that SQLite shares is made anew
            if file is None:
                place.mkdir(mode=0o700)
                continue
            waiting = {"contents": file.waiting, "some": _some(file.waiting, source)}.get(way, [])
            place.write_bytes(file.content(waiting))
            place.chmod(0o600)


def _some(calls: list[Call], source: random.Random) -> list[Call]:
    """Any of these writes may have come to the disk, and parts of each, sector by sector."""
    found = []
    for call in calls:
        chance = source.random()
        if call.kind == "cut" and chance < 0.5:
            found.append(call)
        elif call.kind == "write" and chance < 0.7:
            size = len(call.content)
            if chance < 0.3:
                size = source.randrange(0, size + _SECTOR, _SECTOR)
            found.append(Call("write", call.path, "", call.offset, call.content[:size]))
    return found
