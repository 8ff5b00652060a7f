"""The start and end of every private fit: its checkpoint, its curator, its report."""

import io
import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from warnings import warn

import numpy as np
from numpy.typing import NDArray

from apportion.accounts import Budget, PrivacyReport
from apportion.accounts.checkpoint import Checkpoint
from apportion.accounts.listening import told_listener
from apportion.accounts.places import (
    can_keep,
    is_ours,
    mark_resumable,
    new_place,
    resumable_from,
)
from apportion.accounts.reservation import Reservation
from apportion.accounts.trail import Trail
from apportion.allocation import Allocation
from apportion.allocation.counts import Counts
from apportion.engine import Engine
from apportion.errors import (
    DataError,
    ParameterError,
)
from apportion.privacy import Curator, NoiseSource, PrivacyTarget, Record
from apportion.tasks.estimator import Estimator, has_no_secret
from apportion.version import __version__

# Public facts only: what a report says, too.
_log = logging.getLogger(__name__)
# A delta above this is not a guarantee that anybody should rely on.
LARGE_DELTA = 1e-3

Place = str | Path | bool | None  # of a checkpoint, as ``fit`` takes it


@contextmanager
def open_checkpoint(
    folder: Place,
    model: Estimator,
    engine: Engine,
    private: Any,
    budget: Budget | None = None,
    **public: Any,
) -> Iterator[Checkpoint | None]:
    """The checkpoint of training this model on this private data here, if there is one.

    ``folder`` says where; True makes one in the user's state folder, and so does None with a budget: what was
    paid for is not lost then. The checkpoint remembers the ``budget``. What is public besides the model's
    parameters comes by name.
    """
    parameters = model.get_params(deep=False)
    vars(model).pop("_paid_by", None)
    if budget is not None:
        model._paid_by = budget
    kept = folder is True or (folder is None and budget is not None)
    if kept and (not can_keep() or has_no_secret(parameters)):
        kept, folder = False, None
    if not kept and not isinstance(folder, (str, Path)):
        yield None
        model.drop_checkpoint()  # of an earlier training
        return
    del parameters["engine"]  # it has an identity of its own
    if parameters["noise_seed"] is not None:
        raise ParameterError("checkpoint keeps a secret key, so it does not go with noise_seed")
    _check_budget(budget)
    token = None
    if kept:
        folder, token = new_place(None if budget is None else budget.path)
    assert isinstance(folder, (str, Path))
    saved = Checkpoint(
        folder,
        public={"kind of model": type(model).__name__, **parameters, **public},
        setting={"version of apportion": __version__, **engine.identity()},
        private=private,
        budget=None if budget is None else budget.id,
        training=token,
    )
    with saved:
        if saved.finished:
            warn(
                f"the training in {folder} is finished: this is its result, and nothing was spent. Whether "
                "the data is the same cannot be told any more; for a new training remove the folder",
                stacklevel=4,
            )
        try:
            yield saved
        except BaseException as error:
            void = not saved.released and resumable_from(error) is None
            if void and is_ours(saved.folder):
                saved.discard()
            raise
        if vars(model).get("checkpoint_") != saved.folder:
            model.drop_checkpoint()  # of an earlier training
        model.checkpoint_ = saved.folder


@contextmanager
def open_curator(
    target: PrivacyTarget,
    noise_seed: int | None,
    checkpoint: Checkpoint | None = None,
    budget: Budget | None = None,
    what: str = "training",
    cost: Sequence[Record] | None = None,
    paid: Sequence[Record] = (),
) -> Iterator[Curator]:
    """With the noise of a checkpoint, of a fixed seed, or new; paid from a budget, if one is given.

    The budget reserves ``cost``, by default the whole target, before anything can be released, and gets
    back what was not used; unless the training may still be resumed. ``paid`` is what it has paid for
    already, as part of another training. An error is told what was spent.
    """
    reservation, listener = None, told_listener()
    _log.info("%s: epsilon = %g at delta = %g", what, target.epsilon, target.delta)
    if budget is not None:
        reservation = _reserve(budget, target, noise_seed, checkpoint, what, cost, paid)
    if reservation is not None:
        _log.info("training %s is paid from %s", reservation.token, budget and budget.path)
    try:
        if checkpoint is not None and not checkpoint.finished:
            curator = Curator(target, checkpoint.noise(), reservation, checkpoint.witness, listener)
        else:
            noise = None if noise_seed is None else NoiseSource.from_seed(noise_seed)
            curator = Curator(target, noise, reservation, listener=listener)
    except BaseException:
        if reservation is not None:
            reservation.leave()  # nothing was released: it may be closed, or resumed
        raise
    try:
        yield curator
        if reservation is not None:
            reservation.settle()  # what it did not use is given back
        _log.info("%s: done, releases: %d", what, len(curator.ledger))
    except BaseException as error:
        # What a budget has committed counts, released or not: then the checkpoint must stay.
        kept = checkpoint is not None and (checkpoint.released or len(curator.ledger) > 0)
        if reservation is not None and not (kept or _is_named(checkpoint)):
            reservation.settle()
        elif reservation is not None:
            reservation.leave()
        if curator.noise.secret and math.isfinite(target.epsilon):
            # For samples of users, epsilon takes long to compute: it is at most the target's.
            sampled = any(record.sampling_rate < 1 for record in curator.ledger)
            spent = target.epsilon if sampled else curator.ledger.epsilon(target.delta)
            error.add_note(
                f"spent before this: epsilon = {spent:.4g} at delta = {target.delta:g} "
                f"(releases: {len(curator.ledger)})"
            )
        if checkpoint is not None and kept:
            mark_resumable(error, checkpoint.folder)
        raise


