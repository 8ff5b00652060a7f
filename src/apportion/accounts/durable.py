"""Files that are on the disk when a function returns, and that are nobody else's."""

import errno
import os
import stat
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

_SYSTEM: Any = None
with suppress(ImportError):  # a system without
    _SYSTEM = import_module("fcntl")

# Of a file that is being written.
NEW = ".new"
# A file system that has no way past the disk's own memory says so by one of these.
_UNKNOWN = (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY)


def sync(file: int, system: Any = _SYSTEM) -> None:
    """Bring what was written to the disk itself.

    On macOS ``fsync`` leaves it in the disk's own memory, which a power cut clears; F_FULLFSYNC does not.
    ``system`` is the module ``fcntl``, or None.
    """
    full = getattr(system, "F_FULLFSYNC", None)
    if full is not None:
        try:
            system.fcntl(file, full)
        except OSError as error:
            if error.errno not in _UNKNOWN:
                raise
        else:
            return
    os.fsync(file)


def sync_folder(folder: Path) -> None:
    """Bring the names of files that were made, renamed or removed to the disk."""
    try:
        file = os.open(folder, os.O_RDONLY)
    except PermissionError:  # of Windows, where folders cannot be opened
        if os.name == "nt":
            return
        raise
    try:
        sync(file)
    finally:
        os.close(file)


def write_all(file: int, content: bytes) -> None:
    """Write everything; on return it is on the disk."""
    left = memoryview(content)
    while left:
        left = left[os.write(file, left) :]
    sync(file)  # some disks find out here that they are full


class NotOursError(Exception):
    """A file is something else than a plain file of this user alone. Says what, and which."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(what)
        self.path = path


def open_own(path: Path, flags: int, forbidden: int = 0o022) -> int:
    """Open a plain file of this user that has one name and none of these permissions.

    A link may lead anywhere, a pipe never ends, and what others may write is not ours to believe.
    """
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise NotOursError(path, "is not a plain file")
        if found.st_nlink != 1:
            raise NotOursError(path, "has another name too (a hard link), or none any more")
        if found.st_uid != os.geteuid():
            raise NotOursError(path, "belongs to another user")
        if found.st_mode & forbidden:
            raise NotOursError(
                path, f"is open to others than its owner (mode {found.st_mode & 0o777:o})"
            )
    except BaseException:
        os.close(file)
        raise
    return file


def read_own(path: Path, forbidden: int = 0o022) -> bytes:
    """The content of such a file."""
    file = open_own(path, os.O_RDONLY, forbidden)
    with os.fdopen(file, "rb") as opened:
        return opened.read()


def replace_own(path: Path, content: bytes) -> None:
    """Replace a file as a whole, for its owner's eyes only; on return it is on disk."""
    new = path.with_name(path.name + NEW)
    new.unlink(missing_ok=True)  # of a process that was killed
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            write_all(file, content)
        finally:
            os.close(file)
        new.replace(path)
    except BaseException:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def append_own(path: Path, content: bytes) -> None:
    """Add to a file of this user; on return it is on disk, and of an error nothing stays."""
    file = open_own(path, os.O_WRONLY | os.O_APPEND)
    try:
        size = os.fstat(file).st_size
        try:
            write_all(file, content)
        except BaseException:
            with suppress(OSError):  # what is torn is left out when it is read
                os.ftruncate(file, size)
            raise
    finally:
        os.close(file)


def destroy_own(path: Path) -> None:
    """Overwrite a file and remove it; on return this is on disk."""
    try:
        file = open_own(path, os.O_WRONLY)
    except FileNotFoundError:
        return
    try:
        write_all(file, bytes(os.fstat(file).st_size))
    finally:
        os.close(file)
    path.unlink()
    sync_folder(path.parent)
