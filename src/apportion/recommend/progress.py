"""What a checkpoint holds of a recommender's training: what was chosen, and the items so far."""

import json
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from apportion.accounts.checkpoint import Checkpoint
from apportion.privacy import Ledger
from apportion.recommend.settings import Choice
from apportion.tasks.private_fit import array_from_bytes, array_to_bytes

Array = NDArray[np.float64]


def settle(saved: Checkpoint | None, choice: Choice, ledger: Ledger) -> Choice:
    """The choice to train by: that of before the training was interrupted, or this one, now on disk."""
    if saved is None or not saved.values:
        keep(saved, ledger, choice)
        return choice
    return saved.read(lambda content: Choice(**json.loads(content.partition(b"\n")[0])))


def items(saved: Checkpoint, shape: tuple[int, ...]) -> Array:
    """The items of the last sweep that is done."""
    return saved.read(lambda content: array_from_bytes(content.partition(b"\n")[2], shape))


def keep(
    saved: Checkpoint | None,
    ledger: Ledger,
    choice: Choice,
    done: int = 0,
    items: Array | None = None,
) -> None:
    """On return the choice, and what so many sweeps have found, is on disk."""
    if saved is not None:
        found = b"" if items is None else array_to_bytes(items)
        saved.save(done, json.dumps(asdict(choice)).encode() + b"\n" + found, ledger)
