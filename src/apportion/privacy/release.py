"""Releases: exact sums over users, plus noise of the recorded size, each task once.

Guarantee
    A release of parts p = 1..P with per-user bounds S_p and noise scales sigma_p is mu-GDP with
    mu^2 = sum_p (S_p / sigma_p)^2, for adding or removing one user. Its record is written before the
    first value is returned, so an interrupted release is counted.

Sensitivity
    Removing a user changes part p by that user's own part, of norm <= S_p (see ``bounds``). Divided
    by the noise scale, the stacked change has squared norm <= sum_p (S_p / sigma_p)^2 = mu^2: with normal
    noise this would be one Gaussian mechanism, whatever blocks it is fed in.

Whole numbers
    Every user's part is brought to whole multiples of a grid before it is summed, in a way that makes no
    part larger (``rounding``). What rounding may add when parts are computed is below 2^-20 of the bound,
    and S_p includes it (``ROUNDING``). So sums are exact, in any order, and removing a user changes them by
    just the user's part.

    To a sum on the grid, its unit now being one, a discrete Gaussian number of variance sigma^2 + 9 is
    added. That is normal noise of variance sigma^2 whose result is then rounded at random, with no look at
    the data, up to less than 2^-248 for each number: docs/explanation/proofs.md ("Noise on a grid"). So
    its cost is that of normal noise of scale sigma.

Use
    A release, its curator and the ledger are never copied, nor used after a fork: two of one kind would
    show the same noise on different sums. Sums are copied before they are checked. Any thread may feed
    tasks, but for sampled users, whose step belongs to the thread that opened the release.

Assumes public
    The number of tasks, the width of each part, the bounds and the shares.
"""

from collections.abc import Callable, Iterable, Sequence
from threading import Lock, get_ident
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from apportion.errors import ReleaseError
from apportion.privacy.discrete import Scales
from apportion.privacy.ledger import Record
from apportion.privacy.noise import TILE, NoiseSource
from apportion.privacy.parts import Part
from apportion.privacy.protocols import Listener, Witness

Array = NDArray[np.float64]
Units = NDArray[np.int64]
Run = Callable[[Callable[[int], None], Iterable[int]], Iterable[None]]


class Single:
    """What exists once: a copy would share half of its state, and show the same noise twice."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} is never copied or saved: its noise would be seen twice"
        )


class OpenRelease(Single):
    """A recorded release that is waiting for its sums, in blocks of tasks, each task once.

    Attributes
        records: of the parts, as the ledger has them.
        grids: the unit of the sums of every part.
        run: ``map``, or something like it that draws noise in several threads; it is the same noise.
    """

    def __init__(
        self,
        noise: NoiseSource,
        parts: Sequence[Part],
        records: Sequence[Record],
        witness: Witness | None = None,
        listener: Listener | None = None,
    ) -> None:
        self._listener = listener
        self._noise = noise
        self._witness = witness
        self._parts = tuple(parts)
        self.records = tuple(records)
        self.grids = tuple(record.grid for record in self.records)
        self._scales = [part.scales(record) for part, record in zip(parts, records, strict=True)]
        self._fed = np.zeros(self.records[0].shape[0], dtype=bool)
        self._one_at_a_time = Lock()
        self._thread = get_ident()
        self._step = 0
        self._sampled = False  # whether the sample of this step has been drawn
        self.run: Run = map

    @property
    def complete(self) -> bool:
        """Whether every task has been released."""
        return bool(self._fed.all())

    def next_step(self) -> None:
        """Go on to the next of the recorded steps; the noise is fresh and all tasks may come again."""
        self._check_thread()
        with self._one_at_a_time:
            if not self.complete:
                raise ReleaseError("a step ends when every task has been fed")
            if self._step + 1 >= self.records[0].steps:
                raise ReleaseError(f"only {self.records[0].steps} steps were recorded and paid for")
            self._step += 1
            self._fed[:] = False
            self._sampled = False

    def sample_key(self) -> bytes:
        """Decides which users take part in this step (``noise.poisson_sample``); it may travel."""
        self._check_thread()
        self._sampled = True
        return self._noise.sample_key(self.records[0].name, self._step)

    def feed(self, first_task: int, *sums: NDArray[Any]) -> tuple[Array, ...]:
        """Noisy values of the tasks from ``first_task`` on, given the raw sums of every part.

        Sums are whole numbers of the units that ``grids`` says, [block, columns] of int64. Blocks may come
        in any order and any size, and from any thread; a task that comes a second time is refused.
        """
        self._check_thread()
        # Copies of our own: nobody changes them between these checks, the witness and the noise.
        own = [np.array(block) for block in sums]
        tasks = len(own[0]) if own and own[0].ndim else 0
        expected = [(tasks, part.columns) for part in self._parts]
        if [block.shape for block in own] != expected:
            raise ReleaseError(
                f"a block must have the shapes {expected}, got {[block.shape for block in own]}"
            )
        if any(block.dtype != np.int64 for block in own):
            raise ReleaseError("sums are whole numbers of grid units (int64): round every part")
        first_task = int(first_task)
        stop = first_task + tasks
        if not 0 <= first_task <= stop <= len(self._fed):
            raise ReleaseError(f"tasks {first_task} to {stop} are not among {len(self._fed)} tasks")
        if self.records[0].sampling_rate < 1 and not self._sampled:
            raise ReleaseError("draw the sample of this step first, and sum over its users alone")
        with self._one_at_a_time:
            if self._fed[first_task:stop].any():
                raise ReleaseError("a task was fed twice: its noise would be seen twice")
            self._fed[first_task:stop] = True
            step = self._step  # for what has been marked: other threads may go on to the next
        if self._witness is not None:
            for record, block in zip(self.records, own, strict=True):
                self._witness(record, step, first_task, block)
        noisy = tuple(
            _add_noise(self._noise, self.run, scales, record, step, first_task, block)
            for scales, record, block in zip(self._scales, self.records, own, strict=True)
        )
        if self._listener is None:
            return noisy
        return self._listener.released(self.records, self._parts, noisy)

    def _check_thread(self) -> None:
        """Refuse steps of sampled users from two threads: sums over one step's sample are fed in it."""
        if self.records[0].sampling_rate < 1 and get_ident() != self._thread:
            raise ReleaseError("a release to sampled users belongs to the thread that opened it")


def _add_noise(
    noise: NoiseSource,
    run: Run,
    scales: Scales,
    record: Record,
    step: int,
    first_task: int,
    sums: Units,
) -> Array:
    """Noisy values of sums that are our own, in their memory."""
    tasks, noisy = len(sums), sums.view(np.float64)

    def add(tile: int) -> None:
        first, stop = max(tile * TILE - first_task, 0), min((tile + 1) * TILE - first_task, tasks)
        stream = noise.discrete_gaussian(
            record.name, step, first_task + first, stop - first, scales
        )
        done = first
        for at, drawn in stream:
            some = slice(first + at, first + at + len(drawn))
            if some.start != done or some.stop > stop:
                raise ReleaseError("noise must come for every task, one after the other")
            done = some.stop
            # Added as whole numbers: a user's part is at most 2^26 units, so 2^36 users would have to meet in
            # one number before 64 bits overflow. What is rounded, beyond 53 bits, is the noisy sum.
            np.add(sums[some], drawn, out=drawn)
            np.multiply(drawn, record.grid, out=noisy[some])
        if done != stop:
            raise ReleaseError("noise must come for every task, one after the other")

    tiles = range(first_task // TILE, -(-(first_task + tasks) // TILE))
    for _ in zip(tiles, run(add, tiles), strict=True):  # every tile, or it is an error
        pass
    return noisy
