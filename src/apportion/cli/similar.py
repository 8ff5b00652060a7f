"""``apportion similar``: items like an item."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apportion.cli.output import Output
from apportion.cli.reading import Model, read_id, shown_id
from apportion.cli.recommend import item_table, titles_of
from apportion.cli.terminal import Terminal
from apportion.errors import DataError, printable

if TYPE_CHECKING:
    from apportion.recommend.recommender import Recommender

# More titles than this are not listed.
_MOST_LISTED = 20


class By(StrEnum):
    """What makes items similar."""

    cosine = "cosine"
    dot = "dot"


def similar(
    to: Output,
    model: Model,
    item: Annotated[str, typer.Argument(metavar="ITEM", help="An id, or a piece of one title.")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many items.")] = 10,
    by: Annotated[
        By, typer.Option(help="cosine: the angle; dot: popular items come first.")
    ] = By.cosine,
) -> None:
    """Show the items most similar to an item.

    ITEM is an id, or a piece of a title that no other title holds. If several do, they are listed.

    [bold]Examples[/bold]

      apportion similar model 318

      apportion similar model "shawshank" -k 5

      apportion similar model 318 --by dot --json
    """
    from apportion.recommend.files import load

    recommender = load(model)
    place = _find(recommender, item)
    ids, scores = recommender.similar_items(recommender.item_ids[place], k=k, by=by.value)
    titles = titles_of(recommender, ids)
    name = shown_id(recommender.item_ids[place])
    own = "" if recommender.released.titles is None else str(recommender.released.titles[place])
    rows: list[dict[str, Any]] = [
        {"item": shown_id(each), "title": title, "similarity": float(score)}
        for each, title, score in zip(ids, titles, scores, strict=True)
    ]
    to.result({"item": name, "title": own, "by": by.value, "similar": rows})
    heading = printable(f"items like {own} ({name})" if own else f"items like {name}")
    to.show(heading, markup=False, soft_wrap=False)
    to.show(item_table(ids, titles, scores, "similarity"))


def _find(model: "Recommender", text: str) -> int:
    """The place of an item in the model, by its id or by a piece of its title."""
    from apportion.data.ids import match_ids, read_ids

    try:
        [place] = match_ids(read_ids("item", [read_id(text, model.item_ids)]), model.item_ids)
    except DataError:  # not the kind of id that this model has; perhaps a title
        place = -1
    if place >= 0:
        return int(place)
    if model.released.titles is None:
        raise DataError(f"the model does not know the item {text!r}, and it has no titles")
    titles = [str(title).casefold() for title in model.released.titles]
    exact = [place for place, title in enumerate(titles) if title == text.casefold()]
    found = exact or [place for place, title in enumerate(titles) if text.casefold() in title]
    if len(found) == 1:
        return found[0]
    if not found:
        raise DataError(f"the model has no item and no title like {text!r}")
    shown = model.item_ids[found[:_MOST_LISTED]]
    Terminal(stderr=True).print(item_table(shown, titles_of(model, shown)))
    raise DataError(f"{len(found)} titles hold {text!r}: give an id, or more of the title")
