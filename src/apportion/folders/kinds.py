"""What kinds of model folders there are, and which files and tensors each has."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from apportion.accounts.formats import MODEL, TASKS, Format

# The settings, with checksums of all files, and the privacy report: every folder has them.
SETTINGS, REPORT = "model.json", "privacy.json"
# The options of `apportion fit`, for people to use again: no part of the model.
OPTIONS = "training.toml"
# Ids of items or tasks: numbers, texts or bytes. Texts are two tensors: their bytes, one after the other,
# and how many of them each has.
IDS = ("ids", "unsigned_ids", "text_ids", "byte_ids")
_OF_IDS: dict[str, tuple[Any, int]] = {
    "ids": (np.int64, 1),
    "unsigned_ids": (np.uint64, 1),
    "text_ids": (np.uint8, 1),
    "text_ids.sizes": (np.int64, 1),
    "byte_ids": (np.uint8, 1),
    "byte_ids.sizes": (np.int64, 1),
}


@dataclass(frozen=True)
class Kind:
    """One kind of model folder.

    Attributes
        name: of the kind, in ``model.json``.
        rows: what its tensors have a row for, in errors.
        file: that of the tensors.
        main: the tensor that is always there, [rows, columns].
        columns: what the main one has, in errors; at most ``most_columns`` of them.
        tensors: of every tensor that may be there, its type and its dimensions.
        format: the number of its format.
        fields: of ``model.json``, besides those that all kinds have.
        command: that takes such a folder.
    """

    name: str
    rows: str
    file: str
    main: str
    columns: str
    most_columns: int
    tensors: Mapping[str, tuple[Any, int]]
    format: Format
    fields: frozenset[str]
    command: str

    @property
    def files(self) -> tuple[str, str, str]:
        """The names of its files."""
        return SETTINGS, self.file, REPORT

    @property
    def what(self) -> str:
        """It, with an article."""
        return f"{'an' if self.name[0] in 'aeiou' else 'a'} {self.name}"

    def path(self, folder: Path) -> Path:
        """Of its tensors."""
        return folder / self.file


# A user's system of equations has as many rows and columns.
MOST_FACTORS = 2048

ITEMS = Kind(
    name="apportion item model",
    rows="items",
    file="items.safetensors",
    main="items",
    columns="factors",
    most_columns=MOST_FACTORS,
    tensors={
        "items": (np.float32, 2),
        "intercepts": (np.float32, 1),
        "counts": (np.float64, 1),
        **_OF_IDS,
        "titles": (np.uint8, 1),
        "titles.sizes": (np.int64, 1),
    },
    format=MODEL,
    fields=frozenset({"fold_in", "training"}),
    command="apportion recommend",
)
TASK_MODELS = Kind(
    name="apportion task model",
    rows="tasks",
    file="tasks.safetensors",
    main="coef",
    columns="features",
    most_columns=2**20,
    tensors={
        "coef": (np.float64, 2),
        "intercept": (np.float64, 1),
        "counts": (np.float64, 1),
        "noise": (np.float64, 1),
        "errors": (np.float64, 2),
        "intercept_errors": (np.float64, 1),
        **_OF_IDS,
        "features": (np.uint8, 1),
        "features.sizes": (np.int64, 1),
    },
    format=TASKS,
    fields=frozenset({"predicts", "training"}),
    command="apportion predict-tasks",
)
KINDS = (ITEMS, TASK_MODELS)
