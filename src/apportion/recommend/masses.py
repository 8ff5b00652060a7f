"""About the sums of users' weights per item: from every release that tells them, the later ones too.

A sweep releases b_i, the sum of the weighted vectors v_j of item i's users. Whatever their tastes, these have
a mean m in common, so that b_i is about s_i m, s_i being the item's sum of weights: along m every sweep
counts the item's users again. All such estimates are averaged, the more precise ones counting more. Counts
released before the sweeps have a tenth of the budget; with those of six sweeps they are two times as precise.

The users of one item have a mean a little off m: by that an estimate is off in proportion to s_i. How far is
told by how much more it differs from what was known than noise explains.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.allocation.counts import COUNTS
from apportion.allocation.denoising import expected_sizes
from apportion.recommend.preparation import Preparation
from apportion.recommend.settings import Settings
from apportion.recommend.sizes import Sizes

Array = NDArray[np.float64]

# Rounds of denoising after each sweep: the total of a long tail, which takes more, is not used here.
_ROUNDS = 200
# No release is taken to be more precise than this.
_LEAST_NOISE = 1e-12


@dataclass(frozen=True, eq=False)
class Masses:
    """Sums of weights as they are known so far.

    Attributes
        noisy: their mean so far, [items].
        precision: one over the variance of its noise, [items].
    """

    noisy: Array
    precision: Array

    @classmethod
    def of(cls, settings: Settings, preparation: Preparation, sizes: Sizes) -> "Masses":
        """By counts and sums of weights, as they were released before the sweeps."""
        found = cls(preparation.sums, np.full(len(preparation.sums), _precision(sizes.noise)))
        if preparation.sizes is None or settings.allocation.samples:
            return found
        noise = preparation.ledger.noise_of(COUNTS)
        return found.joined(preparation.sizes * sizes.scale, _precision(noise * sizes.scale))

    def joined(self, told: Array, precision: Array | float) -> "Masses":
        """With one more estimate of all of them."""
        whole = self.precision + precision
        return Masses((self.noisy * self.precision + told * precision) / whole, whole)

    def after(self, b: Array, noise: float) -> "Masses":
        """With what a sweep's right-hand sides [items, factors] say, given their noise."""
        known = self.expected
        power = float(known @ known)
        mean = known @ b / power
        # What noise alone makes of the square of the mean is no signal.
        square = float(mean @ mean)
        signal = square - b.shape[1] * noise**2 / power
        if not signal > 0:
            return self
        told, variance = b @ mean / square, noise**2 / signal
        excess = np.square(told - self.noisy) - 1 / self.precision - variance
        unlike = max(float(np.sum(excess)) / power, 0.0)
        return self.joined(told, 1 / np.maximum(variance + unlike * known**2, _LEAST_NOISE**2))

    @property
    def expected(self) -> Array:
        """The sums to expect, all positive, [items]."""
        return expected_sizes(self.noisy, 1 / np.sqrt(np.median(self.precision)), rounds=_ROUNDS)

    @property
    def columns(self) -> Array:
        """For a checkpoint, [items, 2]."""
        return np.stack([self.noisy, self.precision], axis=1)

    @classmethod
    def from_columns(cls, columns: Array) -> "Masses":
        """The inverse of ``columns``."""
        return cls(columns[:, 0].copy(), columns[:, 1].copy())


def _precision(noise: Array | float) -> Array:
    return 1 / np.square(np.maximum(noise, _LEAST_NOISE))
