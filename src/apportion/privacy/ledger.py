"""What was released, at what cost. Every epsilon that this package prints comes from here.

Guarantee
    A ledger of records with sensitivities S_k and noise scales sigma_k describes a mechanism that is
    mu-GDP with mu^2 = sum of (S_k / sigma_k)^2, also when later releases depend on earlier ones
    (adaptive composition of Gaussian mechanisms). A record of T steps counts T times. Records of
    thresholded selections have a delta besides: the total of these is taken off the delta at which
    epsilon is computed (see ``Curator.select``). If each step sees a Poisson sample of the users, the
    same mu still holds, and epsilon is the smaller of that and what ``sampled`` computes, which knows what
    sampling adds. ``append`` is called by a release before any value leaves, and refuses whatever would
    pass the target, and noise below 1/8 of the sensitivity (0.3 of it per step with sampled users),
    where other proofs end. A ledger that is paid from a ``Budget`` commits the records there first.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from threading import RLock
from typing import Any, Self

from apportion.checks import number, whole
from apportion.errors import (
    BudgetExceededError,
    DataError,
    ParameterError,
    ReleaseError,
)
from apportion.privacy.gaussian import (
    LARGEST_MU,
    check_delta,
    check_epsilon,
    epsilon_from_mu,
    mu_from_epsilon,
)
from apportion.privacy.json_text import parse_json
from apportion.privacy.sampled import SampledSteps, find_dp_accounting, sampled_epsilon

# Which data sets the guarantee cannot tell apart.
ADD_OR_REMOVE = "add or remove one user"
# Noise over sensitivity of a step with sampled users is at least this.
_LEAST_SAMPLED_NOISE = 0.3
# The cost of sampled steps is computed up to about this mu, far beyond any target: the time and memory
# that it takes grow with it, and a ledger may come from anywhere.
_MOST_SAMPLED_MU = 10.0
# A training has one record of sampled steps, or a few; each is accounted for by itself.
_MOST_SAMPLED_RECORDS = 20
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
        grid: what was released are multiples of this power of two; zero without noise.
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
        sensitivity = number("sensitivity", self.sensitivity, above=0)
        noise_scale = number("noise_scale", self.noise_scale, at_least=0, below=1e300)
        object.__setattr__(self, "sensitivity", sensitivity)
        object.__setattr__(self, "noise_scale", noise_scale)
        object.__setattr__(self, "steps", whole("steps", self.steps, at_least=1))
        rate = number("sampling_rate", self.sampling_rate, above=0, at_most=1)
        object.__setattr__(self, "sampling_rate", rate)
        object.__setattr__(self, "delta", number("delta", self.delta, at_least=0, below=1))
        object.__setattr__(self, "grid", number("grid", self.grid, at_least=0, below=1e300))

    @property
    def mu(self) -> float:
        """The cost of this release without regard to sampling; infinite without noise."""
        if self.noise_scale == 0:
            return math.inf
        return math.sqrt(self.steps) * self.sensitivity / self.noise_scale

    def to_dict(self) -> dict[str, Any]:
        """Plain values. Infinity is written as the string "inf"."""
        return _plain(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of ``to_dict``; anything missing or unknown is an error."""
        if set(values) != {field.name for field in fields(cls)}:
            raise DataError("not a ledger: a record has other fields than it should")
        names = ("sensitivity", "noise_scale", "delta", "grid")
        numbers = {name: float(values[name]) for name in names}
        shape = tuple(whole("shape", size, at_least=0) for size in values["shape"])
        return cls(**{**values, **numbers, "shape": shape})


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

    ``commit`` is given the records of each release before they are written here, and may refuse them
    by an error: see ``Budget``.
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
                raise ReleaseError(
                    "a copy of a ledger shows what was spent, and takes no more releases"
                )
            names = [record.name for record in (*self._records, *records)]
            if len(set(names)) < len(names):
                raise ParameterError(
                    f"a release named {records[0].name!r} is in the ledger already"
                )
            for record in records:
                self._check_noise(record)
            if not self._within_target((*self._records, *records)):
                raise BudgetExceededError(
                    f"refused {', '.join(repr(r.name) for r in records)}: the total would pass the "
                    f"target of epsilon {self.target.epsilon:g} at delta {self.target.delta:g}"
                )
            if self._commit is not None and not paid:
                self._commit(records)
            self._records.extend(records)

    def _check_noise(self, record: Record) -> None:
        """Refuse less noise than proofs (``discrete``) and the accounting of samples are good for."""
        if math.isinf(self.target.epsilon) and record.noise_scale == 0:
            return
        least = _LEAST_SAMPLED_NOISE if record.sampling_rate < 1 else 1 / LARGEST_MU
        if record.noise_scale < least * record.sensitivity * (1 - _CLOSE):
            raise BudgetExceededError(
                f"refused {record.name!r}: its noise is less than {least:g} times the sensitivity"
            )

    def _within_target(self, records: Sequence[Record]) -> bool:
        if _total_delta(records) > self.target.selection_delta:
            return False
        if _total_mu(records) <= self.target.mu * (1 + _ROUNDING):
            return True
        if not any(record.sampling_rate < 1 for record in records):
            return False
        rest = self.target.delta - self.target.selection_delta
        return _sampled_epsilon(records, rest) <= self.target.epsilon

    def affordable_mu(self, steps: int = 1, sampling_rate: float = 1.0) -> float:
        """The largest mu (as if all users took part) that one more release may cost.

        Exact to rounding for all users; for Poisson samples within 0.1 % and on the safe side.
        """
        if math.isinf(self.target.mu):
            return math.inf
        if sampling_rate == 1:
            return math.sqrt(max(0.0, self.target.mu**2 - self.mu**2))
        plain = self.affordable_mu()
        if plain == 0:
            return 0.0
        # Less noise than this a step would make epsilon depend on rare events alone, and its
        # computation unreliable: whoever is sampled would be seen.
        most = math.sqrt(steps) / _LEAST_SAMPLED_NOISE

        def fits(mu: float) -> bool:
            noise_scale = math.sqrt(steps) / mu
            trial = Record("trial", "", (), 1.0, "", noise_scale, steps, sampling_rate)
            return self._within_target((*self._records, trial))

        low, high = plain, 2 * plain
        while high < most and fits(high):
            low, high = high, 2 * high
        if low >= most or (high >= most and fits(most)):
            return min(low, most) if low >= most else most
        high = min(high, most)
        while high / low > 1.001:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low

    @property
    def mu(self) -> float:
        """Total cost so far: the square root of the sum of squared mu."""
        return _total_mu(self._records)

    def epsilon(self, delta: float) -> float:
        """The epsilon of everything recorded so far, at this delta.

        Exact unless users were sampled or a catalog selected.
        """
        return total_epsilon(self._records, delta)

    def copy(self) -> Self:
        """What has been spent so far, under the same target; it takes no more releases.

        So do those of the ``copy`` module and of ``pickle``: two that take releases would spend twice.
        """
        other = type(self)(self.target)
        other._records = list(self._records)
        other._closed = True
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        return _closed_ledger, (self.target, tuple(self._records))

    def __iter__(self) -> Iterator[Record]:
        return iter(tuple(self._records))

    def __len__(self) -> int:
        return len(self._records)

    def to_dp_event(self) -> Any:
        """The same releases as a dp-accounting event (needs the ``accounting`` extra)."""
        return dp_event(self._records)

    def to_json(self) -> str:
        """The target and all records, as JSON text."""
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a ledger back. Costs are computed again from the records, never read."""
        try:
            values = parse_json(text)
        except DataError as error:
            raise DataError(f"not a ledger: {error}") from None
        return cls.from_dict(values)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in ``to_json``. Infinity is written as the string "inf"."""
        return {
            "target": _plain(self.target),
            "records": [record.to_dict() for record in self._records],
        }

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """The inverse of ``to_dict``; anything missing or unknown is an error."""
        try:
            target = {name: float(value) for name, value in values["target"].items()}
            ledger = cls(PrivacyTarget(**target))
            records = [Record.from_dict(entry) for entry in values["records"]]
            if sum(record.sampling_rate < 1 for record in records) > _MOST_SAMPLED_RECORDS:
                raise DataError(
                    f"not a ledger of one training: more than {_MOST_SAMPLED_RECORDS} releases to "
                    "sampled users"
                )
            if records:
                ledger.append(*records)
        except DataError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise DataError(f"not a ledger: {error}") from error
        return ledger


