"""``apportion explore``: a saved model as a page that recommends in the browser."""

import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from apportion.cli.output import Output
from apportion.cli.reading import Model
from apportion.errors import printable

if TYPE_CHECKING:
    from apportion.explore import Explorer

PORT = 8765


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
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where to serve it; 0 takes a free one.")
    ] = PORT,
) -> None:
    """Open a saved model as a page that recommends in the browser, and shows its privacy.

    Search items, say what you like, and see recommendations, similar items and a map of all items. Everything
    is computed in the browser, from the model's files. The page sends nothing: a policy in it forbids the
    browser to.

    Without options it is served on this machine only, until interrupted (Ctrl-C). [bold]--out[/bold] writes
    it for a web server, [bold]--single-file[/bold] as one file. The page holds the model: publish it only
    if the model may be published.

    [bold]Examples[/bold]

      apportion explore model

      apportion explore model --out public/films --title "Films"

      apportion explore model --single-file films.html
    """
    if out is not None and single is not None:
        raise typer.BadParameter("does not go with --out", param_hint="'--single-file'")
    from apportion.explore import write_folder, write_single_file

    with to.status("reading ..."):
        page = _explorer(model, title)
    if out is not None:
        size = write_folder(page, out)
        where, how = out / "index.html", "open it from a web server"
    elif single is not None:
        size = write_single_file(page, single)
        where, how = single, "open it in a browser"
    else:
        _serve(to, page, port)
        return
    to.result({"files": [str(where)], "bytes": size})
    to.show(f"wrote {escape(printable(where))} ({size / 1e6:.1f} MB in all); {how}")


def _explorer(model: Path, title: str | None) -> "Explorer":
    from apportion.explore import Explorer
    from apportion.folders.files import read_files
    from apportion.folders.kinds import ITEMS, SETTINGS
    from apportion.recommend.files import load

    released = load(model).released
    files = read_files(model, ITEMS)
    return Explorer(
        title or model.resolve().name,
        released.privacy,
        {name: files[name] for name in (SETTINGS, ITEMS.file)},
    )


def _serve(to: Output, page: "Explorer", port: int) -> None:
    from apportion.explore import serve

    def show(address: str) -> None:
        to.result({"address": address})
        to.show(f"open {address} in a browser; Ctrl-C ends it")

    signal.signal(signal.SIGINT, signal.default_int_handler)  # it is how this ends
    with suppress(KeyboardInterrupt):
        serve(page, port, show)
