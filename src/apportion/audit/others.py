"""Users who are no canaries: none of them may move a release by more than is recorded, either."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from apportion.audit.observer import Transcript
from apportion.data import Interactions
from apportion.privacy import Ledger


def without_each(data: Any) -> Iterator[Any]:
    """The data without one of its users, each in turn."""
    user = data.user_of_row if isinstance(data, Interactions) else data.user
    for one in np.unique(user):
        yield data.take(user != one)


def moved_too_far(ledger: Ledger, whole: Transcript, others: list[Transcript]) -> list[str]:
    """Releases that somebody's leaving moves by more than is recorded; all with the same noise."""
    found = []
    for record in ledger:
        if record.name not in whole.blocks:
            continue  # a selection
        value = whole.rows(record.name)
        most = max(float(np.linalg.norm(each.rows(record.name) - value)) for each in others)
        ratio = most / (math.sqrt(record.steps) * record.sensitivity)
        if ratio > 1 + 1e-6:
            found.append(
                f"without one of the others {record.name!r} moves by {ratio:.3g} times its sensitivity"
            )
    return found
