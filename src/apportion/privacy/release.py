"""The only doors out: sums, symmetric matrices, counts, selections, each with its noise and its record.

Guarantee
    A release of parts p = 1..P with per-user bounds S_p and noise scales sigma_p is mu-GDP with
    mu^2 = sum_p (S_p / sigma_p)^2, for adding or removing one user.

Sensitivity
    Removing a user changes part p by that user's own part, of norm <= S_p (see ``bounds``). Divided
    by the noise scale, the stacked change has squared norm <= sum_p (S_p / sigma_p)^2 = mu^2: with normal
    noise this would be one Gaussian mechanism, whatever blocks it is fed in.

    A symmetric d x d matrix is released as its upper triangle. The map that multiplies off-diagonal
    entries by sqrt(2) is an isometry from the Frobenius norm to R^(d(d+1)/2); noise sigma in that
    space is noise sigma on the diagonal and sigma / sqrt(2) off it.

Floating-point numbers
    No part of a user is ever rounded together with another's. Every part is brought to whole multiples of
    a grid first, a power of two at most 2^-25 times the bound, in a way that makes no part larger
    (``UserBound.grid``); what rounding may add before that, when parts are computed, is below 2^-20 of the
    bound, and S_p includes it (``ROUNDING``). Sums of such multiples are exact: they depend neither on the
    order of users nor on threads, and removing a user changes them by just the user's part.

    To a sum k on the grid (its unit now being one) a whole number is added whose distribution is the
    discrete Gaussian of variance v = sigma^2 + 9. This is as private as normal noise of variance sigma^2,
    because it can be made from that: let y = k + N(0, sigma^2), and round y to a whole number z with
    probability proportional to exp(-(z - y)^2 / 18). The density of (y, z) is, with rho(x) =
    exp(-x^2 / 2), proportional to rho((y - k) / sigma) rho((z - y) / 3) / R(y), R(y) being the sum of
    rho((z' - y) / 3) over all z'. The product of the two is rho((z - k) / sqrt(v)) times a normal density
    of y, and R(y) is 3 sqrt(2 pi) (1 + e), |e| < 2.1 exp(-18 pi^2) < 2^-250 (Poisson summation). So z has
    the discrete Gaussian distribution around k, up to a factor within 1 +- 2^-249 for every outcome, and
    what n numbers lack is less than n 2^-248: nothing that any epsilon here could show. Rounding y
    needs no data, so the cost is that of normal noise.

Use
    A release, its curator and the ledger are never copied, nor used after a fork: two of one kind would
    show the same noise on different sums. Sums are copied before they are checked. Any thread may feed
    tasks, but for sampled users, whose step belongs to the thread that opened the release.

Assumes public
    The number of tasks, the width of each part, the bounds and the shares.

The record is written before the first value is returned, so an interrupted release is counted.
See docs/guarantee.md.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from threading import Lock, get_ident
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from apportion.checks import number, whole
from apportion.errors import ParameterError, ReleaseError
from apportion.privacy.bounds import ROUNDING, UserBound
from apportion.privacy.discrete import Scales
from apportion.privacy.ledger import Ledger, PrivacyTarget, Record
from apportion.privacy.listener import Listener, current_listener
from apportion.privacy.noise import TILE, NoiseSource
from apportion.privacy.packing import packed_width
from apportion.privacy.protocols import Payer, Witness

Array = NDArray[np.float64]
Units = NDArray[np.int64]
Run = Callable[[Callable[[int], None], Iterable[int]], Iterable[None]]


@dataclass(frozen=True)
class Part:
    """One array of a release: for every task a sum over users, with the bound that makes it safe.

    Attributes
        name: of the array, for example "A".
        what: what is summed, in words.
        bound: the largest L2 norm of a user's part over all tasks (Frobenius, if symmetric).
        width: numbers per task; for symmetric matrices the dimension d.
        symmetric: the sums are packed upper triangles of symmetric d x d matrices.
    """

    name: str
    what: str
    bound: UserBound
    width: int = 1
    symmetric: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", whole("width of a part", self.width, at_least=0))

    @property
    def columns(self) -> int:
        """Numbers per task as they are released."""
        return packed_width(self.width) if self.symmetric else self.width

    def record(self, name: str, tasks: int, mu: float, **more: Any) -> Record:
        """What is to be written down of this part if a release of it costs ``mu``."""
        private = math.isfinite(mu)
        sensitivity = self.bound.norm * (1 + ROUNDING) if private else self.bound.norm
        return Record(
            name=name,
            what=self.what,
            shape=(tasks, self.columns),
            sensitivity=sensitivity,
            because=self.bound.because,
            noise_scale=sensitivity / mu if private else 0.0,
            grid=self.bound.grid(mu),
            **more,
        )

    def scales(self, record: Record) -> Scales | None:
        """The variances of the noise, in units of the grid; None without noise."""
        if record.noise_scale == 0:
            return None
        return _scales((record.noise_scale / record.grid) ** 2, self.width, self.symmetric)


@lru_cache(maxsize=64)
def _scales(variance: float, width: int, symmetric: bool) -> Scales:
    """Kept for the next sweep, and for the next of many small trainings."""
    variances = np.full(packed_width(width) if symmetric else width, variance)
    if symmetric:
        rows, columns = np.triu_indices(width)
        variances[rows != columns] /= 2
    return Scales.of((variances + 9.0) * (1 + 2.0**-50))


class _Single:
    """What exists once: a copy would share half of its state, and show the same noise twice."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} is never copied or saved: its noise would be seen twice"
        )


