"""Every run on a line of its own, appended as soon as it is done."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]
# What a run is known by.
KEY = ("set", "epsilon", "method", "seed")


class Results:
    """A file of JSON lines; what is in it is not run again.

    >>> import tempfile
    >>> results = Results(Path(tempfile.mkdtemp()) / "quality.jsonl")
    >>> row = {"set": "a", "epsilon": 1.0, "method": "default", "seed": 0, "test": 0.9}
    >>> results.add(row)
    >>> results.has(row), len(list(results))
    (True, 1)
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[tuple[Any, ...], Row] = {}
        if path.exists():
            for line in path.read_text("utf-8").splitlines():
                try:
                    row = json.loads(line)
                except ValueError:  # torn when the run was killed
                    continue
                self._rows[self._key(row)] = row

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows.values())

    def has(self, row: Row) -> bool:
        """Whether this was run already."""
        return self._key(row) in self._rows

    def add(self, row: Row) -> None:
        """Keep it, on disk."""
        self._rows[self._key(row)] = row
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def of(self, data_set: str, epsilon: float, method: str) -> list[Row]:
        """All seeds of a method, in order."""
        wanted = (data_set, epsilon, method)
        found = [row for key, row in self._rows.items() if key[:3] == wanted]
        return sorted(found, key=lambda row: int(row["seed"]))

    @staticmethod
    def _key(row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in KEY)
