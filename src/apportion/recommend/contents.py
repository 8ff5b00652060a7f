"""The files of a model folder as bytes: made from a released model, and read with suspicion.

``model.json`` says what it is, how user vectors are made, and has checksums; ``items.safetensors`` has
the factors, intercepts and counts of items, ``items.parquet`` their ids and titles; ``privacy.json`` is
the report. Checksums find damage, not forgery: whoever can write a folder can write another one.
"""

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from apportion.data.files import check_columns
from apportion.data.ids import match_ids, read_ids
from apportion.privacy import PrivacyReport
from apportion.privacy.checks import number
from apportion.privacy.errors import DataError, ParameterError
from apportion.recommend.recommender import Ids, ItemModel, UserStep
from apportion.version import __version__

KIND = "apportion item model"
FORMAT = 2
SETTINGS, TENSORS, TABLE, REPORT = (
    "model.json",
    "items.safetensors",
    "items.parquet",
    "privacy.json",
)
FILES = (SETTINGS, TENSORS, TABLE, REPORT)

_ID_TYPES = (pl.Int64, pl.UInt64, pl.String, pl.Binary)


def pack(model: ItemModel, titles: Any = None) -> dict[str, bytes]:
    """The bytes of all files by name; titles as in ``apportion.recommend.files.save``."""
    tensors = {"items": np.ascontiguousarray(model.items, dtype=np.float32)}
    if model.intercepts is not None:
        tensors["intercepts"] = np.ascontiguousarray(model.intercepts, dtype=np.float32)
    if model.counts is not None:
        tensors["counts"] = np.ascontiguousarray(model.counts, dtype=np.float64)
    contents = {
        TENSORS: safetensors.numpy.save(tensors),
        TABLE: _table(model, titles),
        REPORT: model.privacy.to_json().encode(),
    }
    settings = {
        "kind": KIND,
        "format": FORMAT,
        "version": __version__,
        "user_step": {name: _plain(value) for name, value in asdict(model.user_step).items()},
        "sha256": {name: _digest(content) for name, content in contents.items()},
    }
    return {SETTINGS: json.dumps(_sealed(settings), indent=2).encode(), **contents}


def _table(model: ItemModel, titles: Any) -> bytes:
    ids = read_ids("item_ids", model.item_ids)
    dtype: Any = {"i": pl.Int64, "u": pl.UInt64}.get(ids.dtype.kind, pl.String)
    if len(ids) and isinstance(ids[0], bytes):
        dtype = pl.Binary
    columns: dict[str, tuple[Any, Any]] = {"id": (ids, dtype)}
    if model.titles is not None or titles is not None:
        columns["title"] = (_titles(model, ids, titles), pl.String)
    buffer = io.BytesIO()
    try:
        frame = pl.DataFrame(
            [pl.Series(name, values, dtype=dtype) for name, (values, dtype) in columns.items()]
        )
        frame.write_parquet(buffer)
    except UnicodeEncodeError:
        raise DataError("an id or a title of an item is text that is not valid Unicode") from None
    return buffer.getvalue()


