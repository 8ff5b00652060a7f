"""What a task does: tell its shard's session what it has missed, and ask it for a sum."""

import gc
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from apportion.data.spark.sessions import Traveling, error_text
from apportion.data.spark.shards import collect, digest, join, read_shard
from apportion.engine.base import Array, Block, Engine
from apportion.engine.choice import find_engine
from apportion.engine.cpu import NativeKernels
from apportion.engine.reference import TwinKernels
from apportion.engine.session import LocalSession
from apportion.engine.spark.calls import Call
from apportion.engine.spark.kept import Kept
from apportion.engine.spark.tree import ERROR, LOST, row, rows_of
from apportion.errors import ApportionError, DataError, ParameterError
from apportion.native import kernels
from apportion.version import __version__

# Sessions that this process has at hand, the latest last; others are in files of the executor.
_AT_HAND: dict[tuple[str, int], Kept] = {}
_MOST_AT_HAND = 4


@dataclass(frozen=True)
class Ask:
    """A sum that is asked for: a method of the session, and its arguments."""

    name: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Work:
    """A task's work, as it travels.

    Attributes
        run: the name of the training.
        common: to all shards: ids of the tasks that there are rows of, their keys, digests of the shards.
        labels: whether the labels of rows count.
        calls: what the session was told.
        asks: what it is asked.
        last: whether nothing more is asked of users' vectors that were just solved.
        numbers: how the driver's machine computes (``numbers_here``).
        over: trainings that are over.
    """

    run: str
    common: Traveling
    labels: bool
    calls: tuple[Call, ...]
    asks: Traveling
    last: bool
    numbers: str
    over: tuple[str, ...]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """For every shard in a partition, its sums in blocks; an error of ours as a row of its own.

        Of a frame without the shards' data, what is left of earlier tasks answers; a row says if nothing is.
        """
        try:
            _check_numbers(self.numbers)
            _set_threads()
            _keep_modules()
            disks = _disks()
            for disk, run in product(disks, self.over):
                shutil.rmtree(disk / run, ignore_errors=True)
            shards = collect(batches)
            for label in list(shards):
                folder = disks[label % len(disks)] / self.run / str(label)
                yield from self._answer(folder, label, shards.pop(label))
        except ApportionError as error:
            yield row(0, ERROR, 0, 0, error_text(error))

    def _answer(self, folder: Path, label: int, pieces: dict[int, Any]) -> Iterator[Any]:
        kept = self._find(folder, label)
        if kept is None and not pieces:
            yield row(0, LOST, label, 0, b"")
            return
        if kept is None:
            ids, keys, digests = self.common.value
            content = join(pieces)
            if digests is not None and digests.get(label) != digest(content):
                raise DataError("the stored rows are not those that were written: store them again")
            rows = read_shard(content, ids, keys, labels=self.labels)
            kept = Kept(LocalSession(rows, _kernels()), folder)
        pieces.clear()
        for call in self.calls:
            if call.serial > kept.serial:
                _tell(kept.session, call)
                kept.serial = call.serial
        for number, ask in enumerate(self.asks.value):
            for first, parts in _sums(kept.session, ask):
                yield from rows_of(number, label, first, parts)
        _AT_HAND[self.run, label] = kept.save(self._settled)
        while len(_AT_HAND) > _MOST_AT_HAND:
            _AT_HAND.pop(next(iter(_AT_HAND)))

    @property
    def _settled(self) -> int:
        """The call up to which later tasks need what was made: vectors that were asked all are not needed."""
        serials = [0, *(call.serial for call in self.calls)]
        solved = bool(self.calls) and self.calls[-1].name == "solve_users"
        return serials[-2 if solved and self.last else -1]

    def _find(self, folder: Path, label: int) -> Kept | None:
        """What is left of earlier tasks on this shard, in this process or another one of the executor."""
        for run, other in list(_AT_HAND):
            if run in self.over:
                del _AT_HAND[run, other]
        serials = [0, *(call.serial for call in self.calls)]
        mine = _AT_HAND.pop((self.run, label), None)
        if mine is None:
            return Kept.read(folder, most=serials[-1])
        if mine.serial == serials[-1]:
            return mine
        done = max(each for each in serials if each <= mine.serial)
        return mine.newer(least=done, most=serials[-1]) or mine


def _sums(session: LocalSession, ask: Ask) -> Iterator[Block]:
    if ask.name == "candidates":
        yield 0, (session.candidates(*ask.arguments)[1][:, None],)
    else:
        yield from getattr(session, ask.name)(*ask.arguments)


class Turned(NativeKernels):
    """The compiled kernels, told by the driver what LAPACK computes."""

    given: Any = None

    def turned(self, items: Array, shared: Array) -> tuple[Array, Array, Array]:
        """See ``NativeKernels.turned``."""
        return super().turned(items, shared) if self.given is None else self.given


def _kernels() -> Turned | TwinKernels:
    return TwinKernels() if kernels is None else Turned()


def _tell(session: LocalSession, call: Call) -> None:
    arguments, named = call.arguments.value
    if call.name != "solve_users":
        getattr(session, call.name)(*arguments, **named)
        return
    named = dict(named)
    Turned.given = _as_floats(named.pop("turned"))
    try:
        session.solve_users(*arguments, **named)
    finally:
        Turned.given = None


def _as_floats(turned: Any) -> Any:
    return turned and tuple(np.asarray(each, dtype=np.float64) for each in turned)


def local_engine() -> Engine:
    """The engine of one machine that executors use: the compiled one, if there is one."""
    return find_engine("auto")


def numbers_here() -> str:
    """How this machine computes: versions, and the last digits of what NumPy leaves to the processor."""
    steps = np.linspace(0.01, 1000.0, 1003)
    found = [steps**power for power in (-0.5, -0.25, -0.1, 0.3, 1.7)]
    found += [np.exp(-steps / 100), np.log(steps), np.sqrt(steps)]
    digits = hashlib.blake2b(b"".join(each.tobytes() for each in found), digest_size=8).hexdigest()
    built = "none" if kernels is None else kernels.digest[:16]
    return f"apportion {__version__}, kernels {built}, numpy {np.__version__}, digits {digits}"


def _check_numbers(of_driver: str) -> None:
    if (here := numbers_here()) != of_driver:
        raise ParameterError(
            f"an executor would compute other last digits than the driver: it has {here}; the driver has "
            f"{of_driver}. Install the same versions everywhere; if only the digits differ, the processors "
            "do, and NPY_DISABLE_CPU_FEATURES, set for driver and executors, makes NumPy treat them alike"
        )


def _set_threads() -> None:
    """As many threads as the task has processors."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if "APPORTION_NUM_THREADS" not in os.environ and context is not None:
        os.environ["APPORTION_NUM_THREADS"] = str(context.cpus())


@cache
def _keep_modules() -> None:
    """Spark collects garbage after every task: what is loaded for good need not be looked at each time."""
    gc.freeze()


def _disks() -> list[Path]:
    """Where this executor keeps files that go when it does: on each of its disks.

    Its working directory would stay, with rows of users, when it is killed.
    """
    from pyspark import SparkFiles

    places = os.environ.get("SPARK_LOCAL_DIRS") or SparkFiles.getRootDirectory()
    return [Path(place).absolute() / "apportion" for place in places.split(",")]
