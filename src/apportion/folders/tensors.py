"""The tensors of a model folder: arrays, ids and texts, one row for each item or task."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from apportion.data.ids import read_ids
from apportion.errors import DataError
from apportion.folders.kinds import IDS, Kind

Ids = NDArray[Any]
# Bytes of what describes the tensors.
_MOST_HEADER = 2**16


def pack_ids(name: str, values: Any) -> dict[str, NDArray[Any]]:
    """The tensors of these ids, which errors call by this name."""
    ids = read_ids(name, values)
    if ids.dtype.kind == "O":
        are_bytes = len(ids) > 0 and isinstance(ids[0], bytes)
        return pack_texts("byte_ids" if are_bytes else "text_ids", ids)
    if ids.dtype.kind == "u":
        return {"unsigned_ids": ids.astype(np.uint64)}
    return {"ids": ids.astype(np.int64)}


def pack_texts(name: str, texts: Iterable[str | bytes]) -> dict[str, NDArray[Any]]:
    """The tensors of these texts."""
    pieces = [text if isinstance(text, bytes) else text.encode() for text in texts]
    sizes = np.array([len(piece) for piece in pieces], dtype=np.int64)
    return {name: np.frombuffer(b"".join(pieces), dtype=np.uint8), f"{name}.sizes": sizes}


def parse_tensors(path: Path, content: bytes, kind: Kind) -> dict[str, NDArray[Any]]:
    """All tensors of a file, each of the type and size that it must have."""
    if int.from_bytes(content[:8], "little") > _MOST_HEADER:
        raise DataError(f"{path} is not a readable safetensors file (its header is too long)")
    try:
        # A copy has its own alignment, on which sums of products may depend.
        tensors = {name: np.array(t) for name, t in safetensors.numpy.load(content).items()}
    except (SafetensorError, KeyError, ValueError) as error:
        raise DataError(f"{path} is not a readable safetensors file ({error})") from None
    if kind.main not in tensors:
        raise DataError(f"{path} has no tensor {kind.main!r}")
    for name, tensor in tensors.items():
        if name not in kind.tensors:
            raise DataError(f"{path} has an unknown tensor {name!r}")
        dtype, dimensions = kind.tensors[name]
        if tensor.dtype != dtype:
            wanted = np.dtype(dtype).name
            raise DataError(f"{path}: {name} must be {wanted}, not {tensor.dtype.name}")
        if tensor.ndim != dimensions:
            raise DataError(f"{path}: {name} must have {dimensions} dimensions, not {tensor.ndim}")
        if not np.isfinite(tensor).all():
            raise DataError(f"{path}: {name} holds values that are not finite")
    main = tensors[kind.main]
    if main.shape[1] > kind.most_columns:
        raise DataError(
            f"{path} has {main.shape[1]} {kind.columns}; there are at most {kind.most_columns}"
        )
    for name, tensor in tensors.items():
        if name.endswith(".sizes") and name.removesuffix(".sizes") not in tensors:
            raise DataError(f"{path} has a tensor {name!r} that belongs to none")
        of_columns = name.split(".")[0] == kind.columns
        if tensor.dtype != np.uint8 and len(tensor) != main.shape[of_columns]:
            what = kind.columns if of_columns else kind.rows
            raise DataError(f"{path} has {main.shape[of_columns]} {what}, but {len(tensor)} {name}")
    return tensors


def parse_ids(path: Path, tensors: Mapping[str, NDArray[Any]]) -> Ids:
    """The ids of all rows, [rows]."""
    present = [name for name in IDS if name in tensors]
    if len(present) != 1:
        raise DataError(f"{path} must have one tensor of ids, not {len(present)}")
    [name] = present
    ids = tensors[name]
    if ids.dtype == np.uint8:
        ids = parse_texts(path, tensors, name)
    if len(set(ids.tolist())) < len(ids):
        raise DataError(f"{path} has the same id twice")
    return ids


def parse_texts(path: Path, tensors: Mapping[str, NDArray[Any]], name: str) -> Ids:
    """These texts (or bytes, of ``byte_ids``), [rows]."""
    content, sizes = tensors[name], tensors.get(f"{name}.sizes")
    # The sum of non-negative sizes, each at most that of the whole, is exact in these numbers.
    if sizes is None or (sizes < 0).any() or (sizes > len(content)).any():
        raise DataError(f"{path}: {name} has no valid sizes")
    ends = np.cumsum(sizes.astype(np.float64))
    if len(content) != (ends[-1] if len(ends) else 0):
        raise DataError(f"{path}: {name} and their sizes do not agree")
    whole, texts = content.tobytes(), np.empty(len(sizes), dtype=object)
    for row, (end, size) in enumerate(zip(ends.astype(np.int64), sizes, strict=True)):
        piece = whole[end - size : end]
        try:
            texts[row] = piece if name == "byte_ids" else piece.decode()
        except UnicodeDecodeError:
            raise DataError(f"{path}: {name} of row {row} is not text") from None
    return texts
