"""Where the checkpoint of a training lies that was given no place: in its user's state folder.

It holds the key of the noise until the training is finished, so it is never beside what will be published.
Where there is no state folder that can be written (a container without a home) it lies beside the budget,
which belongs to its owner alone as well, and without a budget among the temporary files.
"""

import os
import re
import secrets
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from apportion.accounts.checkpoint import remove_finished
from apportion.errors import CheckpointError

with suppress(ImportError):  # a system without
    import fcntl  # noqa: F401 (which checkpoints need)

_NAME = re.compile(r"(?:.*-)?([0-9a-f]{32})\.checkpoint")


def can_keep() -> bool:
    """Whether this system has checkpoints."""
    return "fcntl" in sys.modules


def state_folder() -> Path | None:
    """The folder of this package among the user's files of state; None for somebody without a home."""
    named = os.environ.get("XDG_STATE_HOME", "")
    if Path(named).is_absolute():
        return Path(named) / "apportion"
    try:
        return Path.home() / ".local" / "state" / "apportion"
    except RuntimeError:
        return None


def new_place(budget: Path | None) -> tuple[Path, str]:
    """A new folder for a checkpoint, and the name of its training, which is part of the folder's."""
    token, tried = secrets.token_hex(16), ""
    for place in _places(token, budget):
        try:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            place.mkdir(mode=0o700)
        except OSError as error:
            tried += f"; {place.parent}: {error.strerror}"
        else:
            return place, token
    raise CheckpointError(
        "there is no place for the checkpoint of this training: set XDG_STATE_HOME to a folder of yours, or "
        f"name a folder (checkpoint=, --checkpoint){tried}. Nothing was released"
    )


def find_place(token: str, budget: Path | None) -> Path | None:
    """The folder of the checkpoint of this training, if there is one."""
    return next((place for place in _places(token, budget) if place.is_dir()), None)


def is_ours(folder: Path) -> bool:
    """Whether a folder was made by ``new_place``: it is removed when nobody needs it any more."""
    return _NAME.fullmatch(folder.name) is not None


def remove(folder: Path) -> None:
    """Remove the checkpoint of a finished training; one that cannot be removed stays, and has no key."""
    with suppress(CheckpointError):
        remove_finished(folder)


def mark_resumable(error: BaseException, folder: Path) -> None:
    """Tell an error how to get the model without paying again, once."""
    if resumable_from(error) is None:
        vars(error)["checkpoint"] = folder
        error.add_note(
            f"the same again, with the checkpoint {folder}, resumes from where it was and spends "
            "nothing twice"
        )


def resumable_from(error: BaseException) -> Path | None:
    """The folder from which what an error ended can be resumed."""
    folder = vars(error).get("checkpoint")
    return folder if isinstance(folder, Path) else None


def _places(token: str, budget: Path | None) -> list[Path]:
    name = f"{token}.checkpoint"
    state = state_folder()
    found = [] if state is None else [state / name]
    if budget is not None:
        return [*found, budget.with_name(f"{budget.name}-{name}")]
    return [*found, Path(tempfile.gettempdir()) / f"apportion-{name}"]
