"""The files of a model folder as bytes: made from a released model, and read with suspicion.

``model.json`` says what it is, how user vectors are made, and has checksums; ``items.safetensors`` has
the factors, intercepts and counts of items, their ids and their titles; ``privacy.json`` is the report.
Checksums find damage, not forgery: whoever can write a folder can write another one. So what is read
must be safe to read whatever it holds: JSON of a limited size, and tensors whose sizes are those of the
file; to recommend from them takes no more time and memory than so many items and factors do. Texts are
two tensors: their bytes, one after the other, and how many of them each has.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any
from warnings import warn

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from apportion.accounts import PrivacyReport, formats, signatures
from apportion.checks import number
from apportion.data.files import table_of
from apportion.data.ids import match_ids, read_ids
from apportion.errors import DataError, ParameterError
from apportion.json_text import parse_json
from apportion.recommend.fold_in import FoldIn
from apportion.recommend.model import MOST_FACTORS, Ids, ItemModel
from apportion.version import __version__

KIND = "apportion item model"
SETTINGS, TENSORS, REPORT = "model.json", "items.safetensors", "privacy.json"
FILES = (SETTINGS, TENSORS, REPORT)
# The options of `apportion fit`, for people to use again: no part of the model.
OPTIONS = "training.toml"
# Bytes of the settings, of what describes the tensors, and of a report, besides what it may say of items.
_MOST_SETTINGS, _MOST_HEADER, _MOST_REPORT = 2**20, 2**16, 2**20

# Of every tensor that may be there: its type and its dimensions. Ids are numbers, texts or bytes.
_TENSORS: dict[str, tuple[Any, int]] = {
    "items": (np.float32, 2),
    "intercepts": (np.float32, 1),
    "counts": (np.float64, 1),
    "ids": (np.int64, 1),
    "unsigned_ids": (np.uint64, 1),
    "text_ids": (np.uint8, 1),
    "text_ids.sizes": (np.int64, 1),
    "byte_ids": (np.uint8, 1),
    "byte_ids.sizes": (np.int64, 1),
    "titles": (np.uint8, 1),
    "titles.sizes": (np.int64, 1),
}
_IDS = ("ids", "unsigned_ids", "text_ids", "byte_ids")


def largest(name: str, tensors: int) -> int | None:
    """How many bytes this file may have beside so many of tensors; None if only memory is the limit."""
    limits = {SETTINGS: _MOST_SETTINGS, signatures.FILE: _MOST_SETTINGS}
    return (limits | {REPORT: _MOST_REPORT + 4 * tensors}).get(name)


def pack(model: ItemModel, titles: Any = None) -> dict[str, bytes]:
    """The bytes of all files by name; titles as in ``apportion.recommend.files.save``."""
    tensors = {"items": np.ascontiguousarray(model.items, dtype=np.float32)}
    if model.intercepts is not None:
        tensors["intercepts"] = np.ascontiguousarray(model.intercepts, dtype=np.float32)
    if model.counts is not None:
        tensors["counts"] = np.ascontiguousarray(model.counts, dtype=np.float64)
    try:
        tensors |= _named(model, titles)
    except UnicodeEncodeError:
        raise DataError("an id or a title of an item is text that is not valid Unicode") from None
    saved, report = safetensors.numpy.save(tensors), model.privacy
    if report.trail is not None:
        report = replace(report, trail=replace(report.trail, digest=_digest(saved)))
    contents = {TENSORS: saved, REPORT: report.to_json().encode()}
    settings = {
        "kind": KIND,
        **formats.MODEL.stamp,
        "version": __version__,
        "fold_in": {name: _plain(value) for name, value in asdict(model.fold_in).items()},
        "training": dict(model.training),
        "sha256": {name: _digest(content) for name, content in contents.items()},
    }
    return {SETTINGS: json.dumps(_sealed(settings), indent=2).encode(), **contents}


def _named(model: ItemModel, titles: Any) -> dict[str, NDArray[Any]]:
    """The tensors of ids and titles."""
    ids = read_ids("item_ids", model.item_ids)
    if ids.dtype.kind == "O":
        are_bytes = len(ids) > 0 and isinstance(ids[0], bytes)
        tensors = _packed("byte_ids" if are_bytes else "text_ids", ids)
    elif ids.dtype.kind == "u":
        tensors = {"unsigned_ids": ids.astype(np.uint64)}
    else:
        tensors = {"ids": ids.astype(np.int64)}
    if model.titles is not None or titles is not None:
        tensors |= _packed("titles", _titles(model, ids, titles))
    return tensors


def _packed(name: str, texts: Iterable[str | bytes]) -> dict[str, NDArray[Any]]:
    pieces = [text if isinstance(text, bytes) else text.encode() for text in texts]
    sizes = np.array([len(piece) for piece in pieces], dtype=np.int64)
    return {name: np.frombuffer(b"".join(pieces), dtype=np.uint8), f"{name}.sizes": sizes}


def _titles(model: ItemModel, ids: Ids, titles: Any) -> list[str]:
    own = [""] * len(ids) if model.titles is None else [str(title) for title in model.titles]
    if titles is None:
        return own
    if isinstance(titles, Mapping):
        named, texts = read_ids("titles", list(titles)), list(titles.values())
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


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _sealed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with a checksum of themselves: of the values, however they are written."""
    own = _digest(json.dumps(settings, sort_keys=True).encode())
    return {**settings, "sha256": {SETTINGS: own, **settings["sha256"]}}