def _titles(model: ItemModel, ids: Ids, titles: Any) -> list[str]:
    own = [""] * len(ids) if model.titles is None else [str(title) for title in model.titles]
    if titles is None:
        return own
    if isinstance(titles, Mapping):
        named, texts = read_ids("titles", list(titles)), list(titles.values())
    else:
        check_columns(titles, ["item", "title"])
        named, texts = read_ids("item", titles["item"]), _values(titles["title"])
    if len(named) and len(ids) and (named.dtype.kind == "O") != (ids.dtype.kind == "O"):
        raise DataError("titles and the model must both name items by text or both by numbers")
    for row, text in enumerate(texts):
        if not (isinstance(text, str) or _missing(text)):
            raise DataError(f"title: row {row} is not text")
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


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _sealed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with a checksum of themselves: of the values, however they are written."""
    own = _digest(json.dumps(settings, sort_keys=True).encode())
    return {**settings, "sha256": {SETTINGS: own, **settings["sha256"]}}


def unpack(folder: Path, contents: Mapping[str, bytes]) -> ItemModel:
    """The model in these files; whatever is wrong is a ``DataError`` that names the file."""
    user_step, digests = parse_settings(folder / SETTINGS, contents[SETTINGS])
    for name, digest in digests.items():
        if _digest(contents[name]) != digest:
            raise DataError(f"{folder / name} is damaged, or belongs to another model")
    tensors = _parse_tensors(folder / TENSORS, contents[TENSORS])
    items = tensors["items"]
    ids, titles = _parse_table(folder / TABLE, contents[TABLE])
    if len(ids) != len(items):
        raise DataError(
            f"{folder / TABLE} has {len(ids)} items, but {TENSORS} beside it has {len(items)}"
        )
    privacy = _parse_report(folder / REPORT, contents[REPORT])
    return ItemModel(
        items, ids, tensors.get("counts"), titles, user_step, privacy, tensors.get("intercepts")
    )


def to_bytes(model: ItemModel) -> bytes:
    """All files of a model as one."""
    files = {name: np.frombuffer(content, np.uint8) for name, content in pack(model).items()}
    return safetensors.numpy.save(files)


def from_bytes(folder: Path, content: bytes) -> ItemModel:
    """The inverse of ``to_bytes``; ``folder`` is where it was, for errors."""
    files = safetensors.numpy.load(content)
    return unpack(folder, {name: files[name].tobytes() for name in FILES})


def _json(path: Path, content: bytes) -> dict[str, Any]:
    try:
        values = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON ({type(error).__name__})") from None
    if not isinstance(values, dict):
        raise DataError(f"{path} is not a JSON object")
    return values


def is_ours(path: Path, content: bytes) -> bool:
    """Whether this is the ``model.json`` of some version, be it readable or not."""
    return bool(_json(path, content).get("kind") == KIND)


def parse_settings(path: Path, content: bytes) -> tuple[UserStep, dict[str, str]]:
    """How user vectors are made, and the checksums of the other files."""
    settings = _json(path, content)
    if settings.get("kind") != KIND:
        raise DataError(f"{path} does not describe an {KIND}")
    written = settings.get("format")
    if not isinstance(written, int) or isinstance(written, bool) or written < 1:
        raise DataError(f"{path} has no valid format number")
    if written > FORMAT:
        raise DataError(
            f"{path} was written by a newer version of apportion (format {written}, "
            f"this version reads {FORMAT}); update apportion"
        )
    _check_fields(path, "", settings, {"kind", "format", "version", "user_step", "sha256"})
    _check_fields(path, "sha256", settings["sha256"], set(FILES))
    digests = {name: settings["sha256"][name] for name in FILES if name != SETTINGS}
    if _sealed({**settings, "sha256": digests}) != settings:
        raise DataError(f"{path} is damaged: its checksum is wrong")
    try:
        return _parse_user_step(path, settings["user_step"]), digests
    except ParameterError as error:
        raise DataError(f"{path}: {error}") from None


def _check_fields(path: Path, of: str, values: Any, names: set[str]) -> None:
    if not isinstance(values, dict):
        raise DataError(f"{path}: {of} is not a JSON object")
    for kind, odd in (("an unknown", set(values) - names), ("no", names - set(values))):
        if odd:
            within = f" in {of}" if of else ""
            raise DataError(f"{path} has {kind} field {min(odd)!r}{within}")


def _parse_user_step(path: Path, values: Any) -> UserStep:
    _check_fields(path, "user_step", values, {field.name for field in fields(UserStep)})
    for name, choices in (
        ("feedback", ("explicit", "implicit")),
        ("centring", ("user", "global", "none")),
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
    return UserStep(
        feedback=values["feedback"],
        regularization=_finite("regularization", values["regularization"], at_least=0),
        exponent=_finite("exponent", values["exponent"]),
        unobserved_weight=_finite("unobserved_weight", values["unobserved_weight"], at_least=0),
        centring=values["centring"],
        mean=_finite("mean", values["mean"]),
        rating_range=within,
    )


def _finite(name: str, value: object, at_least: float = -1e300) -> float:
    return number(name, value, at_least=at_least, at_most=1e300)


def _parse_tensors(path: Path, content: bytes) -> dict[str, NDArray[Any]]:
    try:
        # A copy has its own alignment, on which sums of products may depend.
        tensors = {name: np.array(t) for name, t in safetensors.numpy.load(content).items()}
    except (SafetensorError, KeyError, ValueError) as error:
        raise DataError(f"{path} is not a readable safetensors file ({error})") from None
    if "items" not in tensors:
        raise DataError(f"{path} has no tensor 'items'")
    expected = {"items": (np.float32, 2), "intercepts": (np.float32, 1), "counts": (np.float64, 1)}
    for name, tensor in tensors.items():
        if name not in expected:
            raise DataError(f"{path} has an unknown tensor {name!r}")
        dtype, dimensions = expected[name]
        if tensor.dtype != dtype:
            wanted = np.dtype(dtype).name
            raise DataError(f"{path}: {name} must be {wanted}, not {tensor.dtype.name}")
        if tensor.ndim != dimensions:
            raise DataError(f"{path}: {name} must have {dimensions} dimensions, not {tensor.ndim}")
        if not np.isfinite(tensor).all():
            raise DataError(f"{path}: {name} holds values that are not finite")
    for name, tensor in tensors.items():
        if len(tensor) != len(tensors["items"]):
            raise DataError(f"{path} has {len(tensors['items'])} items, but {len(tensor)} {name}")
    return tensors


def _parse_table(path: Path, content: bytes) -> tuple[Ids, Ids | None]:
    try:
        return _read_table(path, content)
    except DataError:
        raise
    except (Exception, pl.exceptions.PanicException) as error:
        # Whatever a damaged file makes the reader do, and even a column that it could read.
        raise DataError(f"{path} is not a readable Parquet file ({type(error).__name__})") from None


def _read_table(path: Path, content: bytes) -> tuple[Ids, Ids | None]:
    frame = pl.read_parquet(io.BytesIO(content))
    if frame.columns not in (["id"], ["id", "title"]):
        raise DataError(f"{path} must have the columns id and, at most, title")
    ids, titles = frame["id"], frame["title"] if "title" in frame.columns else None
    if ids.dtype not in _ID_TYPES:
        raise DataError(f"{path}: id must hold 64-bit integers, strings or bytes, not {ids.dtype}")
    if ids.null_count():
        raise DataError(f"{path}: an id is missing")
    if ids.n_unique() < len(ids):
        raise DataError(f"{path} has the same id twice")
    if titles is None:
        return ids.to_numpy(), None
    if titles.dtype != pl.String or titles.null_count():
        raise DataError(f"{path}: title must hold a string for every item")
    return ids.to_numpy(), titles.to_numpy()


def _parse_report(path: Path, content: bytes) -> PrivacyReport:
    try:
        return PrivacyReport.from_json(content.decode())
    except (DataError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise DataError(f"{path} cannot be used: {error}") from None
