"""A copy of the package as it is where nobody may write it: in a container, or installed for many."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apportion

# An editable installation would be found first.
_FOUND_HERE = """
import sys
sys.meta_path[:] = [each for each in sys.meta_path if "editable" not in type(each).__module__]
"""


@contextmanager
def read_only(folder: Path) -> Iterator[Path]:
    """A new folder for PYTHONPATH with the package in it, none of which may be written."""
    package = Path(apportion.__file__).parent
    shutil.copytree(package, folder / "apportion", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "sitecustomize.py").write_text(_FOUND_HERE)
    everything = [folder, *folder.rglob("*")]
    for path in everything:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        yield folder
    finally:
        for path in everything:
            path.chmod(0o755)


def setpriv(*options: str) -> list[str]:
    """A command that takes rights from root, which would write everywhere; of other users nothing."""
    if os.geteuid() != 0:
        return []
    program = shutil.which("setpriv")
    return [] if program is None else [program, *options]


@contextmanager
def memory_group(size: int) -> Iterator[Path | None]:
    """A new control group of so many bytes, as containers have; None where none can be made here.

    A process joins it by writing its number to the file ``cgroup.procs`` in it.
    """
    group = None
    for top, limit in (
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        ("/sys/fs/cgroup", "memory.max"),
    ):
        made = Path(top) / f"apportion-{os.getpid()}"
        try:
            made.mkdir()
        except OSError:
            continue
        try:
            with (made / limit).open("r+") as file:  # the system's own: a plain folder has none
                file.write(str(size))
            group = made
            break
        except OSError:
            made.rmdir()
    try:
        yield group
    finally:
        if group is not None:
            _remove(group)


def _remove(group: Path) -> None:
    """A process that has ended may be listed for a moment more."""
    for _ in range(100):
        try:
            group.rmdir()
            return
        except OSError:
            time.sleep(0.05)
    group.rmdir()
