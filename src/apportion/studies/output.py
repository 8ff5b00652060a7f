"""Tables and figures on disk: written whole or not at all."""

import csv
import errno
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

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


def write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows with the same columns as CSV."""

    def write(file: IO[str]) -> None:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)

    _replace(path, "w", write)


def write_text(path: Path, text: str) -> None:
    """Write text."""
    _replace(path, "w", lambda file: file.write(text))


def write_figure(path: Path, figure: Figure) -> None:
    """Write a figure in the format that the path's ending names."""
    kind = path.suffix.removeprefix(".")
    metadata = {"Date": None} if kind == "svg" else {}
    _replace(
        path,
        "wb",
        lambda file: figure.savefig(
            file, format=kind, dpi=150, bbox_inches="tight", metadata=metadata
        ),
    )


def _replace(path: Path, mode: str, write: Callable[[Any], object]) -> None:
    """Write next to the path and move over it, so that an interrupted write leaves no half file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    newline = "" if mode == "w" else None
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".writing-") as folder:
        temporary = Path(folder) / path.name
        with temporary.open(mode, newline=newline) as file:
            write(file)
        temporary.replace(path)
