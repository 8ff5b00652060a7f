"""Who keeps the ledger and the noise key of one training, and opens its releases: the only doors out."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from apportion.checks import number, whole
from apportion.errors import ParameterError, ReleaseError
from apportion.privacy import release
from apportion.privacy.bounds import UserBound
from apportion.privacy.ledger import Ledger, PrivacyTarget, Record
from apportion.privacy.noise import NoiseSource
from apportion.privacy.parts import Part, records_of
from apportion.privacy.protocols import Listener, Payer, Witness
from apportion.privacy.release import Array, OpenRelease, Single, Units


class Curator(Single):
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
        listener: Listener | None = None,
    ) -> None:
        self.target = target
        self._listener = listener
        self.noise = NoiseSource() if noise is None else noise
        if reservation is not None and not self.noise.secret:
            raise ParameterError("noise of a fixed seed is NOT PRIVATE: no budget pays for it")
        self._witness = witness
        self.noise.claim()
        if reservation is not None:
            reservation.tie(self.noise.digest(reservation.token))
        self.reservation = reservation
        self.ledger = Ledger(target, None if reservation is None else reservation.commit)

    @property
    def secret_noise(self) -> bool:
        """Whether nobody knows the noise, and what was released is what the training saw."""
        replaced = self._listener is not None and self._listener.replaces
        return self.noise.secret and not replaced

    def open(
        self,
        name: str,
        parts: Sequence[Part],
        tasks: int,
        mu: float,
        shares: Sequence[float] | None = None,
        steps: int = 1,
        sampling_rate: float = 1.0,
    ) -> OpenRelease:
        """Open a joint release of several parts that costs ``mu`` in all, and record it.

        ``shares`` are the parts' portions of mu^2 (default: equal). With ``steps`` the parts are
        released that many times (see ``OpenRelease.next_step``) for the same cost in all. With a
        ``sampling_rate`` below one the caller must sum, in each step, over the users that
        ``OpenRelease.sample_key`` draws for it; ``mu`` is then the cost as if all users took part.
        """
        parts = tuple(parts)
        records = records_of(name, parts, tasks, mu, shares, steps, sampling_rate)
        self.ledger.append(*records)
        return OpenRelease(self.noise, parts, records, self._witness, self._listener)

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
            as far as its noise goes.
        Sensitivity
            Counts that are above zero without some user differ from those with it by at most 1 in each of
            at most cap: sqrt(cap). An id that this user alone brought has a count of at most 1. That one of
            at most cap such ids passes the threshold 1 + sigma z, 1 - Phi(z)^cap = delta, has probability
            at most delta. docs/explanation/proofs.md ("A thresholded selection") has the rest.
        """
        cap = whole("cap", cap, at_least=1, at_most=2**50)
        mu = number("mu of a release", mu, above=0, at_most=1e100)
        delta = number("delta of a selection", delta, above=0, below=1)
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
        record = part.record(name, 0, mu, delta=delta)
        if self._witness is not None:
            self._witness(record, 0, 0, counts, ids)
        units = counts[:, None] * round(1 / record.grid)
        noisy = release._add_noise(self.noise, map, part.scales(record), record, 0, 0, units)[:, 0]
        chosen = np.flatnonzero((noisy > threshold(record, cap, delta)) & (counts > 0))
        chosen = chosen[np.argsort(ids[chosen], kind="stable")]
        self.ledger.append(replace(record, shape=(len(chosen), 1)))
        if self._listener is None:
            return ids[chosen], noisy[chosen]
        return self._listener.selected(name, ids[chosen], noisy[chosen])


def threshold(record: Record, cap: int, delta: float) -> float:
    """What none of ``cap`` noisy counts of one passes, but with a probability of at most ``delta``."""
    lone = -math.expm1(math.log1p(-delta) / cap)  # the chance that a count of 1 passes
    # Noise on the grid is a little wider than its normal kin, and its tail is within one unit of it.
    deviation = math.hypot(record.noise_scale, 3 * record.grid) * (1 + 1e-9)
    return 1.0 - deviation * float(ndtri(lone)) + record.grid
