"""``apportion explore``: a saved model as a page that recommends in the browser."""

import signal
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from apportion.cli.output import Output
from apportion.cli.reading import Model, read_title_file
from apportion.errors import printable

if TYPE_CHECKING:
    from apportion.explore import Explorer
    from apportion.explore.compact import Loss

PORT = 8765


class Compact(StrEnum):
    """What vectors are rounded to."""

    float16 = "float16"
    int8 = "int8"


def explore(
    to: Output,
    model: Model,
    out: Annotated[
        Path | None, typer.Option(help="Write the page to this folder, for any web server.")
    ] = None,
    single: Annotated[
        Path | None,
        typer.Option(
            "--single-file", metavar="FILE", help="Write one HTML file, which opens from a disk."
        ),
    ] = None,
    title: Annotated[
        str | None, typer.Option(show_default="the folder's name", help="Title of the page.")
    ] = None,
    groups: Annotated[
        Path | None,
        typer.Option(
            help="CSV or Parquet file with columns item and group (genre, shelf): colors of the map."
        ),
    ] = None,
    quality: Annotated[
        list[Path] | None,
        typer.Option(
            help="What to expect at other epsilons: a preparation, files of plan --json (repeat), or the "
            "table of a study (CSV)."
        ),
    ] = None,
    compact: Annotated[
        Compact | None,
        typer.Option(help="Round the vectors in the page, and measure what is lost by that."),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where to serve it; 0 takes a free one.")
    ] = PORT,
) -> None:
    """Open a saved model as a page that recommends in the browser, and shows its privacy.

    Search items, say what you like, and see recommendations, similar items and a map of all items. Everything
    is computed in the browser, from the model's files. The page sends nothing: its security
    policy forbids it.

    Without options it is served on this machine only, until interrupted (Ctrl-C). [bold]--out[/bold] writes
    it for a web server, [bold]--single-file[/bold] as one file. The page holds the model: publish it only
    if the model may be published.

    The map can be colored by groups of items that are public. What to expect at other epsilons is shown from
    files: they are not part of a model.

    [bold]Examples[/bold]

      apportion explore model

      apportion explore model --out public/films --title "Films"

      apportion explore model --single-file films.html

      apportion explore model --groups genres.csv --quality first.json --compact int8 --out public
    """
    if out is not None and single is not None:
        raise typer.BadParameter("does not go with --out", param_hint="'--single-file'")
    from apportion.explore import write_folder, write_single_file

    with to.status("reading ..."):
        page, lost = _explorer(model, title, groups, quality or [], compact)
    if not page.report.private:
        to.warn("this model is NOT PRIVATE: the page is to look at, not to be published")
    if out is not None:
        size = write_folder(page, out)
        where, how = out / "index.html", "open it from a web server"
    elif single is not None:
        size = write_single_file(page, single)
        where, how = single, "open it in a browser"
    else:
        _serve(to, page, port)
        return
    values = {"files": [str(where)], "bytes": size}
    to.result(values if lost is None else {**values, "same": lost.same, "largest": lost.largest})
    to.show(f"wrote {escape(printable(where))} ({size / 1e6:.1f} MB in all); {how}")
    if lost is not None:
        to.show(f"rounded: {lost}")


def _explorer(
    model: Path,
    title: str | None,
    groups: Path | None,
    quality: list[Path],
    smaller: Compact | None,
) -> "tuple[Explorer, Loss | None]":
    from apportion.explore import Explorer, chosen_panel, compact, exact, groups_of, read_quality
    from apportion.recommend.files import load

    released = load(model).released
    lost, note = None, ""
    if smaller is None:
        files = exact(released)
    else:
        files, lost = compact(released, smaller.value)
        note = f"Vectors in this page are rounded to {smaller.value}: {lost}."
    known = named = None
    if quality:
        found = read_quality(quality, released.fold_in.rating_range)
        known = chosen_panel(found, released.privacy.epsilon)
    if groups is not None:
        named = groups_of(read_title_file(groups, released.item_ids, "group"), released.item_ids)
    page = Explorer(
        title or model.resolve().name,
        released.privacy,
        files,
        named,
        known,
        note,
    )
    return page, lost


def _serve(to: Output, page: "Explorer", port: int) -> None:
    from apportion.explore import serve

    def show(address: str) -> None:
        to.result({"address": address})
        to.show(f"open {address} in a browser; Ctrl-C ends it")

    signal.signal(signal.SIGINT, signal.default_int_handler)  # it is how this ends
    with suppress(KeyboardInterrupt):
        serve(page, port, show)
