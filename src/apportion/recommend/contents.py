"""The files of a recommender's folder as bytes: made from a released model, and read with suspicion.

``model.json`` says what it is and how user vectors are made; ``items.safetensors`` has the factors,
intercepts and counts of items, their ids and their titles; ``privacy.json`` is the report.
"""

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any
from warnings import warn

import numpy as np
import safetensors.numpy

from apportion.checks import number
from apportion.data.files import is_table, table_of
from apportion.data.ids import match_ids, read_ids
from apportion.errors import DataError, ParameterError
from apportion.folders.kinds import ITEMS, REPORT, SETTINGS
from apportion.folders.sealed import (
    check_contents,
    check_fields,
    parse_report,
    read_settings,
    seal,
)
from apportion.folders.tensors import pack_ids, pack_texts, parse_ids, parse_tensors, parse_texts
from apportion.recommend.fold_in import FoldIn
from apportion.recommend.model import Ids, ItemModel


def pack(model: ItemModel, titles: Any = None) -> dict[str, bytes]:
    """The bytes of all files by name; titles as in ``apportion.recommend.files.save``."""
    tensors = {"items": np.ascontiguousarray(model.items, dtype=np.float32)}
    if model.intercepts is not None:
        tensors["intercepts"] = np.ascontiguousarray(model.intercepts, dtype=np.float32)
    if model.counts is not None:
        tensors["counts"] = np.ascontiguousarray(model.counts, dtype=np.float64)
    try:
        tensors |= pack_ids("item_ids", model.item_ids)
        if model.titles is not None or titles is not None:
            ids = read_ids("item_ids", model.item_ids)
            tensors |= pack_texts("titles", _titles(model, ids, titles))
    except UnicodeEncodeError:
        raise DataError("an id or a title of an item is text that is not valid Unicode") from None
    settings = {
        "fold_in": {name: _plain(value) for name, value in asdict(model.fold_in).items()},
        "training": dict(model.training),
    }
    return seal(ITEMS, settings, safetensors.numpy.save(tensors), model.privacy)


def _titles(model: ItemModel, ids: Ids, titles: Any) -> list[str]:
    own = [""] * len(ids) if model.titles is None else [str(title) for title in model.titles]
    if titles is None:
        return own
    if isinstance(titles, Mapping):
        named, texts = read_ids("titles", list(titles)), list(titles.values())
    elif not is_table(titles):
        kind = type(titles).__name__
        raise DataError(
            f"titles must be {{id: title}} or a table with columns item and title, got a {kind}"
        )
    else:
        titles = table_of(titles, ["item", "title"])
        named, texts = read_ids("item", titles["item"]), _values(titles["title"])
    if len(named) and len(ids) and (named.dtype.kind == "O") != (ids.dtype.kind == "O"):
        raise DataError("titles and the model must both name items by text or both by numbers")
    for row, text in enumerate(texts):
        if not (isinstance(text, str) or _missing(text)):
            raise DataError(f"title: row {row} is not text")
    if unknown := len(np.flatnonzero(match_ids(named, ids) < 0)):
        warn(
            f"{unknown} of {len(named)} titles are of items that the model does not have; they are left out",
            UserWarning,
            stacklevel=2,
        )
    places = match_ids(ids, named).tolist()
    given = [texts[place] if place >= 0 else None for place in places]
    return [new if isinstance(new, str) else old for new, old in zip(given, own, strict=True)]


def _values(column: Any) -> list[Any]:
    """A column of a polars, pandas or pyarrow table as Python values."""
    return column.to_pylist() if hasattr(column, "to_pylist") else list(column)


def _missing(value: object) -> bool:
    """None, NaN, or the NA of pandas, which does not compare with anything."""
    return value is None or str(value) in ("nan", "<NA>")


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def unpack(folder: Path, contents: Mapping[str, bytes]) -> ItemModel:
    """The model in these files; whatever is wrong is a ``DataError`` that names the file."""
    path = folder / SETTINGS
    settings = read_settings(path, contents[SETTINGS], ITEMS)
    try:
        fold_in = _parse_fold_in(path, settings["fold_in"])
    except ParameterError as error:
        raise DataError(f"{path}: {error}") from None
    check_contents(folder, contents, settings, ITEMS)
    path = ITEMS.path(folder)
    tensors = parse_tensors(path, contents[ITEMS.file], ITEMS)
    return ItemModel(
        tensors["items"],
        parse_ids(path, tensors),
        tensors.get("counts"),
        parse_texts(path, tensors, "titles") if "titles" in tensors else None,
        fold_in,
        parse_report(folder / REPORT, contents[REPORT], sampled=False),
        tensors.get("intercepts"),
        settings["training"],
    )


def to_bytes(model: ItemModel) -> bytes:
    """All files of a model as one."""
    files = {name: np.frombuffer(content, np.uint8) for name, content in pack(model).items()}
    return safetensors.numpy.save(files)


def from_bytes(folder: Path, content: bytes) -> ItemModel:
    """The inverse of ``to_bytes``; ``folder`` is where it was, for errors."""
    files = safetensors.numpy.load(content)
    return unpack(folder, {name: files[name].tobytes() for name in ITEMS.files})


def _parse_fold_in(path: Path, values: Any) -> FoldIn:
    check_fields(path, "fold_in", values, {field.name for field in fields(FoldIn)})
    for name, choices in (
        ("feedback", ("explicit", "implicit")),
        ("center", ("user", "global", "none")),
    ):
        if values[name] not in choices:
            raise DataError(f"{path}: {name} must be one of {', '.join(choices)}")
    within = values["rating_range"]
    if within is not None:
        if not isinstance(within, list) or len(within) != 2:
            raise DataError(f"{path}: rating_range must be two numbers")
        low, high = (_finite("rating_range", value) for value in within)
        if not low < high:
            raise DataError(f"{path}: rating_range must go up")
        within = low, high
    return FoldIn(
        feedback=values["feedback"],
        regularization=number("regularization", values["regularization"], at_least=0, at_most=1e30),
        exponent=number("exponent", values["exponent"], at_least=0, at_most=2),
        unobserved_weight=number(
            "unobserved_weight", values["unobserved_weight"], at_least=0, at_most=1e30
        ),
        center=values["center"],
        mean=_finite("mean", values["mean"]),
        shrinkage=number("shrinkage", values["shrinkage"], at_least=0, at_most=1e15),
        rating_range=within,
    )


def _finite(name: str, value: object) -> float:
    return number(name, value, at_least=-1e30, at_most=1e30)
