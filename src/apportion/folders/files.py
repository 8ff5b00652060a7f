"""Model folders on disk, written whole or not at all.

Nothing in a folder is executable, and nothing is secret: the noise key is no part of a released model.
"""

import errno
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apportion.accounts import signatures
from apportion.accounts.durable import sync
from apportion.data.files import check_folder, written_whole
from apportion.data.memory import check_memory
from apportion.errors import DataError, ParameterError
from apportion.folders.kinds import KINDS, OPTIONS, REPORT, SETTINGS, Kind
from apportion.folders.sealed import digest, is_ours, kind_of, largest, read_settings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_log = logging.getLogger(__name__)
_OURS = {signatures.FILE, OPTIONS, *(name for kind in KINDS for name in kind.files)}
_TRIED = 1 << 16  # bytes that are written to see whether a disk takes any


def save_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write these files to a folder; a model that is there already is replaced at the end.

    Other files in the folder stay; a signature and the options of the old model go, and so does a model of
    another kind.
    """
    check_target(folder)
    with _folder_written_whole(folder) as new:
        for name, content in contents.items():
            with (new / name).open("wb") as file:
                file.write(content)
                file.flush()
                sync(file.fileno())  # some disks find out here that they are full
    _log.info("saved a model to %s", folder)


def digest_of(folder: str | Path) -> str:
    """SHA-256 of the tensors in a model folder: what its report and a budget call the model."""
    folder = Path(folder)
    return digest(_read(kind_in(folder).path(folder)))


def sign_files(folder: Path, key: "Ed25519PrivateKey") -> str:
    """Sign the files of a model folder; the name of the key, which is its public part.

    The signature is one more file there, ``signature.json``. It goes when another model is saved.
    """
    content = signatures.sign(read_files(folder), key)
    with written_whole(folder / signatures.FILE) as path:
        path.write_bytes(content)
    return signatures.name_of(key.public_key())


def check_there(folder: Path) -> None:
    """Fail if there is no model folder here."""
    try:
        found = folder.is_dir()
    except (OSError, ValueError):  # a name that is too long or no name at all
        found = False
    if not found:
        raise DataError(f"there is no model folder {folder}")
    if not (folder / SETTINGS).exists():
        raise DataError(f"{folder} holds no model: {folder / SETTINGS} is missing")


def kind_in(folder: Path) -> Kind:
    """Which kind of model is in this folder."""
    check_there(folder)
    path = folder / SETTINGS
    return kind_of(path, _read(path))


def read_files(folder: Path, wanted: Kind | None = None) -> dict[str, bytes]:
    """The bytes of the files of a model folder, by name; of the kind that is wanted, or any."""
    path = folder / SETTINGS
    settings = _read(path)
    kind = kind_of(path, settings) if wanted is None else wanted
    read_settings(path, settings, kind)  # first: another version may have other files
    tensors = _read(folder / kind.file)
    report = _read(folder / REPORT, len(tensors))
    return {SETTINGS: settings, kind.file: tensors, REPORT: report}


def read_signature(folder: Path) -> bytes | None:
    """The bytes of its signature, if it has one."""
    path = folder / signatures.FILE
    return _read(path) if path.exists() else None


def folder_at(verb: str, folder: Any) -> Path:
    """The path of a folder, as ``save`` and ``load`` are given one."""
    if not isinstance(folder, (str, Path)):
        raise ParameterError(f"{verb} takes the path of a folder, got a {type(folder).__name__}")
    return Path(folder)


def check_target(folder: Path) -> bool:
    """Fail now if a model cannot be saved to this folder later; say whether it holds one already."""
    place = Path(os.path.realpath(folder))
    check_folder(place)
    check_folder(place.parent)
    if not place.exists():
        return False
    if os.path.ismount(place) or place in (Path.cwd(), *Path.cwd().parents):
        why = "in use, so it cannot be replaced as a whole; name a folder in it"
        raise OSError(errno.EBUSY, why, str(folder))
    present = {path.name for path in place.iterdir()}
    if not present:
        return False
    try:
        ours = is_ours(place / SETTINGS, _read(place / SETTINGS))
    except DataError:
        ours = False
    if not ours:
        raise DataError(f"{folder} is not empty and holds no model; choose another folder")
    return True


def try_target(folder: str | Path) -> bool:
    """As ``check_target``; and write something beside it, before a training costs anything."""
    folder = Path(folder)
    found = check_target(folder)
    place = Path(os.path.realpath(folder))
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=place.parent, prefix=".writing-") as file:
        file.write(bytes(_TRIED))
        file.flush()
        sync(file.fileno())
    return found


@contextmanager
def _folder_written_whole(folder: Path) -> Iterator[Path]:
    """An empty folder to write to, moved to the real place at the end; the old one stays until then."""
    place = Path(os.path.realpath(folder))
    place.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=place.parent, prefix=".writing-"))
    new, old = scratch / "new", scratch / "old"
    try:
        new.mkdir()
        yield new
        if place.exists():
            new.chmod(stat.S_IMODE(place.stat().st_mode))
            for path in place.iterdir():
                if path.name not in _OURS:
                    _bring_along(path, new / path.name)
        try:
            if place.exists():
                place.rename(old)
            new.rename(place)
        except BaseException:
            if old.exists() and not place.exists():
                old.rename(place)
            raise
    finally:
        if place.exists() or not old.exists():  # else the old model is in there
            shutil.rmtree(scratch, ignore_errors=True)


def _bring_along(path: Path, new: Path) -> None:
    """A second name for a file, or a folder of files, that is not ours; a copy where there is none."""
    if path.is_dir() and not path.is_symlink():
        shutil.copytree(path, new, symlinks=True, copy_function=_bring_along_file)
    else:
        _bring_along_file(path, new)


def _bring_along_file(path: str | Path, new: str | Path) -> None:
    try:
        os.link(path, new, follow_symlinks=False)
    except OSError:  # a file system that knows only one name for a file
        shutil.copy2(path, new, follow_symlinks=False)


def _read(path: Path, tensors: int = 0) -> bytes:
    """The bytes of a file of a folder, beside so many of tensors. Links are followed."""
    if not path.exists():
        raise DataError(f"{path} is missing")
    if not path.is_file():
        raise DataError(f"{path} is not a file")
    most = largest(path.name, tensors)
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if most is not None and size > most:
                raise DataError(f"{path} is too large: more than {most} bytes")
            check_memory(f"what {path} holds", 4 * size)
            return file.read(size)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