class Curator(_Single):
    """Holds the ledger and the noise key of one training; opens releases.

    With a ``reservation`` every release is committed to a ``Budget`` before its values are returned.

    >>> curator = Curator(PrivacyTarget(epsilon=1.0, delta=1e-5), NoiseSource.from_seed(0))
    >>> bound = UserBound(1.0, "every user is in one task, with a value of at most 1")
    >>> grid = bound.grid(curator.target.mu)
    >>> units = (np.array([[10.0], [20.0]]) / grid).astype(np.int64)
    >>> noisy = curator.release("totals", units, bound, curator.target.mu)
    >>> noisy.shape, len(curator.ledger), round(curator.ledger.epsilon(1e-5), 9)
    ((2, 1), 1, 1.0)
    """

    def __init__(
        self,
        target: PrivacyTarget,
        noise: NoiseSource | None = None,
        reservation: Payer | None = None,
        witness: Witness | None = None,
    ) -> None:
        self.target = target
        self._listener = current_listener()
        self.noise = NoiseSource() if noise is None else noise
        if reservation is not None and not self.noise.secret:
            raise ParameterError("noise of a fixed seed is NOT PRIVATE: no budget pays for it")
        self._witness = witness
        self.noise.claim()
        if reservation is not None:
            reservation.tie(self.noise.digest(reservation.token))
        self._reservation = reservation
        self.ledger = Ledger(target, None if reservation is None else reservation.commit)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.settle()

    @property
    def secret_noise(self) -> bool:
        """Whether nobody knows the noise, and what was released is what the training saw."""
        replaced = self._listener is not None and self._listener.replaces
        return self.noise.secret and not replaced

    def settle(self) -> None:
        """The training ends, well or not: what it reserved of a budget and did not use is given back."""
        if self._reservation is not None:
            self._reservation.settle()

    @property
    def token(self) -> str | None:
        """The name of this training in its budget, if it has one."""
        return None if self._reservation is None else self._reservation.token

    def affordable_mu(self, steps: int, sampling_rate: float) -> float:
        """The largest mu (as if all users took part) that one more release may cost.

        What the target leaves; and of a budget, if users are sampled, what is reserved for such a release.
        """
        mu = self.ledger.affordable_mu(steps, sampling_rate)
        if self._reservation is None or sampling_rate == 1:
            return mu
        return min(mu, self._reservation.sampled_mu(steps, sampling_rate))

    def open(
        self,
        name: str,
        parts: Sequence[Part],
        tasks: int,
        mu: float,
        shares: Sequence[float] | None = None,
        steps: int = 1,
        sampling_rate: float = 1.0,
    ) -> "OpenRelease":
        """Open a joint release of several parts that costs ``mu`` in all, and record it.

        ``shares`` are the parts' portions of mu^2 (default: equal). With ``steps`` the parts are
        released that many times (see ``OpenRelease.next_step``) for the same cost in all. With a
        ``sampling_rate`` below one the caller must sum, in each step, over the users that
        ``OpenRelease.sample`` draws for it; ``mu`` is then the cost as if all users took part. Such a
        release has one part: several on one sample are one event, not as many independent ones.
        """
        parts = tuple(parts)
        portions = [1 / len(parts)] * len(parts) if shares is None else list(shares)
        if len(portions) != len(parts) or not all(0 < portion < 1e100 for portion in portions):
            raise ParameterError(f"shares must be {len(parts)} positive numbers, got {shares!r}")
        portions = [number("a share", portion, above=0) for portion in portions]
        mu = number("mu of a release", mu, above=0)
        tasks, steps = whole("tasks", tasks, at_least=0), whole("steps", steps, at_least=1)
        sampling_rate = number("sampling_rate", sampling_rate, above=0, at_most=1)
        if sampling_rate < 1 and len(parts) > 1:
            raise ParameterError(
                f"a release to sampled users has one part, got {len(parts)}: side by side in one part, "
                "scaled to one bound, they are accounted as the one event that they are"
            )
        total = math.fsum(portions)
        records = [
            part.record(
                f"{name}.{part.name}" if len(parts) > 1 else name,
                tasks,
                mu * math.sqrt(portion / total / steps),
                steps=steps,
                sampling_rate=sampling_rate,
            )
            for part, portion in zip(parts, portions, strict=True)
        ]
        self.ledger.append(*records)
        return OpenRelease(self.noise, parts, records, tasks, self._witness, self._listener)

    def release(
        self, name: str, units: Units, bound: UserBound, mu: float, what: str = "sum over users"
    ) -> Array:
        """Release whole sums [tasks, k] at once, in units of ``bound.grid(mu)``."""
        part = Part(name, what, bound, width=units.shape[1])
        return self.open(name, [part], len(units), mu).feed(0, units)[0]

    def select(
        self, name: str, ids: NDArray[Any], counts: Units, cap: int, mu: float, delta: float
    ) -> tuple[NDArray[Any], Array]:
        """Release which ids have a noisy count above a threshold, in ascending order, and those counts.

        The ids are those found in the data, so that which of them exist is private too; a user must add
        at most one to each of at most ``cap`` counts. An id of count zero is never released: there may
        be any number of these, and one user alone may have brought them.

        Guarantee
            The whole training is (epsilon, delta' + delta)-private if it is (epsilon, delta')-private
            as far as its noise goes. Let D have a user less than D', and M^ be the training on D' that
            never selects an id to whose count that user alone adds. On D and with M^, the same ids have
            a count above zero, and these differ by at most cap in squares: a Gaussian release of
            sensitivity sqrt(cap), followed by others. M and M^ differ on D' only if one of at most cap
            ids, each of count at most 1, passes the threshold 1 + sigma z. With z such that
            1 - Phi(z)^cap = delta this has probability at most delta, independently of the other noise.
            So P[M(D') in S] <= P[M^ in S] + delta <= e^epsilon P[M(D) in S] + delta' + delta; and
            since P[M(D') in S] >= (1 - delta) P[M^ in S], also P[M(D) in S] <=
            min(1, e^epsilon P[M^ in S]) + delta' <= e^epsilon P[M(D') in S] + delta' + delta.
        """
        cap = whole("cap", cap, at_least=1, at_most=2**50)
        mu = number("mu of a release", mu, above=0)
        bound = UserBound(math.sqrt(cap), f"a user adds at most 1 to each of at most {cap} counts")
        if bound.grid(mu) > 1:
            raise ParameterError(
                f"a cap of {cap} is too large for a cost of mu = {mu:.3g}: one user would count for less "
                "than a unit of the noise's grid; lower the cap, or raise epsilon or the share"
            )
        ids, counts = np.array(ids), np.array(counts)
        if counts.shape != (len(ids),) or counts.dtype != np.int64:
            raise ReleaseError("a selection takes one whole count (int64) for every id")
        if len(set(ids.tolist())) < len(ids):
            raise ReleaseError("a selection takes every id once")
        part = Part(name, "users per item, those above a threshold", bound)
        if math.isinf(mu):
            delta, threshold = 0.0, 0.0
            record = part.record(name, 0, mu)
        else:
            delta = number("delta of a selection", delta, above=0, below=1)
            record = part.record(name, 0, mu, delta=delta)
            lone = -math.expm1(math.log1p(-delta) / cap)  # the chance that a count of 1 passes
            # Noise on the grid is a little wider than its normal kin, and its tail is within
            # one grid unit of it.
            deviation = math.hypot(record.noise_scale, 3 * record.grid) * (1 + 1e-9)
            threshold = 1.0 - deviation * float(ndtri(lone)) + record.grid
        if self._witness is not None:
            self._witness(record, 0, 0, counts, ids)
        column = counts[:, None] if record.grid == 0 else counts[:, None] * round(1 / record.grid)
        noisy = _add_noise(self.noise, map, part.scales(record), record, 0, 0, column)[:, 0]
        chosen = np.flatnonzero((noisy > threshold) & (counts > 0))
        chosen = chosen[np.argsort(ids[chosen], kind="stable")]
        self.ledger.append(replace(record, shape=(len(chosen), 1)))
        if self._listener is None:
            return ids[chosen], noisy[chosen]
        return self._listener.selected(name, ids[chosen], noisy[chosen])


