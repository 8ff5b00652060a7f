"""What is asked of a Spark session: settings of our own, errors of ours, values that travel."""

import pickle
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from apportion.errors import ApportionError, DataError, ParameterError, ReleaseError

Value = TypeVar("Value")

# Binary pieces of rows have a megabyte: so many of them are read, or sent to Python, at once.
CHUNK = 2**20
_AT_ONCE = "32"
_MOST_REMOTE = 2**26  # half of a message of Spark Connect
_SMALL = 2**16  # bytes that are not worth a broadcast
_KINDS = {kind.__name__: kind for kind in (DataError, ParameterError, ReleaseError)}
_OURS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": _AT_ONCE,
    "spark.sql.parquet.columnarReaderBatchSize": _AT_ONCE,
    "spark.sql.adaptive.enabled": "false",  # shards stay in the partitions that they are put in
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
}


def is_remote(session: Any) -> bool:
    """Whether a session is Spark Connect's, which has frames, but no broadcasts."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def check_session(session: Any) -> Any:
    """Refuse what is no Spark session."""
    if not type(session).__module__.startswith("pyspark.sql") or not hasattr(session, "read"):
        raise ParameterError(
            f"session must be a pyspark SparkSession, got a {type(session).__name__}; make one with "
            "SparkSession.builder.getOrCreate() (pip install 'apportion[spark]')"
        )
    return session


def own_session(session: Any) -> Any:
    """The same Spark with settings of our own: the caller's stay as they are."""
    try:
        ours = session.newSession()
    except (AttributeError, NotImplementedError):
        raise ParameterError(
            "this session of Spark Connect cannot make another one: it needs PySpark 4.3 or later "
            "(pip install 'apportion[spark-connect]')"
        ) from None
    for name, value in _OURS.items():
        ours.conf.set(name, value)
    return ours


def parallelism(session: Any) -> int:
    """About how many tasks run at once."""
    if not is_remote(session):
        return max(1, int(session.sparkContext.defaultParallelism))
    found = session.conf.get("spark.default.parallelism", None)
    if found is None:  # what an empty frame is divided into
        found = session.range(1000).selectExpr("spark_partition_id() p").distinct().count()
    return max(1, int(found))


class Traveling:
    """A value that tasks need: a broadcast; or a part of every task, where it is small or there are none."""

    def __init__(self, session: Any, value: Any) -> None:
        from pyspark import cloudpickle

        # Also what plain pickle does not take, as losses do: functions within functions. Arrays beside it, so
        # that they are not copied.
        arrays: list[pickle.PickleBuffer] = []
        content = cloudpickle.dumps(value, protocol=5, buffer_callback=arrays.append)
        size = len(content) + sum(each.raw().nbytes for each in arrays)
        remote = is_remote(session)
        if remote and size > _MOST_REMOTE:
            raise ParameterError(
                "tasks need more of items than Spark Connect takes at once "
                f"({_MOST_REMOTE / 2**20:.0f} MiB): use fewer items or factors, or run the driver on the "
                "cluster (spark-submit), which broadcasts them"
            )
        self._held: Any = None
        self._broadcast: Any = None
        if remote or size <= _SMALL:  # arrays may change before it travels
            self._held = content, [bytes(each) for each in arrays]
        else:
            self._broadcast = session.sparkContext.broadcast((content, arrays))

    @property
    def value(self) -> Any:
        """The value, on the driver or in a task."""
        content, arrays = self._held or self._broadcast.value
        return pickle.loads(content, buffers=arrays)

    def forget(self) -> None:
        """No task needs it any more: it is removed, also from the driver's disk."""
        if self._broadcast is not None:
            with suppress(Exception):  # Spark may have been stopped
                self._broadcast.destroy()


def unpersist(frame: Any) -> None:
    """Keep a frame no longer."""
    session = frame.sparkSession
    policies = session.client.get_retry_policies() if is_remote(session) else None
    with suppress(Exception):  # Spark may have been stopped
        if policies is None:
            frame.unpersist()
            return
        session.client.set_retry_policies([])  # a server that is gone would be waited for
        try:
            frame.unpersist()
        finally:
            session.client.set_retry_policies(policies)


def error_text(error: ApportionError) -> bytes:
    """An error of ours, as a task hands it to the driver."""
    return f"{type(error).__name__}: {error}".encode()


def raise_error(text: bytes) -> None:
    """The error of a task, on the driver."""
    name, _, message = text.decode().partition(": ")
    raise _KINDS.get(name, DataError)(message)


@contextmanager
def spark_errors() -> Iterator[None]:
    """Failures of Spark that the caller can mend, in our words; others stay as they are."""
    try:
        yield
    except ApportionError:
        raise
    except Exception as error:
        text = str(error)
        missing = re.search(r"No module named '(apportion|polars|numpy|scipy|pyarrow)\b", text)
        if missing:
            raise ParameterError(
                f"the executors have no {missing[1]}: Python there must have the same packages as here, "
                "apportion with its compiled kernels included; docs/how-to/spark.md says how they get there"
            ) from error
        raise
