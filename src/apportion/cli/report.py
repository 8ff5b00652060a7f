"""``apportion report``: the guarantee of a saved model."""

import typer
from rich.console import Console

from apportion.cli.reading import Json, Model


def report(model: Model, json: Json = False) -> None:
    """Show the privacy report of a saved model.

    Epsilon is computed again from the record of all releases, never read from the file.

    [bold]Examples[/bold]

      apportion report model

      apportion report model --json
    """
    from apportion.recommend.files import load

    privacy = load(model).privacy
    if json:
        typer.echo(privacy.to_json())
    else:
        Console().print(privacy)
