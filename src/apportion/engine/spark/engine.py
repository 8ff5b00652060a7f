"""The Spark engine: shards of users on the executors, whole sums on the driver."""

from typing import Any

from apportion.checks import whole
from apportion.data.rows import Rows
from apportion.data.spark.sessions import check_session, own_session
from apportion.data.spark.shards import SparkRows, from_local
from apportion.data.stored import StoredRows
from apportion.engine.base import Engine
from apportion.engine.spark.session import ShardedSession
from apportion.engine.spark.tree import BLOCK_BYTES
from apportion.engine.spark.worker import local_engine
from apportion.errors import ParameterError

# A sum of every item's own matrix may be many times as large as the items: refused beyond this.
_MOST_SHUFFLED = 2**36


class SparkEngine(Engine):
    """Sums over users in the partitions of a Spark cluster, by the local engine of each executor.

    Users' rows, vectors and parts stay on the executors. Whole sums come to the driver, which adds the
    noise; the key of the noise is never anywhere else. A task that is computed again, on whatever machine,
    gives the same bytes.

    Args:
        session: a ``pyspark.sql.SparkSession``.
        shards: in how many parts rows that come from this machine's memory are divided; by default as many
            as tasks run at once. (Rows of ``from_spark`` are divided there.)
        most_shuffled: the most bytes that one sum may send between executors; more is refused. Counted are
            the shards that were asked for, or as many as tasks run at once: how many there are by default
            follows from the rows, which are private.
    """

    def __init__(
        self, session: Any, *, shards: int | None = None, most_shuffled: int = _MOST_SHUFFLED
    ) -> None:
        self._session = own_session(check_session(session))
        if shards is not None:
            whole("shards", shards, at_least=1, at_most=2**20)
        self._shards = shards
        self._most_shuffled = whole("most_shuffled", most_shuffled, at_least=1)
        self._over: list[str] = []  # trainings whose files on the executors are to be removed

    def identity(self) -> dict[str, str]:
        """See ``Engine.identity``: that of the executors' engine, which must be the driver's, too.

        The number of shards and of executors is not part of it: no sum depends on them. Blocks are, since a
        checkpoint remembers sums by block.
        """
        local = local_engine().identity()
        return {**local, "engine": f"spark ({local['engine']})", "blocks": f"{BLOCK_BYTES} bytes"}

    def load(self, rows: Rows | StoredRows) -> ShardedSession:
        """See ``Engine.load``."""
        if isinstance(rows, Rows):
            rows = from_local(self._session, rows, self._shards)
        if not isinstance(rows, SparkRows):
            raise ParameterError(f"SparkEngine cannot load {type(rows).__name__}")
        return ShardedSession(self._session, rows, self._most_shuffled, self._over)

    def __repr__(self) -> str:
        return "SparkEngine()"
