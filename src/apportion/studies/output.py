"""Tables and figures on disk: written whole or not at all."""

import csv
import errno
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 10,
    "svg.hashsalt": "apportion",
    "svg.fonttype": "none",
}


def check_folder(folder: Path) -> None:
    """Fail now if files cannot be written to this folder later; create nothing."""
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not existing.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(existing))
    if not os.access(existing, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "no permission to write here", str(existing))


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A path to write to instead, moved over the real one at the end: no half file is left behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".writing-") as folder:
        temporary = Path(folder) / path.name
        yield temporary
        temporary.replace(path)


def write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows with the same columns as CSV."""
    with written_whole(path) as temporary, temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_text(path: Path, text: str) -> None:
    """Write text."""
    with written_whole(path) as temporary:
        temporary.write_text(text)


def write_figure(path: Path, figure: Figure) -> None:
    """Write a figure in the format that the path's ending names."""
    kind = path.suffix.removeprefix(".")
    metadata = {"Date": None} if kind == "svg" else {}
    with written_whole(path) as temporary:
        figure.savefig(temporary, format=kind, dpi=150, bbox_inches="tight", metadata=metadata)
