"""What was released, at what cost. Every epsilon that this package prints comes from here.

Guarantee
    A ledger of records with sensitivities S_k and noise scales sigma_k describes a mechanism that is
    mu-GDP with mu^2 = sum of (S_k / sigma_k)^2, also when later releases depend on earlier ones
    (adaptive composition of Gaussian mechanisms). A record of T steps counts T times. If each step sees a
    Poisson sample of the users, the same mu still holds, and epsilon is the smaller of that and what
    ``sampled`` computes. Deltas of thresholded selections (``Curator.select``) are taken off the delta at
    which epsilon is computed. ``append`` is called by a release before any value leaves. It refuses what
    would pass the target, and less noise than the proofs elsewhere are good for.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import RLock
from typing import Any

from apportion.checks import number, whole
from apportion.errors import BudgetExceededError, ParameterError, ReleaseError
from apportion.privacy.gaussian import (
    LARGEST_MU,
    check_delta,
    check_epsilon,
    epsilon_from_mu,
    mu_from_epsilon,
)
from apportion.privacy.sampled import SampledSteps, sampled_epsilon

# Which data sets the guarantee cannot tell apart.
ADD_OR_REMOVE = "add or remove one user"
# Noise over sensitivity of a step with sampled users is at least this: below it epsilon depends on rare
# events alone. Proofs in ``discrete`` rest on it, too.
LEAST_SAMPLED_NOISE = 0.3
# The cost of sampled steps is computed up to about this mu, far beyond any target: the time and memory
# that it takes grow with it, and a ledger may come from anywhere.
_MOST_SAMPLED_MU = 10.0
# Rounding allowed to the least noise.
_CLOSE = 1e-9
# Rounding allowed when shares of a budget are added up again; mu_from_epsilon leaves ten times that.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class PrivacyTarget:
    """The (epsilon, delta) that a training must not pass. ``epsilon=math.inf``: no privacy asked.

    A finite epsilon costs at most mu = 8 (``gaussian.LARGEST_MU``): about 65 at a delta of 1e-5.
    ``selection_delta`` is the part of delta that thresholded selections may use up.
    """

    epsilon: float
    delta: float
    selection_delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", check_delta(self.delta))
        reserved = number("selection_delta", self.selection_delta, at_least=0, below=self.delta)
        object.__setattr__(self, "selection_delta", reserved)
        if math.isfinite(self.epsilon) and self.mu > LARGEST_MU:
            largest = epsilon_from_mu(LARGEST_MU, self.delta - self.selection_delta)
            raise ParameterError(
                f"epsilon must be at most {math.floor(largest)} at this delta, got {self.epsilon:g}: beyond "
                f"mu = {LARGEST_MU:g} the guarantee is not proved; math.inf asks for no privacy"
            )

    @cached_property
    def mu(self) -> float:
        """What noise may cost, as Gaussian differential privacy."""
        return mu_from_epsilon(self.epsilon, self.delta - self.selection_delta)


@dataclass(frozen=True)
class Record:
    """One released array: a sum over users plus Gaussian noise. Inert; written by a release.

    Attributes
        name: the release and its part, unique in its ledger.
        what: what was summed, in words.
        shape: of the released array.
        sensitivity: the largest L2 norm of one user's part.
        because: why no user can have a larger one.
        noise_scale: standard deviation of the noise (of the diagonal, for symmetric matrices).
        grid: what was released are multiples of this power of two; zero in a mere cost.
        steps: how often such an array was released, each time with fresh noise.
        sampling_rate: the probability with which a user takes part in a step.
        delta: the probability that a threshold lets something through that one user alone has.
    """

    name: str
    what: str
    shape: tuple[int, ...]
    sensitivity: float
    because: str
    noise_scale: float
    steps: int = 1
    sampling_rate: float = 1.0
    delta: float = 0.0
    grid: float = 0.0

    def __post_init__(self) -> None:
        checked = {
            "sensitivity": number("sensitivity", self.sensitivity, above=0, at_most=1e300),
            "noise_scale": number("noise_scale", self.noise_scale, above=0, at_most=1e300),
            "sampling_rate": number("sampling_rate", self.sampling_rate, above=0, at_most=1),
            "delta": number("delta", self.delta, at_least=0, below=1),
            "grid": number("grid", self.grid, at_least=0, at_most=1e300),
            "steps": whole("steps", self.steps, at_least=1),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def mu(self) -> float:
        """The cost of this release without regard to sampling."""
        return math.sqrt(self.steps) * self.sensitivity / self.noise_scale


class Ledger:
    """An append-only list of records under a target.

    >>> ledger = Ledger(PrivacyTarget(epsilon=1.0, delta=1e-5))
    >>> ledger.append(Record("counts", "users per task", (3,), 1.0, "one task per user", 4.0))
    >>> ledger.mu, round(ledger.epsilon(1e-5), 3)
    (0.25, 0.926)
    >>> ledger.append(Record("more", "users per task", (3,), 1.0, "one task per user", 4.0))
    Traceback (most recent call last):
    ...
    apportion.errors.BudgetExceededError: refused 'more': ...

    ``commit`` gets the records of each release before they are written here, and may refuse them: ``Budget``.
    """

    def __init__(
        self,
        target: PrivacyTarget,
        commit: Callable[[Sequence[Record]], object] | None = None,
    ) -> None:
        self.target = target
        self._commit = commit
        self._records: list[Record] = []
        self._one_at_a_time = RLock()
        self._closed = False

    def append(self, *records: Record, paid: bool = False) -> None:
        """Write the records of one release, all or none; refuse to pass the target.

        They are committed to the budget first, if there is one and it has not ``paid`` for them already.
        """
        with self._one_at_a_time:  # of two threads with one name, one is refused
            if self._closed:
                raise ReleaseError("a copy of a ledger takes no more releases")
            names = [record.name for record in (*self._records, *records)]
            if len(set(names)) < len(names):
                raise ParameterError(
                    f"a release named {records[0].name!r} is in the ledger already"
                )
            for record in records:
                _check_noise(record)
            if not self.allows(*records):
                raise BudgetExceededError(
                    f"refused {', '.join(repr(r.name) for r in records)}: the total would pass the "
                    f"target of epsilon {self.target.epsilon:g} at delta {self.target.delta:g}"
                )
            if self._commit is not None and not paid:
                self._commit(records)
            self._records.extend(records)

    def allows(self, *records: Record) -> bool:
        """Whether these records, beside those that are written, keep to the target."""
        whole = (*self._records, *records)
        if _total_delta(whole) > self.target.selection_delta:
            return False
        if _total_mu(whole) <= self.target.mu * (1 + _ROUNDING):
            return True
        rest = self.target.delta - self.target.selection_delta
        return _sampled_epsilon(whole, rest) <= self.target.epsilon

    def affordable_mu(self) -> float:
        """The mu of the releases to all users that the target still allows."""
        return math.sqrt(max(0.0, self.target.mu**2 - self.mu**2))

    @property
    def mu(self) -> float:
        """Total cost so far: the square root of the sum of squared mu."""
        return _total_mu(self._records)

    def epsilon(self, delta: float) -> float:
        """The epsilon of everything recorded so far, at this delta: see ``total_epsilon``."""
        return total_epsilon(self._records, delta)

    def noise_of(self, name: str) -> float:
        """The standard deviation of the noise of the release of this name; 0 if there was none."""
        return next((record.noise_scale for record in self._records if record.name == name), 0.0)

    def copy(self) -> "Ledger":
        """What has been spent so far, under the same target; it takes no more releases.

        So do those of the ``copy`` module and of ``pickle``: two that take releases would spend twice.
        """
        return _closed_ledger(self.target, tuple(self._records))

    def __reduce__(self) -> tuple[Any, ...]:
        return _closed_ledger, (self.target, tuple(self._records))

    def __iter__(self) -> Iterator[Record]:
        return iter(tuple(self._records))

    def __len__(self) -> int:
        return len(self._records)


def _closed_ledger(target: PrivacyTarget, records: tuple[Record, ...]) -> Ledger:
    ledger = Ledger(target)
    ledger._records = list(records)
    ledger._closed = True
    return ledger


def _check_noise(record: Record) -> None:
    """Refuse less noise than the proof in ``discrete`` and the accounting of samples are good for."""
    least = LEAST_SAMPLED_NOISE if record.sampling_rate < 1 else 1 / LARGEST_MU
    if record.noise_scale < least * record.sensitivity * (1 - _CLOSE):
        raise BudgetExceededError(
            f"refused {record.name!r}: its noise is less than {least:g} times the sensitivity"
        )


def total_epsilon(records: Sequence[Record], delta: float) -> float:
    """The epsilon at this delta of all these releases together.

    Exact unless users were sampled or a catalog selected.
    """
    rest = delta - _total_delta(records)
    if rest <= 0:
        return math.inf
    return min(epsilon_from_mu(_total_mu(records), rest), _sampled_epsilon(records, rest))


def _sampled_epsilon(records: Sequence[Record], delta: float) -> float:
    """At this delta for the noise alone: whatever thresholds may let through is not counted.

    Infinite where no users were sampled, where it would take too long to compute, or cannot be.
    """
    sampled = [record for record in records if record.sampling_rate < 1]
    plain = [record for record in records if record.sampling_rate == 1]
    if not sampled or math.hypot(_total_mu(plain), *map(_rough_mu, sampled)) > _MOST_SAMPLED_MU:
        return math.inf
    steps = [
        SampledSteps(record.noise_scale / record.sensitivity, record.sampling_rate, record.steps)
        for record in sampled
    ]
    return sampled_epsilon(_total_mu(plain), steps, delta)


def _rough_mu(record: Record) -> float:
    """What many sampled steps cost about, by the central limit theorem: a figure, not a bound."""
    step = record.sensitivity / record.noise_scale
    if step > 1 / LEAST_SAMPLED_NOISE:  # the theorem says nothing, and the square may overflow
        return record.mu
    chi = math.sqrt(record.steps * math.expm1(step**2))
    return min(record.mu, record.sampling_rate * chi)


def _total_mu(records: Iterable[Record]) -> float:
    return math.sqrt(math.fsum(record.mu**2 for record in records))


def _total_delta(records: Iterable[Record]) -> float:
    return math.fsum(record.delta for record in records)
