"""What several commands read: interactions, ids and titles. Ids of text files fit those of a model."""

import math
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apportion.errors import DataError

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from apportion.data import Interactions

DATA_PANEL = "Data"

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a saved model.")]


class Name(StrEnum):
    """The known data sets."""

    ml_100k = "ml-100k"
    ml_1m = "ml-1m"
    ml_10m = "ml-10m"
    ml_20m = "ml-20m"
    msd = "msd"


DataSetName = Annotated[
    Name | None,
    typer.Option(
        "--data-set", help="DATA is the archive of this data set.", rich_help_panel=DATA_PANEL
    ),
]
UserColumn = Annotated[
    str | None,
    typer.Option(
        "--user",
        metavar="COLUMN",
        show_default="user",
        help="Column of users.",
        rich_help_panel=DATA_PANEL,
    ),
]
ItemColumn = Annotated[
    str | None,
    typer.Option(
        "--item",
        metavar="COLUMN",
        show_default="item",
        help="Column of items.",
        rich_help_panel=DATA_PANEL,
    ),
]
RatingColumn = Annotated[
    str | None,
    typer.Option(
        "--rating",
        metavar="COLUMN",
        show_default="rating",
        help="Column of ratings.",
        rich_help_panel=DATA_PANEL,
    ),
]
TimeColumn = Annotated[
    str | None,
    typer.Option(
        "--timestamp",
        metavar="COLUMN",
        help="Column of times: numbers, dates or times.",
        rich_help_panel=DATA_PANEL,
    ),
]
WeightColumn = Annotated[
    str | None,
    typer.Option(
        "--weight",
        metavar="COLUMN",
        help="Of events: column of how much each row counts beside its user's others.",
        rich_help_panel=DATA_PANEL,
    ),
]
CountRepeats = Annotated[
    bool,
    typer.Option(
        "--count-repeats",
        help="Of events: a pair of user and item counts by how often it is there.",
        rich_help_panel=DATA_PANEL,
    ),
]
WeightBound = Annotated[
    float | None,
    typer.Option(
        show_default="10",
        help="Of --weight and --count-repeats: the largest weight of a pair; public.",
        rich_help_panel=DATA_PANEL,
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        show_default="utf-8",
        help="Of the rows' CSV files: latin-1, cp1252, utf-16, ...",
        rich_help_panel=DATA_PANEL,
    ),
]
Positives = Annotated[
    float | None,
    typer.Option(
        metavar="RATING",
        help="Take ratings of at least this as events, and no others.",
        rich_help_panel=DATA_PANEL,
    ),
]


