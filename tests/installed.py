"""A copy of the package as it is where nobody may write it: in a container, or installed for many."""

import os
import shutil
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
