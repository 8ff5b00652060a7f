"""About how many users items have, and what weight these have: from released values."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.allocation.counts import COUNTS, Counts
from apportion.allocation.denoising import expected_sizes
from apportion.recommend.preparation import Preparation
from apportion.recommend.releases import WEIGHTS
from apportion.recommend.settings import Settings

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sizes:
    """What a preparation says of its items.

    Attributes
        expected: numbers of users, by their counts alone, [items]; None without counts.
        counts: the same, by whatever was released, [items].
        scale: the typical weight of an item's users, [items].
        noise: the standard deviation of the noise of the sums of weights.
    """

    expected: Array | None
    counts: Array
    scale: Array
    noise: float

    @classmethod
    def of(cls, settings: Settings, preparation: Preparation) -> "Sizes":
        """From the released counts and sums of weights."""
        sizes, sums = preparation.sizes, preparation.sums
        of_counts, of_sums = (preparation.ledger.noise_of(name) for name in (COUNTS, WEIGHTS))
        expected = None if sizes is None else expected_sizes(sizes, of_counts)
        scale, counts = settings.allocation.typical_weights(
            for_weights(settings, sizes, of_counts), expected, sums, of_sums
        )
        if not settings.explicit or sizes is None or settings.allocation.samples:
            return cls(expected, counts, scale, of_sums)
        if min(of_counts, of_sums) > 0:
            # Sums of weights are counts, too, on another scale: both together are less noisy than either.
            trust = np.square(of_counts * scale / of_sums)
            both = (sizes + trust * (sums / scale)) / (1.0 + trust)
            noise = of_counts / math.sqrt(1.0 + float(np.median(trust)))
            counts = expected_sizes(both, noise)
        return cls(expected, counts, scale, of_sums)


def for_weights(settings: Settings, sizes: Array | None, noise: float) -> Array | None:
    """The sizes from which weights follow, given released ones and their noise, [items]."""
    counts = counts_source(settings)
    return None if sizes is None or counts is None else counts.for_weights(sizes, noise)


def counts_source(settings: Settings) -> Counts | None:
    """Where counts come from, if there are any: the catalog, or else the allocation."""
    counts = settings.catalog.counts
    return settings.allocation.counts if counts is None else counts