def _closed_ledger(target: PrivacyTarget, records: tuple[Record, ...]) -> Ledger:
    ledger = Ledger(target)
    ledger._records = list(records)
    return ledger.copy()


def _plain(values: PrivacyTarget | Record) -> dict[str, Any]:
    plain = {field.name: getattr(values, field.name) for field in fields(values)}
    return {name: "inf" if value == math.inf else value for name, value in plain.items()}


def dp_event(records: Sequence[Record]) -> Any:
    """Releases as a dp-accounting event."""
    dp_accounting = find_dp_accounting()
    events = []
    for record in records:
        if not math.isfinite(record.mu):
            event = dp_accounting.NonPrivateDpEvent()
        else:
            event = dp_accounting.GaussianDpEvent(record.noise_scale / record.sensitivity)
            if record.sampling_rate < 1:
                event = dp_accounting.PoissonSampledDpEvent(record.sampling_rate, event)
            if record.steps > 1:
                event = dp_accounting.SelfComposedDpEvent(event, record.steps)
        events.append(event)
        if record.delta > 0:
            # There is no event for it: accountants must refuse instead of leaving it out.
            events.append(dp_accounting.UnsupportedDpEvent())
    return dp_accounting.ComposedDpEvent(events)


def _sampled_epsilon(records: Sequence[Record], delta: float) -> float:
    """At this delta for the noise alone: whatever thresholds may let through is not counted.

    Infinite where it would take too long to compute, or cannot be.
    """
    if math.sqrt(math.fsum(_sampled_mu(record) ** 2 for record in records)) > _MOST_SAMPLED_MU:
        return math.inf
    plain = _total_mu(record for record in records if record.sampling_rate == 1)
    steps = [
        SampledSteps(record.noise_scale / record.sensitivity, record.sampling_rate, record.steps)
        for record in records
        if record.sampling_rate < 1
    ]
    return sampled_epsilon(plain, steps, delta)


def _sampled_mu(record: Record) -> float:
    """What many sampled steps cost about, by the central limit theorem: a figure, not a bound."""
    if record.sampling_rate == 1 or not math.isfinite(record.mu):
        return record.mu
    step = record.sensitivity / record.noise_scale
    if step > 1 / _LEAST_SAMPLED_NOISE:  # the theorem says nothing, and the square may overflow
        return record.mu
    chi = math.sqrt(record.steps * math.expm1(step**2))
    return min(record.mu, record.sampling_rate * chi)


def total_epsilon(records: Sequence[Record], delta: float) -> float:
    """The epsilon at this delta of all these releases together.

    Exact unless users were sampled or a catalog selected.
    """
    rest = delta - _total_delta(records)
    if rest <= 0:
        return math.inf
    epsilon = epsilon_from_mu(_total_mu(records), rest)
    if math.isfinite(epsilon) and any(record.sampling_rate < 1 for record in records):
        return min(epsilon, _sampled_epsilon(records, rest))
    return epsilon


def _total_mu(records: Any) -> float:
    return math.sqrt(math.fsum(record.mu**2 for record in records))


def _total_delta(records: Any) -> float:
    return math.fsum(record.delta for record in records)
