"""How much of what people choose a private training can learn, and how large its model should be: events.

An item's right-hand side is a sum of its users' vectors. What stands out of its noise is the energy

    E = 0.1 * mean over items of (s_i^2 - variance of its noise) * 0.29 mu^2,

s_i being the released sums of weights: s_i^2 is the energy if all of an item's users agreed, a tenth of it is
taken for what their tastes share, and 0.29 mu^2 is about one sweep's part of the budget. Everything follows
from it and from the number of items.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.data.buckets import task_buckets
from apportion.recommend.planner import BUCKETS, Forecast
from apportion.recommend.settings import Choice

Array = NDArray[np.float64]

# Of an item's energy, what its users' tastes have in common; of mu^2, one sweep.
_COMMON, _SWEEP = 0.1, 0.29
# factors = _AT_ONE * E^_GROWTH * (items / _ITEMS)^_BREADTH: found by 450 trainings on five data sets.
_AT_ONE, _GROWTH, _ITEMS, _BREADTH = 16.0, 0.55, 5000, 0.75
MOST, _FEWEST, _ITEMS_PER_FACTOR = 512, 4, 12
# Where every item has a matrix of its own, or gradients are clipped.
MOST_OF_OTHERS = 64
# A model has at most so many numbers: a gigabyte while it is trained.
_LARGEST = 2**27
# Where E is not much above this, the factors that are learned are noisy, and fewer are better.
_CLEAR = 0.5
# An E of fewer standard deviations of its noise is none.
_CERTAIN = 2.0
SWEEPS, UNOBSERVED, SERVING = 4, 0.2, 0.45
# What is shown beside the best number of factors: so many times as many.
_SHOWN = (0.125, 0.25, 0.5, 2.0, 4.0, 8.0)
# Of ``_lost``. Numbers of factors that are largest at E^(1 / (_FADE + 1)) are what the trainings found.
_FADE, _EDGE = 1 / _GROWTH - 1, 0.96


@dataclass(frozen=True, eq=False)
class Capacity:
    """What the released values of a training of events can carry.

    Attributes
        energy: E.
        error: its standard deviation, as far as noise makes it.
        of_item: the same of each item, roughly, [items].
        most: the largest number of factors that may be chosen.
    """

    energy: float
    error: float
    of_item: Array
    most: int = MOST

    @classmethod
    def of(cls, sums: Array, noise: float, mass: Array, mu: float, most: int = MOST) -> "Capacity":
        """From released values.

        Args:
            sums: of the users' weights, as released, [items].
            noise: its standard deviation.
            mass: what these sums are expected to be, [items].
            mu: the whole budget of the training.
            most: the largest number of factors that may be chosen.
        """
        unit = _COMMON * _SWEEP * mu**2
        energy = unit * float(np.mean(sums**2 - noise**2))
        error = unit * noise**2 * math.sqrt(2 / max(len(sums), 1))
        return cls(energy, error, unit * mass**2, most)

    @property
    def factors(self) -> int:
        """The number of factors that promises most."""
        return int(np.clip(round(self._worth(self.energy)), _FEWEST, self._largest))

    @property
    def popularity(self) -> bool:
        """Whether nothing beyond what is popular can be learned: too few factors are wanted."""
        return self.energy < _CERTAIN * self.error or self._wanted(self.energy) < _FEWEST

    def forecasts(
        self, factors: int | None, sweeps: int | None, unobserved_weight: float | None
    ) -> list[Forecast]:
        """What can be expected with what is given, or else with what may be chosen; the best first."""
        if self.popularity and factors is None and sweeps is None:
            return [Forecast(Choice(1, 0, 0.0), 1.0, (1.0,) * BUCKETS)]
        training, serving = (
            (UNOBSERVED, SERVING) if unobserved_weight is None else (unobserved_weight,) * 2
        )
        several = {self.factors if factors is None else factors}
        if factors is None:
            others = {round(self.factors * times) for times in _SHOWN}
            several |= {each for each in others if _FEWEST <= each <= self._largest}
        bucket = task_buckets(self.of_item, BUCKETS)
        groups = [self.of_item[bucket == each] for each in range(BUCKETS)]
        energies = [
            self.energy,
            *(float(np.mean(group)) if len(group) else 0.0 for group in groups),
        ]
        found = []
        for each in several:
            choice = Choice(each, sweeps or SWEEPS, 0.0, training, serving)
            overall, *by_bucket = (_lost(each, self._worth(energy)) for energy in energies)
            found.append(Forecast(choice, overall, tuple(by_bucket)))
        return sorted(found, key=lambda one: one.error)

    @property
    def _largest(self) -> int:
        items = len(self.of_item)
        most = min(self.most, _LARGEST // max(items, 1), items // _ITEMS_PER_FACTOR)
        return max(_FEWEST, most)

    def _worth(self, energy: float) -> float:
        """The best number of factors if items have this energy on average."""
        return self._wanted(energy) * max(energy, 0.0) / (max(energy, 0.0) + _CLEAR)

    def _wanted(self, energy: float) -> float:
        """The same, if all that is learned were clear of noise."""
        energy = max(energy, 0.0)
        breadth = (len(self.of_item) / _ITEMS) ** _BREADTH
        return float(_AT_ONE * energy**_GROWTH * breadth)


def _lost(factors: int, wanted: float) -> float:
    """The share of tastes that a model of so many factors does not learn, if so many are the best.

    Taste fades over its directions: direction k has a part p_k proportional to k^-_FADE. A user's vector has
    a norm that all factors share, so each stands out of the noise by a signal of S_k proportional to
    p_k / factors, and S_k / (1 + S_k) of it is learned. What is learned in all is largest where the last
    direction has a signal of about one: that fixes the scale.
    """
    part = np.arange(1.0, MOST + 1) ** -_FADE
    kept = part[:factors]
    signal = _EDGE * max(wanted, 1e-9) ** (_FADE + 1) / factors * kept
    return 1 - float(np.sum(kept * signal / (1 + signal)) / part.sum())
