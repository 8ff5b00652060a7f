"""From a model back to the training that paid for it: which one, when, with what, and what came of it."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

import numpy as np

from apportion.errors import DataError
from apportion.version import __version__


@dataclass(frozen=True)
class Trail:
    """Where a report comes from. All of it is public, and none of it depends on private data.

    Attributes
        date: when the training ended, in UTC.
        versions: by name, of what it ran on.
        training: its name in the budget that paid; empty without one.
        digest: SHA-256 of ``items.safetensors`` of the model folder; empty until the model is saved.
    """

    date: str
    versions: Mapping[str, str] = field(default_factory=dict)
    training: str = ""
    digest: str = ""

    @classmethod
    def now(cls, training: str = "") -> Self:
        """Of a training that ends now."""
        versions = {
            "apportion": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
        }
        return cls(datetime.now(UTC).isoformat(timespec="seconds"), versions, training)

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """The inverse of ``to_dict``; a ``DataError`` for anything else."""
        found = dict(values) if isinstance(values, Mapping) else {}
        versions = found.pop("versions", None)
        texts = {name: found.get(name) for name in ("date", "training", "digest")}
        if not isinstance(versions, Mapping):
            raise DataError("trail must have versions")
        if not all(isinstance(each, str) for each in (*texts.values(), *versions.values())):
            raise DataError("trail must hold texts")
        return cls(versions=dict(versions), **{name: str(text) for name, text in texts.items()})

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "date": self.date,
            "versions": dict(self.versions),
            "training": self.training,
            "digest": self.digest,
        }

    def facts(self) -> dict[str, str]:
        """By name, as text; what is empty is left out."""
        found = {
            "trained": f"{self.date}, with "
            + ", ".join(f"{name} {version}" for name, version in self.versions.items()),
            "training": self.training,
            "model": self.digest,
        }
        return {name: text for name, text in found.items() if text}