@dataclass(frozen=True)
class Declared:
    """A release as it is planned: plans print it, steps make it, verification compares records with it.

    Attributes
        name: of the release; its record has it, and for several parts ``name.part``.
        parts: what is released.
        share: its portion of the budget (of mu^2).
        shares: the parts' portions of that.
        tasks: how many tasks the arrays have; None for those of the catalog.
        steps: how often they are released.
        sampling_rate: of users in each step.
        selects: whether it is a thresholded selection, which has the target's ``selection_delta`` besides.
    """

    name: str
    parts: tuple[Part, ...]
    share: float
    shares: tuple[float, ...] = (1.0,)
    tasks: int | None = None
    steps: int = 1
    sampling_rate: float = 1.0
    selects: bool = False

    def mu(self, target: PrivacyTarget) -> float:
        """What it costs."""
        return target.mu * math.sqrt(self.share)

    def part_names(self) -> list[str]:
        """The names of its records."""
        if len(self.parts) == 1:
            return [self.name]
        return [f"{self.name}.{part.name}" for part in self.parts]

    def records(self, tasks: int, mu: float, delta: float = 0.0) -> list[Record]:
        """What the ledger will hold if it costs ``mu``."""
        tasks = tasks if self.tasks is None else self.tasks
        total = math.fsum(self.shares)
        return [
            part.record(
                name,
                tasks,
                mu * math.sqrt(portion / total / self.steps),
                steps=self.steps,
                sampling_rate=self.sampling_rate,
                delta=delta if self.selects and math.isfinite(mu) else 0.0,
            )
            for name, part, portion in zip(self.part_names(), self.parts, self.shares, strict=True)
        ]

    def open(self, curator: Curator, tasks: int, mu: float | None = None) -> "OpenRelease":
        """Record it, at its planned cost or another, and wait for its sums."""
        return curator.open(
            self.name,
            self.parts,
            tasks if self.tasks is None else self.tasks,
            self.mu(curator.target) if mu is None else mu,
            self.shares,
            self.steps,
            self.sampling_rate,
        )