def unpack(folder: Path, contents: Mapping[str, bytes]) -> ItemModel:
    """The model in these files; whatever is wrong is a ``DataError`` that names the file."""
    fold_in, training, digests = parse_settings(folder / SETTINGS, contents[SETTINGS])
    for name, digest in digests.items():
        most = largest(name, len(contents[TENSORS]))
        if most is not None and len(contents[name]) > most:
            raise DataError(f"{folder / name} is too large: more than {most} bytes")
        if _digest(contents[name]) != digest:
            raise DataError(f"{folder / name} is damaged, or belongs to another model")
    tensors = _parse_tensors(folder / TENSORS, contents[TENSORS])
    ids = _parse_ids(folder / TENSORS, tensors)
    titles = _texts(folder / TENSORS, tensors, "titles") if "titles" in tensors else None
    privacy = _parse_report(folder / REPORT, contents[REPORT])
    return ItemModel(
        tensors["items"],
        ids,
        tensors.get("counts"),
        titles,
        fold_in,
        privacy,
        tensors.get("intercepts"),
        training,
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
        values = parse_json(content)
    except DataError as error:
        raise DataError(f"{path} cannot be used: {error}") from None
    if not isinstance(values, dict):
        raise DataError(f"{path} is not a JSON object")
    return values


def is_ours(path: Path, content: bytes) -> bool:
    """Whether this is the ``model.json`` of some version, be it readable or not."""
    return bool(_json(path, content).get("kind") == KIND)


def parse_settings(path: Path, content: bytes) -> tuple[FoldIn, dict[str, Any], dict[str, str]]:
    """How user vectors are made, the settings of the training, and the checksums of the other files."""
    settings = _json(path, content)
    if settings.get("kind") != KIND:
        raise DataError(f"{path} does not describe an {KIND}")
    formats.MODEL.check(path, settings.get("format"), settings.get("needs"))
    _check_seal(path, settings)
    settings = formats.MODEL.read(path, settings)
    _check_fields(path, "", settings, {"kind", "version", "fold_in", "training", "sha256"})
    digests = {name: settings["sha256"][name] for name in FILES if name != SETTINGS}
    try:
        if not isinstance(settings["training"], dict):
            raise DataError(f"{path}: training is not a JSON object")
        return _parse_fold_in(path, settings["fold_in"]), settings["training"], digests
    except ParameterError as error:
        raise DataError(f"{path}: {error}") from None


def _check_seal(path: Path, settings: Mapping[str, Any]) -> None:
    """Compare the settings, as they were written, with their checksum of themselves."""
    sums = settings.get("sha256")
    _check_fields(path, "sha256", sums, set(FILES))
    assert isinstance(sums, dict)
    digests = {name: sums[name] for name in FILES if name != SETTINGS}
    if _sealed({**settings, "sha256": digests}) != settings:
        raise DataError(f"{path} is damaged: its checksum is wrong")


def _check_fields(path: Path, of: str, values: Any, names: set[str]) -> None:
    if not isinstance(values, dict):
        raise DataError(f"{path}: {of} is not a JSON object")
    for kind, odd in (("an unknown", set(values) - names), ("no", names - set(values))):
        if odd:
            within = f" in {of}" if of else ""
            raise DataError(f"{path} has {kind} field {min(odd)!r}{within}")


def _parse_fold_in(path: Path, values: Any) -> FoldIn:
    _check_fields(path, "fold_in", values, {field.name for field in fields(FoldIn)})
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


def _parse_tensors(path: Path, content: bytes) -> dict[str, NDArray[Any]]:
    if int.from_bytes(content[:8], "little") > _MOST_HEADER:
        raise DataError(f"{path} is not a readable safetensors file (its header is too long)")
    try:
        # A copy has its own alignment, on which sums of products may depend.
        tensors = {name: np.array(t) for name, t in safetensors.numpy.load(content).items()}
    except (SafetensorError, KeyError, ValueError) as error:
        raise DataError(f"{path} is not a readable safetensors file ({error})") from None
    if "items" not in tensors:
        raise DataError(f"{path} has no tensor 'items'")
    for name, tensor in tensors.items():
        if name not in _TENSORS:
            raise DataError(f"{path} has an unknown tensor {name!r}")
        dtype, dimensions = _TENSORS[name]
        if tensor.dtype != dtype:
            wanted = np.dtype(dtype).name
            raise DataError(f"{path}: {name} must be {wanted}, not {tensor.dtype.name}")
        if tensor.ndim != dimensions:
            raise DataError(f"{path}: {name} must have {dimensions} dimensions, not {tensor.ndim}")
        if not np.isfinite(tensor).all():
            raise DataError(f"{path}: {name} holds values that are not finite")
    for name, tensor in tensors.items():
        if name.endswith(".sizes") and name.removesuffix(".sizes") not in tensors:
            raise DataError(f"{path} has a tensor {name!r} that belongs to none")
        if name == "items" and tensor.shape[1] > MOST_FACTORS:
            raise DataError(
                f"{path} has {tensor.shape[1]} factors; there are at most {MOST_FACTORS}"
            )
        if tensor.dtype != np.uint8 and len(tensor) != len(tensors["items"]):
            raise DataError(f"{path} has {len(tensors['items'])} items, but {len(tensor)} {name}")
    return tensors


def _parse_ids(path: Path, tensors: Mapping[str, NDArray[Any]]) -> Ids:
    present = [name for name in _IDS if name in tensors]
    if len(present) != 1:
        raise DataError(f"{path} must have one tensor of ids, not {len(present)}")
    [name] = present
    ids = tensors[name]
    if ids.dtype == np.uint8:
        ids = _texts(path, tensors, name)
    if len(set(ids.tolist())) < len(ids):
        raise DataError(f"{path} has the same id twice")
    return ids


def _texts(path: Path, tensors: Mapping[str, NDArray[Any]], name: str) -> Ids:
    """The texts (or bytes, of ``byte_ids``) of all items, [items]."""
    content, sizes = tensors[name], tensors.get(f"{name}.sizes")
    # The sum of non-negative sizes, each at most that of the whole, is exact in these numbers.
    if sizes is None or (sizes < 0).any() or (sizes > len(content)).any():
        raise DataError(f"{path}: {name} has no valid sizes")
    ends = np.cumsum(sizes.astype(np.float64))
    if len(content) != (ends[-1] if len(ends) else 0):
        raise DataError(f"{path}: {name} and their sizes do not agree")
    whole, texts = content.tobytes(), np.empty(len(sizes), dtype=object)
    for item, (end, size) in enumerate(zip(ends.astype(np.int64), sizes, strict=True)):
        piece = whole[end - size : end]
        try:
            texts[item] = piece if name == "byte_ids" else piece.decode()
        except UnicodeDecodeError:
            raise DataError(f"{path}: {name} of item {item} is not text") from None
    return texts


def _parse_report(path: Path, content: bytes) -> PrivacyReport:
    if _samples(_json(path, content)):  # known before anything is computed from it
        raise DataError(f"{path} has releases to sampled users, of which no such model is made")
    try:
        return PrivacyReport.from_json(content.decode())
    except (DataError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise DataError(f"{path} cannot be used: {error}") from None


def _samples(report: Mapping[str, Any]) -> bool:
    try:
        return any(record["sampling_rate"] != 1 for record in report["ledger"]["records"])
    except (KeyError, TypeError):  # no report at all, as its reader will say
        return False
