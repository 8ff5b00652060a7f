"""How much of what people choose a private training can learn, and how large its model should be: events.

An item's right-hand side is a sum of its users' vectors. What stands out of noise, of all items, is

    E = 0.1 * sum over items of (s_i^2 - variance of its noise) * 0.29 mu^2,

s_i being the released sums of weights: s_i^2 is an item's energy if all of its users agreed, a tenth of it is
taken for what their tastes share, and 0.29 mu^2 is about one sweep's part of the budget. Where few items have
most of it, it is popularity more than taste: that is told by the number of items among which it is spread,

    M = (sum of s_i)^2 / sum of s_i^2.

Items that nobody has change neither E nor M, and so nothing of what is chosen.
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
# factors = _AT_ONE * sqrt(E) * (M / _ITEMS)^_BREADTH. The root has a reason (``lost``); the rest was found by
# trainings on four data sets.
_AT_ONE, _ITEMS, _BREADTH = 0.21, 3000, 0.3
MOST, _FEWEST, _ITEMS_PER_FACTOR = 512, 6, 12
# Where so few factors or fewer are wanted, popularity alone is as good.
_TOO_FEW = 4
# Where every item has a matrix of its own, or gradients are clipped.
MOST_OF_OTHERS = 64
# A model has at most so many numbers: a gigabyte while it is trained.
_LARGEST = 2**27
# E / M is what tastes add to an item's right-hand side, relative to its noise. Where it is not much above
# this, the factors that are learned are noisy, and fewer are better. Below it popularity is.
_CLEAR = 0.5
# An E of fewer standard deviations of its noise is none.
_CERTAIN = 2.0
UNOBSERVED, SERVING = 0.2, 0.45
# The penalty of users' vectors that are served, in units of that in training: items are noisy then, and many
# users have few events. Found on the same sets.
SERVED = 4.0
_SWEEPS = 6
# What is shown beside the best number of factors: so many times as many.
_SHOWN = (0.125, 0.25, 0.5, 2.0, 4.0, 8.0)


@dataclass(frozen=True, eq=False)
class Capacity:
    """What the released values of a training of events can carry.

    Attributes
        energy: E.
        error: its standard deviation, as far as noise makes it.
        spread: M.
        of_item: the energy of each item, roughly, [items].
        most: the largest number of factors that may be chosen.
    """

    energy: float
    error: float
    spread: float
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
        unit, items = _COMMON * _SWEEP * mu**2, len(sums)
        squares = max(float(np.sum(sums**2 - noise**2)), 0.0)
        square, all_items = float(np.sum(sums)) ** 2, float(max(items, 1))
        spread = all_items if square >= all_items * squares else max(square / squares, 1.0)
        error = noise**2 * math.sqrt(2 * items)
        return cls(unit * squares, unit * error, spread, unit * mass**2, most)

    @property
    def factors(self) -> int:
        """The number of factors that promises most."""
        return int(min(max(round(self._best(self.energy)), _FEWEST), self._largest))

    @property
    def popularity(self) -> bool:
        """Whether only what is popular can be learned: noise is more, or too few factors are wanted."""
        noise = self.energy < max(_CERTAIN * self.error, _CLEAR * self.spread)
        return noise or self._wanted(self.energy) < _TOO_FEW

    def forecasts(
        self,
        factors: int | None,
        sweeps: int | None,
        unobserved_weight: float | None,
        penalty: float = 0.0,
    ) -> list[Forecast]:
        """What can be expected with what is given, or else with what may be chosen; the best first.

        ``penalty`` is that of users' vectors that are served; 0 for that in training.
        """
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
        # Of a fifth as if all items were like those in it.
        items = len(self.of_item)
        energies = [items * float(np.mean(group)) if len(group) else 0.0 for group in groups]
        found = []
        for each in several:
            choice = Choice(each, sweeps or _SWEEPS, 0.0, training, serving, penalty)
            by_bucket = tuple(lost(each, self._best(energy)) for energy in energies)
            found.append(Forecast(choice, lost(each, self._best(self.energy)), by_bucket))
        return sorted(found, key=lambda one: one.error)

    @property
    def _largest(self) -> int:
        of_memory = _LARGEST // max(len(self.of_item), 1)
        return max(_TOO_FEW, min(self.most, of_memory, round(self.spread / _ITEMS_PER_FACTOR)))

    def _best(self, energy: float) -> float:
        """The best number of factors for this energy."""
        return self._wanted(energy) * energy / (energy + _CLEAR * self.spread)

    def _wanted(self, energy: float) -> float:
        """The same, if all that is learned were clear of noise."""
        return float(_AT_ONE * math.sqrt(energy) * (self.spread / _ITEMS) ** _BREADTH)


def lost(factors: int, wanted: float) -> float:
    """The share of tastes that a model of so many factors does not learn, if so many are the best.

    Taste fades over its directions: direction k has a part of 1 / k, as is usual for what people choose. A
    user's vector has a norm that all factors share, so with d of them direction k stands out of the noise by
    a signal of W^2 / (k d), and W^2 / (k d + W^2) of it is learned. Summed over k up to d, each times 1 / k,
    this is log(d / (d^2 + W^2)) and a constant, which is largest at d = W: where the signal of the last
    direction equals its noise. W^2 is proportional to E.
    """
    part = 1 / np.arange(1.0, MOST + 1)
    kept = part[:factors]
    signal = max(wanted, 1e-9) ** 2 / factors * kept
    return 1 - float(np.sum(kept * signal / (1 + signal)) / part.sum())