class OpenRelease(_Single):
    """A recorded release that is waiting for its sums, in blocks of tasks, each task once.

    Attributes
        run: ``map``, or something like it that draws noise in several threads; it is the same noise.
    """

    def __init__(
        self,
        noise: NoiseSource,
        parts: Sequence[Part],
        records: Sequence[Record],
        tasks: int,
        witness: Witness | None = None,
        listener: Listener | None = None,
    ) -> None:
        self._listener = listener
        self._noise = noise
        self._witness = witness
        self._parts = parts
        self._scales = [part.scales(record) for part, record in zip(parts, records, strict=True)]
        self._fed = np.zeros(tasks, dtype=bool)
        self._one_at_a_time = Lock()
        self._thread = get_ident()
        self._step = 0
        self._sampled = False  # whether the sample of this step has been drawn
        self.run: Run = map
        self.records = tuple(records)

    @property
    def grids(self) -> tuple[float, ...]:
        """Of what the sums of every part must be multiples; zero: of nothing, there is no noise."""
        return tuple(record.grid for record in self.records)

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

    def feed(self, first_task: int, *sums: NDArray[Any]) -> tuple[Array, ...]:
        """Noisy values of the tasks from ``first_task`` on, given the raw sums of every part.

        Sums are whole numbers of the units that ``grids`` says, [block, columns] of int64; without noise
        they are plain numbers. Blocks may come in any order and any size, and from any thread; a task that
        comes a second time is refused.
        """
        self._check_thread()
        tasks = len(sums[0]) if sums else 0
        first_task = int(first_task)
        stop = first_task + tasks
        expected = [(tasks, part.columns) for part in self._parts]
        if [np.shape(block) for block in sums] != expected:
            raise ReleaseError(
                f"a block must have the shapes {expected}, got {[np.shape(b) for b in sums]}"
            )
        for scales, block in zip(self._scales, sums, strict=True):
            if scales is not None and getattr(block, "dtype", None) != np.int64:
                raise ReleaseError("sums are whole numbers of grid units (int64): round every part")
            if scales is None and not _all_finite(np.asarray(block, dtype=np.float64)):
                raise ReleaseError("the sums hold NaN or infinity: clip and check the data first")
        # Copies of our own: nobody changes them between the witness and the noise.
        own = [
            np.array(block, dtype=np.float64 if scales is None else np.int64)
            for scales, block in zip(self._scales, sums, strict=True)
        ]
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

    def sample_key(self) -> bytes:
        """Decides which users take part in this step (``noise.poisson_sample``); it may travel."""
        self._check_thread()
        self._sampled = True
        return self._noise.sample_key(self.records[0].name, self._step)

    def _check_thread(self) -> None:
        """Refuse steps of sampled users from two threads: sums over one step's sample are fed in it."""
        if self.records[0].sampling_rate < 1 and get_ident() != self._thread:
            raise ReleaseError("a release to sampled users belongs to the thread that opened it")

    @property
    def complete(self) -> bool:
        """Whether every task has been released."""
        return bool(self._fed.all())


