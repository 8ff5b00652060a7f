"""Files that are on the disk when a function returns, and that are nobody else's."""

import errno
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

with suppress(ImportError):  # a system without
    import fcntl

# A file system that has no way past the disk's own memory says so by one of these.
_UNKNOWN = (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY)


def sync(file: int) -> None:
    """Bring what was written to the disk itself.

    On macOS ``fsync`` leaves it in the disk's own memory, which a power cut clears; F_FULLFSYNC does not.
    """
    full = getattr(sys.modules.get("fcntl"), "F_FULLFSYNC", None)
    if full is not None:
        try:
            fcntl.fcntl(file, full)
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