@dataclass(frozen=True)
class Source:
    """A file of interactions, or the archive of a data set, and how it is to be read.

    Attributes
        path: CSV or Parquet file, folder of Parquet files, or archive.
        data_set: the name of the data set that the archive holds, or None.
        user, item, rating: names of columns; None for the usual ones.
        implicit: whether events are wanted, without ratings.
        positives: the lowest rating that is an event, if the data have ratings and events are wanted.
        timestamp: the name of the column of times, or None if they play no part.
        weight: the column of events' weights; True if repeated rows count.
        weight_bound: the largest weight of a pair of user and item; None for the usual one.
        encoding: of a CSV file that is not UTF-8.
    """

    path: Path
    data_set: Name | None = None
    user: str | None = None
    item: str | None = None
    rating: str | None = None
    implicit: bool = False
    positives: float | None = None
    timestamp: str | None = None
    weight: str | bool | None = None
    weight_bound: float | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        if self.weight and (not self.implicit or self.positives is not None):
            raise typer.BadParameter(
                "is for events: add --implicit, and leave out --positives",
                param_hint="'--weight' / '--count-repeats'",
            )
        if self.weight_bound is not None and not self.weight:
            raise typer.BadParameter(
                "goes with --weight or --count-repeats", param_hint="'--weight-bound'"
            )
        if self.data_set is None:
            return
        for name in ("user", "item", "rating", "timestamp", "weight", "encoding"):
            if getattr(self, name):
                raise typer.BadParameter(
                    "is for other files; a data set knows its own", param_hint=f"'--{name}'"
                )

    def read(
        self,
        *,
        items: Path | str | None = None,
        rating_range: tuple[float, float] | None = None,
        outside: Any = "error",
        like: "NDArray[Any] | None" = None,
    ) -> "Interactions":
        """The interactions.

        Args:
            items: a file of ids, "public", or None, as for ``Interactions``; not of data sets.
            rating_range, outside: as for ``Interactions``; not of data sets.
            like: ids of a model's items, for those of the data to be of the same type.
        """
        from apportion.data.datasets import read_data_set
        from apportion.data.ids import match_ids

        if self.data_set is not None:
            data = read_data_set(self.data_set.value, self.path)
        else:
            data = self._read_file(items, rating_range, outside, like)
        if self.implicit and data.explicit:
            data = data.positives(-math.inf if self.positives is None else self.positives)
        if like is not None and not (match_ids(data.item_ids, like) >= 0)[data.by_user.other].any():
            raise DataError(f"the model knows none of the items in {self.path}")
        return data

    def bound_of_weights(self) -> dict[str, float]:
        """As an argument, if one is given."""
        return {} if self.weight_bound is None else {"weight_bound": self.weight_bound}

    def _read_file(
        self,
        items: Path | str | None,
        rating_range: tuple[float, float] | None,
        outside: Any,
        like: "NDArray[Any] | None",
    ) -> "Interactions":
        from apportion.data import Interactions
        from apportion.data.catalog import id_type, read_id_list
        from apportion.data.files import has_column, read_columns
        from apportion.data.sources import ALL_RATINGS

        user, item, rating = self.user or "user", self.item or "item", self.rating or "rating"
        rated = not self.implicit or self.positives is not None
        catalog: Any = read_id_list(items) if isinstance(items, Path) else items
        kinds = {item: id_type(catalog if like is None else like)}
        others = [] if self.timestamp is None else [self.timestamp]
        columns = [rating] if rated else []
        columns += [self.weight] if isinstance(self.weight, str) else []
        letters = self.encoding or "utf-8"
        frame = read_columns(
            self.path, [user, item], columns, kinds, others=others, encoding=letters
        )
        if isinstance(items, Path):  # a Parquet file has types of its own
            if frame[item].dtype.is_numeric():
                like = catalog.to_numpy()
            else:
                catalog = ids_like(catalog, frame[item].head(1).to_numpy(), items)
        if like is not None:
            frame = frame.with_columns(ids_like(frame[item], like, self.path))
            if catalog is None:  # the model's items, and those of the file that it does not know
                found = frame[item].unique(maintain_order=True).to_list()
                catalog = list(dict.fromkeys([*like.tolist(), *found]))
        data = Interactions.from_frame(
            frame,
            user=user,
            item=item,
            rating=rating if rated else None,
            items=catalog,
            rating_range=rating_range,
            outside=outside,
            timestamp=self.timestamp,
            weight=self.weight,
            **self.bound_of_weights(),
        )
        if not (rated or self.weight) and has_column(self.path, rating, letters):
            data.events = ALL_RATINGS
        return data


def ids_like(ids: "pl.Series", like: "NDArray[Any]", path: Path) -> "pl.Series":
    """The ids of a file in the type of others, if that changes none of them.

    Numbers of a text file were text: they are again, where the others are.
    """
    import polars as pl

    from apportion.data.files import is_text

    if isinstance(ids.dtype, (pl.Categorical, pl.Enum)):
        ids = ids.cast(pl.String)
    if like.dtype.kind != "O":
        wanted, fits = "whole numbers", ids.dtype.is_numeric()
    elif len(like) and isinstance(like[0], bytes):
        wanted, fits = "bytes", ids.dtype == pl.Binary
    else:
        wanted, fits = "text", ids.dtype == pl.String
    if fits or len(like) == 0:
        return ids
    if not is_text(path) or wanted == "whole numbers":
        raise DataError(f"{path}: the ids in {ids.name} must be {wanted} to match")
    text = ids.cast(pl.String)
    return text.cast(pl.Binary) if wanted == "bytes" else text


def read_id(text: str, like: "NDArray[Any]") -> Any:
    """An id that was typed, in the type of the model's."""
    if len(like) and isinstance(like[0], bytes):
        return text.encode()
    if like.dtype.kind == "O":
        return text
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise DataError(f"{text!r} is no id of this model: its ids are whole numbers")
    return int(text)


def shown_id(item: Any) -> Any:
    """An id for tables and JSON: a number or text."""
    plain = item.item() if hasattr(item, "item") else item
    return plain.decode("utf-8", "backslashreplace") if isinstance(plain, bytes) else plain


def read_title_file(path: Path, like: "NDArray[Any]", column: str = "title") -> dict[Any, str]:
    """{id: title} from the columns item and title (or another) of a CSV or Parquet file."""
    import polars as pl

    from apportion.data.catalog import id_type
    from apportion.data.files import read_columns
    from apportion.data.ids import read_ids

    kinds = {"item": id_type(like), column: pl.String}
    frame = read_columns(path, ["item", column], [], kinds).drop_nulls("item")
    ids = read_ids("item", ids_like(frame["item"], like, path))
    titles = frame[column].cast(pl.String).fill_null("")
    return dict(zip(ids.tolist(), titles.to_list(), strict=True))
