"""The files of a folder of task models as bytes: made from released models, and read with suspicion.

``model.json`` says what they are and what they predict; ``tasks.safetensors`` has coefficients, intercepts,
counts, noise and standard errors, the ids of the tasks and the names of the features; ``privacy.json`` is the
report.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from apportion.errors import DataError, ParameterError
from apportion.folders.kinds import REPORT, SETTINGS, TASK_MODELS
from apportion.folders.sealed import (
    check_contents,
    check_fields,
    parse_report,
    read_settings,
    seal,
)
from apportion.folders.tensors import pack_ids, pack_texts, parse_ids, parse_tensors, parse_texts
from apportion.tasks.models import TaskModel
from apportion.tasks.predictions import Prediction

_OPTIONAL = ("counts", "noise", "errors", "intercept_errors")
# What is predicted where tasks are classes.
_CLASS = "class"


def pack(model: TaskModel) -> dict[str, bytes]:
    """The bytes of all files by name."""
    tensors = {"coef": model.coef, "intercept": model.intercept}
    found = {name: getattr(model, name) for name in _OPTIONAL}
    tensors |= {name: array for name, array in found.items() if array is not None}
    tensors = {name: np.ascontiguousarray(array, np.float64) for name, array in tensors.items()}
    try:
        tensors |= pack_ids("task_ids", model.task_ids)
        if model.feature_names is not None:
            tensors |= pack_texts("features", model.feature_names)
    except UnicodeEncodeError:
        raise DataError(
            "an id of a task or a name of a feature is text that is not valid Unicode"
        ) from None
    prediction = model.prediction
    predicts: dict[str, Any] = {"predicts": _CLASS, "loss": "", "ceiling": "inf"}
    if prediction is not None:
        ceiling = "inf" if math.isinf(prediction.ceiling) else prediction.ceiling
        predicts = {"predicts": prediction.predicts, "loss": prediction.loss, "ceiling": ceiling}
    settings = {"predicts": predicts, "training": dict(model.training)}
    return seal(TASK_MODELS, settings, safetensors.numpy.save(tensors), model.privacy)


def unpack(folder: Path, contents: Mapping[str, bytes]) -> TaskModel:
    """The models in these files; whatever is wrong is a ``DataError`` that names the file."""
    path = folder / SETTINGS
    settings = read_settings(path, contents[SETTINGS], TASK_MODELS)
    prediction = _parse_prediction(path, settings["predicts"])
    check_contents(folder, contents, settings, TASK_MODELS)
    path = TASK_MODELS.path(folder)
    tensors = parse_tensors(path, contents[TASK_MODELS.file], TASK_MODELS)
    if "intercept" not in tensors:
        raise DataError(f"{path} has no tensor 'intercept'")
    names, errors = None, tensors.get("errors")
    if "features" in tensors:
        names = tuple(parse_texts(path, tensors, "features").tolist())
    if errors is not None and errors.shape != tensors["coef"].shape:
        raise DataError(f"{path}: errors must be as many as coefficients")
    return TaskModel(
        tensors["coef"],
        tensors["intercept"],
        parse_ids(path, tensors),
        prediction,
        parse_report(folder / REPORT, contents[REPORT], sampled=True),
        feature_names=names,
        training=settings["training"],
        **{name: tensors.get(name) for name in _OPTIONAL},
    )


def _parse_prediction(path: Path, values: Any) -> Prediction | None:
    check_fields(path, "predicts", values, {"predicts", "loss", "ceiling"})
    if values["predicts"] == _CLASS:
        return None
    ceiling = math.inf if values["ceiling"] == "inf" else values["ceiling"]
    if not isinstance(values["loss"], str):
        raise DataError(f"{path}: loss is not text")
    try:
        return Prediction(values["loss"], values["predicts"], ceiling)
    except ParameterError as error:
        raise DataError(f"{path}: {error}") from None
