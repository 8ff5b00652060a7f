"""Noise as one array: the sampler makes some rows at a time, in memory that it uses again."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.privacy import NoiseSource, discrete
from apportion.privacy.discrete import Scales, Source


def draw(out: NDArray[np.int64], scales: Scales, source: Source, settling: Source) -> None:
    """Fill ``out``, [rows, columns]."""
    first = 0
    for some in discrete.draw(len(out), scales, source, settling):
        out[first : first + len(some)] = some
        first += len(some)
    assert first == len(out)


def noise_of(
    source: NoiseSource, stream: str, step: int, first: int, tasks: int, scales: Scales
) -> Any:
    """What a release of these tasks adds, [tasks, columns]."""
    noise = np.empty((tasks, len(scales.order)), dtype=np.int64)
    missing = np.ones(tasks, dtype=bool)
    for at, some in source.discrete_gaussian(stream, step, first, tasks, scales):
        noise[at : at + len(some)] = some
        assert missing[at : at + len(some)].all()
        missing[at : at + len(some)] = False
    assert not missing.any()
    return noise
