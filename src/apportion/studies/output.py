"""Tables and figures on disk: written whole or not at all.

Figures are drawn by matplotlib, which comes with the extra ``figures`` and is loaded when the first is drawn.
"""

import csv
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apportion.data.files import check_folder, written_whole
from apportion.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NO_FIGURES = "pictures need matplotlib; run: pip install 'apportion[figures]'"
_STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 10,
    "svg.hashsalt": "apportion",
    "svg.fonttype": "none",
}


def can_draw() -> bool:
    """Whether matplotlib is there."""
    return find_spec("matplotlib") is not None


def check_output(folder: Path) -> None:
    """Fail now if tables and figures cannot be written to this folder later."""
    check_folder(folder)
    if not can_draw():
        raise ParameterError(NO_FIGURES)


def style() -> AbstractContextManager[object]:
    """How all figures look: draw within it."""
    if not can_draw():
        raise ParameterError(NO_FIGURES)
    import matplotlib

    return matplotlib.rc_context(_STYLE)


def new_figure(width: float, height: float, **settings: Any) -> "Figure":
    """An empty figure of this size, in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), **settings)


def viridis(place: float) -> Any:
    """A color between the ends of a scale, 0 and 1, that is also seen in gray."""
    import matplotlib

    return matplotlib.colormaps["viridis"](place)


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


def write_figure(path: Path, figure: "Figure") -> None:
    """Write a figure in the format that the path's ending names."""
    kind = path.suffix.removeprefix(".")
    metadata = {"Date": None} if kind == "svg" else {}
    with written_whole(path) as temporary:
        figure.savefig(temporary, format=kind, dpi=150, bbox_inches="tight", metadata=metadata)
