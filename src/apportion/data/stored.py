"""Rows that are not in this machine's memory."""

from abc import ABC, abstractmethod

from apportion.data.rows import Rows
from apportion.errors import ParameterError


class StoredRows(ABC):
    """Rows that lie elsewhere, as on a cluster: only the engine of that place loads them."""

    @property
    @abstractmethod
    def tasks(self) -> int:
        """The number of tasks in the catalog."""

    @abstractmethod
    def without_labels(self) -> "StoredRows":
        """The same rows as events, whose label is one."""


def in_memory(rows: Rows | StoredRows) -> Rows:
    """The rows; what lies elsewhere is refused."""
    if isinstance(rows, StoredRows):
        raise ParameterError("the rows lie in Spark: train with engine=ap.SparkEngine(session)")
    return rows
