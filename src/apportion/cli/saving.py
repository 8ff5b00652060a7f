"""How ``fit`` and ``fit-tasks`` train and save: what is checked before, shown meanwhile and left behind."""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import typer

from apportion.cli.output import Output
from apportion.errors import ParameterError


def find_epsilon(not_private: bool, epsilon: float | None, others: Mapping[str, object]) -> float:
    """The budget; infinite without privacy, with which the other options, by name, do not go."""
    for name, value in {"--epsilon": epsilon, **others}.items():
        if not_private and value is not None:
            raise typer.BadParameter(f"does not go with {name}", param_hint="'--not-private'")
    return math.inf if not_private else 1.0 if epsilon is None else epsilon


def check_target(out: Path, *, overwrite: bool) -> None:
    """What cannot be written should not cost a training."""
    from apportion.folders.files import try_target

    if try_target(out) and not overwrite:
        raise ParameterError(f"{out} holds a model already; --overwrite replaces it")


@contextmanager
def training_shown(to: Output, checkpoint: Path | None) -> Iterator[Callable[[int, int], None]]:
    """Around training and saving: what to tell of progress.

    Once the model is saved its checkpoint goes, and warnings are told: whatever is printed can fail, and
    the budget is spent.
    """
    from apportion.accounts.checkpoint import remove_finished

    with (
        to.progress() as progress,
        warnings.catch_warnings(record=True, action="always", category=UserWarning) as warned,
    ):
        bar = progress.add_task("training", total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)
    if checkpoint is not None and checkpoint.exists():
        remove_finished(checkpoint)
    for warning in warned:
        to.warn(warning.message)