def _is_named(checkpoint: Checkpoint | None) -> bool:
    """Whether it stays, even if nothing was released: the caller chose its folder."""
    return checkpoint is not None and not is_ours(checkpoint.folder)


def _reserve(
    budget: Budget,
    target: PrivacyTarget,
    noise_seed: int | None,
    checkpoint: Checkpoint | None,
    what: str,
    cost: Sequence[Record] | None,
    paid: Sequence[Record],
) -> Reservation | None:
    _check_budget(budget)
    if noise_seed is not None:
        raise ParameterError(
            "a training with a noise_seed is NOT PRIVATE, so no budget pays for it: "
            "leave out noise_seed, or budget"
        )
    if checkpoint is None:
        return budget.reserve(what, target, cost)
    token = checkpoint.training
    if not budget.knows(token):
        if checkpoint.released:
            raise ParameterError(
                f"{budget.path} does not know the training in {checkpoint.folder}, which it has paid: is it "
                "an old copy? If there is no other, count the training by hand (apportion budget reserve)"
            )
        return budget.reserve(what, target, cost, token)
    if checkpoint.finished:
        # It may have been killed before it gave back the rest.
        budget.settle(token, [one for one in checkpoint.records if one not in paid])
        return None
    return budget.resume(token)


def _check_budget(budget: object) -> None:
    if budget is not None and not isinstance(budget, Budget):
        raise ParameterError(f"budget must be a Budget, got a {type(budget).__name__}")


def array_to_bytes(array: NDArray[Any]) -> bytes:
    """An array for a checkpoint."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def array_from_bytes(content: bytes, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """The inverse of ``array_to_bytes``: also the order in memory is the same."""
    array = np.asarray(np.lib.format.read_array(io.BytesIO(content), allow_pickle=False))
    if array.shape != shape or array.dtype != np.float64:
        raise DataError(f"an array of shape {array.shape}, not {shape}")
    return array


def training_of(budget: Budget | None, saved: Checkpoint | None, curator: Curator) -> str:
    """The name of a training in the budget that paid for it; empty without one."""
    if budget is None:
        return ""
    if saved is not None:  # one that was finished before has no reservation any more
        return saved.training
    return "" if curator.reservation is None else curator.reservation.token


def make_report(
    curator: Curator,
    allocation: Allocation,
    public_inputs: dict[str, Any],
    warnings: tuple[str, ...] = (),
    counts: Counts | None = None,
    *,
    training: str = "",
) -> PrivacyReport:
    """The guarantee of what the curator has released, with these warnings and those of its parts.

    ``counts`` are the task counts that were used, if they are not the allocation's own. ``training`` is
    its name in the budget that has paid, if one has.
    """
    source = allocation if counts is None else counts
    warnings = tuple(dict.fromkeys(source.warnings() + warnings))
    delta = curator.target.delta
    if delta > LARGE_DELTA:
        warnings = (f"delta is large: with probability {delta:g} there is no guarantee", *warnings)
    return PrivacyReport(
        ledger=curator.ledger,
        secret_noise=curator.secret_noise,
        public_inputs={**public_inputs, **allocation_inputs(allocation, counts)},
        warnings=warnings,
        neighboring=source.neighboring(),
        budget=bool(training),
        trail=Trail.now(training),
    )


def allocation_inputs(allocation: Allocation, counts: Counts | None) -> dict[str, Any]:
    """What an allocation takes as public; ``counts`` as in ``make_report``."""
    if counts is None:
        return allocation.public_inputs()
    return {"allocation": repr(allocation), **counts.public_inputs()}