def _all_finite(block: Array) -> bool:
    # NaN and infinity show in a sum, which takes neither memory nor time; so do sums that are too large.
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(block.sum())) or bool(np.isfinite(block).all())


def _add_noise(
    noise: NoiseSource,
    run: Run,
    scales: Scales | None,
    record: Record,
    step: int,
    first_task: int,
    sums: NDArray[Any],
) -> Array:
    """Noisy values of sums that are our own, in their memory."""
    if scales is None:
        return sums
    tasks, noisy = len(sums), sums.view(np.float64)

    def add(tile: int) -> None:
        first, stop = max(tile * TILE - first_task, 0), min((tile + 1) * TILE - first_task, tasks)
        drawn = noise.discrete_gaussian(record.name, step, first_task + first, stop - first, scales)
        # Added as whole numbers: a user's part is at most 2^26 units, so 2^36 users would have to meet in
        # one number before 64 bits overflow. What is rounded, beyond 53 bits, is the noisy sum.
        np.add(sums[first:stop], drawn, out=drawn)
        np.multiply(drawn, record.grid, out=noisy[first:stop])

    tiles = range(first_task // TILE, -(-(first_task + tasks) // TILE))
    for _ in zip(tiles, run(add, tiles), strict=True):  # every tile, or it is an error
        pass
    return noisy
