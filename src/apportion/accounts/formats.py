"""The formats of everything that is written and read later: their numbers, and what each needs.

docs/reference/formats.md has a page on each. A number goes up when an older version of the package could
no longer read what is written. Each file says which version it needs, so that an older one can name it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from apportion.errors import DataError

Step = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class Format:
    """One kind of file.

    Attributes
        what: it is called in errors.
        number: of the format that is written.
        oldest: that is read.
        needs: the first version of apportion that reads ``number``.
        steps: for each older format in JSON that is read, what makes values of the next one of its own.
    """

    what: str
    number: int
    oldest: int
    needs: str
    steps: Mapping[int, Step] = field(default_factory=dict)

    def refusal(self, where: object, found: object, needs: object) -> str | None:
        """Why something of this format cannot be read here, if it cannot.

        ``needs`` is the version that the file says it needs, if it says so.
        """
        if type(found) is not int or found < 1:
            return f"{where} has no valid format number"
        if found > self.number:
            version = needs if is_version(needs) else "a newer version"
            return (
                f"{where} is {self.what} of format {found}, and this version of apportion reads formats up "
                f"to {self.number}: it needs apportion {version}"
                + (" or later" if version == needs else "")
            )
        if found < self.oldest:
            return (
                f"{where} is {self.what} of format {found}, from before the first release: formats from "
                f"{self.oldest} on are read"
            )
        return None

    def check(self, where: object, found: object, needs: object) -> int:
        """The number of the format; a ``DataError`` if it cannot be read here."""
        refusal = self.refusal(where, found, needs)
        if refusal is not None:
            raise DataError(refusal)
        assert isinstance(found, int)
        return found

    def read(self, where: object, values: object) -> dict[str, Any]:
        """The values of a file in JSON as the present format has them, whichever it was written in.

        Without what the file says of its format; a ``DataError`` if it cannot be read here.
        """
        if not isinstance(values, Mapping):
            raise DataError(f"{where} is not a JSON object")
        found = self.check(where, values.get("format"), values.get("needs"))
        read = {name: value for name, value in values.items() if name not in ("format", "needs")}
        for number in range(found, self.number):
            read = self.steps[number](read)
        return read

    @property
    def stamp(self) -> dict[str, int | str]:
        """What a file in JSON says of itself."""
        return {"format": self.number, "needs": self.needs}


MODEL = Format("a model", number=5, oldest=5, needs="0.1.0")
TASKS = Format("models of tasks", number=1, oldest=1, needs="0.1.0")
REPORT = Format("a privacy report", number=2, oldest=2, needs="0.1.0")
PREPARATION = Format("a preparation", number=4, oldest=4, needs="0.1.0")
SIGNATURE = Format("a signature", number=1, oldest=1, needs="0.1.0")
BUDGET = Format("a budget", number=3, oldest=2, needs="0.1.0")


def is_version(value: object) -> bool:
    """Whether this may be shown as a version of the package."""
    return isinstance(value, str) and re.fullmatch(r"\d+(\.\d+){0,3}\w{0,8}", value) is not None
