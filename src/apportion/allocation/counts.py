"""Task sizes n_i: released privately, or declared public."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from apportion.accounts.declared import Declared
from apportion.checks import LEAST_SHARE, number, whole, word
from apportion.engine import Session, queries
from apportion.engine.feed import exact, released
from apportion.errors import ParameterError
from apportion.privacy import ADD_OR_REMOVE, Curator, Part, UserBound

# The name of their release.
COUNTS = "counts"


class Counts(ABC):
    """Where task sizes come from."""

    share: float

    @abstractmethod
    def release(self, session: Session, curator: Curator) -> NDArray[np.float64]:
        """Task sizes that may be used freely, as they are released: with noise, if there is any, [tasks]."""

    def for_weights(self, noisy: NDArray[np.float64], noise: float) -> NDArray[np.float64]:
        """Positive sizes from which weights follow, given released ones and their noise, [tasks]."""
        del noise
        return np.maximum(noisy, 1.0)

    def declared(self) -> Declared | None:
        """The release that ``release`` makes, if it makes one."""
        return None

    def fixed(self) -> str:
        """What of the data is taken as known and the same in neighboring data sets, if anything."""
        return ""

    def neighboring(self) -> str:
        """Which data sets the guarantee cannot tell apart."""
        fixed = self.fixed()
        return f"{ADD_OR_REMOVE}, {fixed} being public and fixed" if fixed else ADD_OR_REMOVE

    def public_inputs(self) -> dict[str, Any]:
        """What is taken as public, for the privacy report."""
        return {}

    def warnings(self) -> tuple[str, ...]:
        """What a reader of the privacy report should know."""
        return ()


def check_counts(counts: object) -> None:
    """Refuse what is no source of task sizes."""
    if not isinstance(counts, Counts):
        kind = type(counts).__name__
        raise ParameterError(f"counts must be PrivateCounts or PublicCounts, got a {kind}")


@dataclass(frozen=True)
class PrivateCounts(Counts):
    """Noisy task sizes, released through the ledger before training.

    Guarantee
        mu-GDP with mu^2 = share * (total mu)^2.
    Sensitivity
        A user in n_j tasks adds a vector with n_j equal entries. ``"scale"``: the entries are
        min(1, sqrt(cap / n_j)), so the norm is min(sqrt(n_j), sqrt(cap)) <= sqrt(cap). ``"sample"``: at
        most cap entries are one, the others zero, so the norm is <= sqrt(cap).
    Assumes public
        share, cap, method, floor and over_estimate.

    Args:
        share: portion of the whole budget (of mu^2) that the counts may cost.
        cap: a user in more tasks than this counts less; about the usual number of tasks per user.
        method: ``"scale"`` (every task counted, with less weight) or ``"sample"`` (``cap`` tasks
            chosen at random, as in the paper's code).
        floor: for weights, counts below this many standard deviations of the noise are raised to that
            level. Otherwise the noisiest of the small tasks would get the largest weights.
        over_estimate: add s, the error that no count passes with 99 % probability, so that weights
            are rather too small than too large (the paper's appendix on private counts).
    """

    share: float = 0.1
    cap: int = 50
    method: Literal["scale", "sample"] = "scale"
    floor: float = 1.0
    over_estimate: bool = False

    def __post_init__(self) -> None:
        number("share", self.share, at_least=LEAST_SHARE, below=1)
        whole("cap", self.cap, at_least=1, at_most=2**50)
        word("method", self.method, ("scale", "sample"))
        number("floor", self.floor, at_least=0, at_most=1e6)

    def declared(self) -> Declared:
        """See ``Counts.declared``."""
        scaled = "users per task, users of many tasks scaled down"
        what = (
            scaled if self.method == "scale" else "users per task, from sampled tasks of each user"
        )
        # Scaled entries are rounded: a hair more than sqrt(cap) covers it.
        bound = UserBound(
            math.sqrt(self.cap) * (1 + 1e-9), f"a user adds a vector of norm <= sqrt({self.cap})"
        )
        return Declared(COUNTS, (Part(COUNTS, what, bound),), share=self.share)

    def release(self, session: Session, curator: Curator) -> NDArray[np.float64]:
        """Noisy counts, [tasks]."""
        key = curator.noise.sampling_key("counts") if self.method == "sample" else None
        release = self.declared().open(curator, session.tasks)
        [sums] = released(session, queries.Counts(self.cap, key), release)
        return sums[:, 0]

    def for_weights(self, noisy: NDArray[np.float64], noise: float) -> NDArray[np.float64]:
        """Noisy counts, floored, [tasks]."""
        if self.over_estimate and len(noisy):
            noisy = noisy + noise * float(ndtri(1 - 0.005 / len(noisy)))
        return np.maximum(noisy, max(1.0, self.floor * noise))


def _public_count(size: object) -> float:
    return number("a public count", size, at_least=0, at_most=1e18)


@dataclass(frozen=True)
class PublicCounts(Counts):
    """Task sizes that are public knowledge, at no cost.

    Args:
        values: the sizes, [tasks]. None takes the exact counts of the training data and declares
            them public: they are then not protected, and the report says so.
    """

    values: Sequence[float] | None = None
    share = 0.0

    def __post_init__(self) -> None:
        if self.values is not None:
            try:
                sizes = tuple(_public_count(size) for size in self.values)
            except TypeError:
                raise ParameterError("public counts must be a list of numbers") from None
            object.__setattr__(self, "values", sizes)

    def release(self, session: Session, curator: Curator) -> NDArray[np.float64]:
        """The given sizes, at least one each, [tasks]."""
        del curator  # free: nothing is released
        if self.values is None:
            [sizes] = exact(session, queries.Counts(1))
            return np.maximum(sizes[:, 0], 1.0)
        if len(self.values) != session.tasks:
            raise ParameterError(f"public counts must be {session.tasks} numbers, one per task")
        return np.asarray(np.maximum(self.values, 1.0), dtype=np.float64)

    def fixed(self) -> str:
        """The exact counts, if they were read from the data."""
        return "" if self.values is not None else "the exact task counts"

    def public_inputs(self) -> dict[str, Any]:
        """The source of the sizes."""
        source = "exact counts of the training data" if self.values is None else "given"
        return {"task counts": f"{source}, declared public"}

    def warnings(self) -> tuple[str, ...]:
        """A warning if the sizes were read from the data."""
        if self.values is not None:
            return ()
        return ("exact task counts were declared public: the guarantee does not cover them",)
