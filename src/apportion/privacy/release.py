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

from apportion.privacy.bounds import ROUNDING, UserBound
from apportion.privacy.budget import Reservation
from apportion.privacy.checks import float_copy, number, whole
from apportion.privacy.discrete import Scales, add_to_sums
from apportion.privacy.errors import ParameterError, ReleaseError
from apportion.privacy.ledger import Ledger, PrivacyTarget, Record
from apportion.privacy.noise import TILE, NoiseSource

Array = NDArray[np.float64]
Run = Callable[[Callable[[int], None], Iterable[int]], Iterable[None]]
# Told the record, the step, the first task and the raw sums before their noise is drawn; may refuse them.
Witness = Callable[..., None]


def packed_width(dimension: int) -> int:
    """Entries in the upper triangle of a symmetric matrix, with its diagonal."""
    return dimension * (dimension + 1) // 2


def pack(matrices: NDArray[Any]) -> Array:
    """Upper triangles, row by row: [tasks, d, d] -> [tasks, d (d + 1) / 2]."""
    rows, columns = np.triu_indices(matrices.shape[-1])
    return np.ascontiguousarray(matrices[:, rows, columns], dtype=np.float64)


def unpack(packed: Array, dimension: int) -> Array:
    """The inverse of ``pack``: full symmetric matrices, [tasks, d, d]."""
    rows, columns = np.triu_indices(dimension)
    matrices = np.empty((len(packed), dimension, dimension))
    matrices[:, rows, columns] = packed
    matrices[:, columns, rows] = packed
    return matrices


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
    >>> noisy = curator.sums("totals", np.array([[10.0], [20.0]]), bound, curator.target.mu)
    >>> noisy.shape, len(curator.ledger), round(curator.ledger.epsilon(1e-5), 9)
    ((2, 1), 1, 1.0)
    """

    def __init__(
        self,
        target: PrivacyTarget,
        noise: NoiseSource | None = None,
        reservation: Reservation | None = None,
        witness: Witness | None = None,
    ) -> None:
        self.target = target
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
        return OpenRelease(self.noise, parts, records, tasks, self._witness)

    def sums(
        self, name: str, sums: Array, bound: UserBound, mu: float, what: str = "sum over users"
    ) -> Array:
        """Release whole sums [tasks, k] at once; they must be multiples of ``bound.grid(mu)``."""
        part = Part(name, what, bound, width=sums.shape[1])
        return self.open(name, [part], len(sums), mu).feed(0, sums)[0]

    def symmetric(
        self, name: str, sums: Array, bound: UserBound, mu: float, what: str = "sum over users"
    ) -> Array:
        """Release whole stacks of symmetric matrices, packed [tasks, d (d + 1) / 2], at once."""
        dimension = (math.isqrt(8 * sums.shape[1] + 1) - 1) // 2
        part = Part(name, what, bound, width=dimension, symmetric=True)
        return self.open(name, [part], len(sums), mu).feed(0, sums)[0]

    def counts(self, name: str, counts: Array, bound: UserBound, mu: float, what: str) -> Array:
        """Release counts [tasks] at once."""
        return self.sums(name, counts[:, None], bound, mu, what)[:, 0]

    def select(
        self, name: str, ids: NDArray[Any], counts: Array, cap: int, mu: float, delta: float
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
        ids, counts = np.array(ids), float_copy("counts", counts)
        if counts.shape != (len(ids),) or not np.isfinite(counts).all():
            raise ReleaseError("a selection takes one finite count for every id")
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
        column = counts[:, None]
        scales = part.scales(record)
        noisy = _add_noise(self.noise, map, scales, record, 0, 0, column.copy())[:, 0]
        chosen = np.flatnonzero((noisy > threshold) & (counts > 0))
        chosen = chosen[np.argsort(ids[chosen], kind="stable")]
        self.ledger.append(replace(record, shape=(len(chosen), 1)))
        return ids[chosen], noisy[chosen]


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
    ) -> None:
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
    def in_one_thread(self) -> bool:
        """Whether to feed it from the thread that trains, large blocks in their order: it is watched."""
        return self._witness is not None

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

    def feed(self, first_task: int, *sums: Array) -> tuple[Array, ...]:
        """Noisy values of the tasks from ``first_task`` on, given the raw sums of every part.

        Sums are multiples of the part's grid, because everything that was summed is (``grids``).
        Blocks may come in any order and any size, and from any thread; a task that comes a second time is
        refused.
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
        sums = tuple(float_copy("the sums", block) for block in sums)
        if not 0 <= first_task <= stop <= len(self._fed):
            raise ReleaseError(f"tasks {first_task} to {stop} are not among {len(self._fed)} tasks")
        if not all(_all_finite(block) for block in sums):
            raise ReleaseError("the sums hold NaN or infinity: clip and check the data first")
        if self.records[0].sampling_rate < 1 and not self._sampled:
            raise ReleaseError("draw the sample of this step first, and sum over its users alone")
        with self._one_at_a_time:
            if self._fed[first_task:stop].any():
                raise ReleaseError("a task was fed twice: its noise would be seen twice")
            self._fed[first_task:stop] = True
            step = self._step  # for what has been marked: other threads may go on to the next
        if self._witness is not None:
            for record, block in zip(self.records, sums, strict=True):
                self._witness(record, step, first_task, block)
        return tuple(
            _add_noise(self._noise, self.run, scales, record, step, first_task, block)
            for scales, record, block in zip(self._scales, self.records, sums, strict=True)
        )

    def sample(self, users: int) -> NDArray[np.bool_] | None:
        """The users of this step, [users], drawn at the recorded rate; None if that is all of them."""
        rate = self.records[0].sampling_rate
        if rate == 1:
            return None
        self._check_thread()
        self._sampled = True
        return self._noise.poisson_sample(self.records[0].name, self._step, users, rate)

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
    sums: Array,
) -> Array:
    """To sums that are our own (``float_copy``), in their place."""
    if scales is None:
        return sums
    tasks = len(sums)

    def add(tile: int) -> None:
        first, stop = max(tile * TILE - first_task, 0), min((tile + 1) * TILE - first_task, tasks)
        drawn = noise.discrete_gaussian(record.name, step, first_task + first, stop - first, scales)
        own = sums[first:stop]
        if not add_to_sums(own, record.grid, drawn, own):
            raise ReleaseError("the sums are not on the grid: round what every user adds first")

    tiles = range(first_task // TILE, -(-(first_task + tasks) // TILE))
    for _ in zip(tiles, run(add, tiles), strict=True):  # every tile, or it is an error
        pass
    return sums
