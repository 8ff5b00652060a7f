"""Tables and figures on disk: written whole or not at all."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from apportion.data.files import written_whole

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
