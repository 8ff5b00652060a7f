"""From an engine into a release: the one way that sums over users take."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
from numpy.typing import NDArray

from apportion.engine.base import Session
from apportion.engine.queries import Query
from apportion.privacy import OpenRelease
from apportion.privacy.noise import TILE
from apportion.threads import thread_count

Array = NDArray[np.float64]


def released_blocks(
    session: Session, query: Query, release: OpenRelease
) -> Iterator[tuple[slice, tuple[Array, ...]]]:
    """Sum and release some tasks at a time: which, and the noisy values of every part."""
    # A tile's noise is drawn by one thread, so a single tile needs no others.
    some = ThreadPoolExecutor(thread_count()) if session.tasks > TILE else nullcontext()
    done = 0
    with some as pool:
        release.run = map if pool is None else pool.map
        try:
            for first, units in session.sums(query, release.grids):
                yield slice(first, first + len(units[0])), release.feed(first, *units)
                done += len(units[0])
        finally:
            release.run = map
    assert done == release.records[0].shape[0], "every task, and none is fed twice"


def released(session: Session, query: Query, release: OpenRelease) -> tuple[Array, ...]:
    """Sum and release all tasks at once: the noisy values of every part."""
    blocks = [values for _, values in released_blocks(session, query, release)]
    if len(blocks) == 1:
        return blocks[0]
    return tuple(np.concatenate(parts) for parts in zip(*blocks, strict=True))


def exact(session: Session, query: Query) -> tuple[Array, ...]:
    """The same without privacy."""
    blocks = [values for _, values in session.exact_sums(query)]
    return tuple(np.concatenate(parts) for parts in zip(*blocks, strict=True))
