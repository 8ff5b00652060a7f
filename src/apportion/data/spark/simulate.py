"""Simulated interactions that no single machine has to hold: every task makes the rows of some users."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.checks import whole
from apportion.data.memory import MOST
from apportion.data.simulate import Shape, check_shape, choose, rate, tails
from apportion.data.spark.sessions import Traveling, own_session

# About so many rows are made, and sent on, at once.
_ROWS = 2**20


def simulate_in_spark(
    session: Any,
    *,
    users: int,
    items: int,
    rows: int,
    rank: int = 8,
    rating_range: tuple[float, float] | None = (1.0, 5.0),
    popular_tenth: float = 0.5,
    active_tenth: float = 0.4,
    seed: int = 0,
) -> Any:
    """A Spark frame of interactions, as ``simulate_interactions`` describes them.

    Columns are user and item, whole numbers, and, unless ``rating_range`` is None, rating. The size is exact;
    the same seed gives the same rows whatever the cluster is, though not those of one machine.
    """
    shape = check_shape(users, items, rows, rating_range, popular_tenth, active_tenth)
    rank = whole("rank", rank, at_least=1, at_most=MOST)
    seed = whole("seed", seed, at_least=0, at_most=2**32)
    rng = np.random.default_rng([seed, 0])
    taken, popularity, by_popularity = tails(shape, rng)
    vectors = rng.standard_normal((shape["items"], rank), dtype=np.float32)
    qualities = rng.standard_normal(shape["items"], dtype=np.float32)
    edges = _blocks(taken)
    session = own_session(session)
    common = Traveling(session, (taken, popularity, by_popularity, vectors, qualities))
    made = _Block(common, shape, edges, seed)
    columns = "user long, item long"
    if shape["rating_range"] is not None:
        columns += ", rating double"
    blocks = len(edges) - 1
    return session.range(0, blocks, 1, blocks).mapInArrow(made, columns)


def _blocks(taken: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where blocks of users begin and end: of about ``_ROWS`` rows each."""
    rows = np.cumsum(taken)
    count = max(1, round(int(rows[-1]) / _ROWS))
    inner = np.searchsorted(rows, np.arange(1, count) * (rows[-1] / count))
    return np.unique(np.concatenate([[0], inner, [len(taken)]]))


@dataclass(frozen=True, eq=False)
class _Block:
    """Makes the rows of a block of users, from random numbers of its own."""

    common: Traveling
    shape: Shape
    edges: NDArray[np.int64]
    seed: int

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            for number in batch.column("id").to_pylist():
                columns = self._columns(number)
                yield pa.RecordBatch.from_pydict(columns)

    def _columns(self, number: int) -> dict[str, NDArray[Any]]:
        everybody, popularity, by_popularity, vectors, qualities = self.common.value
        first, stop = int(self.edges[number]), int(self.edges[number + 1])
        taken = everybody[first:stop]
        rng = np.random.default_rng([self.seed, 1, number])
        rank = vectors.shape[1]
        own = rng.standard_normal((stop - first, rank), dtype=np.float32) / np.float32(rank**0.5)
        place, rating = choose(taken, popularity, own, vectors, int(rng.integers(2**63)))
        user = np.repeat(np.arange(stop - first), taken)
        columns: dict[str, NDArray[Any]] = {
            "user": user + first,
            "item": by_popularity[place].astype(np.int64),
        }
        between = self.shape["rating_range"]
        if between is not None:
            means = rng.standard_normal(stop - first, dtype=np.float32)
            noise = rng.standard_normal(len(rating), dtype=np.float32)
            rate(rating, noise, means[user], qualities[place], between)
            columns["rating"] = np.clip(rating, *between).astype(np.float64)
        return columns
