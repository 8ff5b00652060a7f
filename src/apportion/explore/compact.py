"""The files of a model as the page reads them: only what it needs, in the smallest types that hold it.

Vectors are those of the model, or rounded to float16 or int8 where that is asked for, and then what is lost
by it is measured. The model folder stays as it is, and what the page has is no model folder: its settings
say so.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from apportion.errors import ParameterError
from apportion.folders.kinds import ITEMS, SETTINGS
from apportion.recommend import ItemModel, Recommender
from apportion.recommend.contents import pack

Kind = Literal["float16", "int8"]
KIND = "apportion item model, for its page"
_PEOPLE, _LIKED, _LISTED = 100, 5, 20
_LEVELS = 127


@dataclass(frozen=True)
class Loss:
    """What rounding changes, for a hundred invented histories: an item and those that are most like it.

    Attributes
        same: of the 20 best items for each of them, the mean share that are the same.
        largest: the largest change of a score.
    """

    same: float
    largest: float

    def __str__(self) -> str:
        return (
            f"of the {_LISTED} best items for invented histories {self.same:.1%} are the same, "
            f"and no score changes by more than {self.largest:.2g}"
        )


def exact(released: ItemModel) -> dict[str, bytes]:
    """The files of the page, with the model's own vectors."""
    return _files(released, {})


def compact(released: ItemModel, kind: Kind) -> tuple[dict[str, bytes], Loss]:
    """The files of the page with smaller vectors, and what is lost by that."""
    rounded, stored = _rounded(released.items, kind)
    return _files(released, stored), _loss(released, replace(released, items=rounded))


def _files(released: ItemModel, stored: Mapping[str, NDArray[Any]]) -> dict[str, bytes]:
    files = pack(released)
    tensors = {**safetensors.numpy.load(files[ITEMS.file]), **stored}
    for name, values in tensors.items():
        if name == "counts":  # they are shown with two digits, and rank items
            tensors[name] = values.astype(np.float32)
        elif name == "ids" or name.endswith(".sizes"):
            tensors[name] = _narrow(values)
    fold_in = json.loads(files[SETTINGS])["fold_in"]
    known = {"kind": KIND, "fold_in": fold_in, "tastes": released.knows_tastes}
    settings = json.dumps(known).encode()
    return {SETTINGS: settings, ITEMS.file: safetensors.numpy.save(tensors)}


def _narrow(values: NDArray[np.int64]) -> NDArray[Any]:
    """The same numbers in the first of these types that holds them."""
    low, high = (values.min(), values.max()) if len(values) else (0, 0)
    for kind in (np.uint8, np.uint16, np.int32):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return values.astype(kind)
    return values


def _rounded(
    items: NDArray[np.float32], kind: Kind
) -> tuple[NDArray[np.float32], Mapping[str, NDArray[Any]]]:
    """The vectors after rounding, [items, factors], and the tensors that hold them."""
    if kind == "float16":
        with np.errstate(over="ignore"):
            half = items.astype(np.float16)
        if not np.isfinite(half).all():
            raise ParameterError("an item's vector is too long for float16: use int8")
        return half.astype(np.float32), {"items": half}
    largest = np.abs(items).max(axis=1, initial=0.0, keepdims=True)
    scales = (np.where(largest > 0, largest, 1.0) / _LEVELS).astype(np.float32)
    whole = np.clip(np.rint(items / scales), -_LEVELS, _LEVELS).astype(np.int8)
    return whole * scales, {"items": whole, "items.scales": scales[:, 0]}


def _loss(released: ItemModel, rounded: ItemModel) -> Loss:
    one, other = Recommender(released), Recommender(rounded)
    count = len(released.item_ids)
    low, high = released.fold_in.rating_range or (1.0, 5.0)
    alike = count > 1 and released.knows_tastes
    same, largest = [], 0.0
    for person in range(min(_PEOPLE, count)):
        first = released.item_ids[person * count // min(_PEOPLE, count)]
        liked = [first, *(one.similar_items(first, _LIKED - 1)[0] if alike else [])]
        history: Any = liked
        if (
            released.fold_in.feedback == "explicit"
        ):  # all ratings equal would say nothing of a taste
            history = dict(zip(liked, np.linspace(high, (low + high) / 2, len(liked)), strict=True))
        best = one.recommend(history, _LISTED)[0]
        if len(best) == 0:
            continue
        same.append(np.isin(best, other.recommend(history, _LISTED)[0]).mean())
        change = one.predict(history, best) - other.predict(history, best)
        largest = max(largest, float(np.abs(change).max()))
    return Loss(float(np.mean(same)) if same else 1.0, largest)
