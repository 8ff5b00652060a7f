"""A session whose users are in shards: calls are noted, and told to the shards when a sum is asked for."""

import uuid
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.data.centering import Centering
from apportion.data.spark.sessions import Traveling, parallelism, unpersist
from apportion.data.spark.shards import SparkRows, kept_labels
from apportion.engine.base import Array, Block, Session, Units
from apportion.engine.queries import Query, UserSystems, WeightRule
from apportion.engine.spark.calls import Call, needed
from apportion.engine.spark.tree import Totals, check_shuffle, is_direct, is_large
from apportion.engine.spark.worker import Ask, Work, numbers_here
from apportion.engine.users import turned_items


class ShardedSession(Session):
    """See ``Session``. Nothing is computed before a sum is asked for; then every shard is one task."""

    def __init__(self, session: Any, rows: SparkRows, most_shuffled: int, over: list[str]) -> None:
        self._session, self._rows, self._most_shuffled = session, rows, most_shuffled
        self.tasks = rows.tasks
        self._public_shards = rows.asked or parallelism(session)
        self._dimension = rows.dimension
        self._calls: tuple[Call, ...] = ()
        self._serial = 0
        self._over = over
        self._run = uuid.uuid4().hex
        self._common = Traveling(session, (rows.task_ids, rows.task_key, rows.digests))
        self._sent = [self._common]  # and what calls were told
        self._here = numbers_here()
        self._expected: tuple[Ask, ...] = ()
        self._all_expected = False  # none of what is expected is to be asked for by itself
        self._answers: dict[Ask, Iterator[Block]] = {}
        self._kept: Any = None  # the labels of shards, where executors keep something of them
        weakref.finalize(self, _end, over, self._run, self._sent).atexit = False

    def candidates(self, cap: int, key: int) -> tuple[NDArray[Any], Units]:
        """See ``Session.candidates``."""
        blocks = self._answer(Ask("candidates", (cap, key)), 1)
        counts = np.concatenate([counts[:, 0] for _, (counts,) in blocks])
        return self._rows.task_ids, counts

    def choose(self, task_ids: NDArray[Any]) -> None:
        """See ``Session.choose``."""
        self._tell("choose", task_ids)
        self.tasks = len(task_ids)

    def weigh(self, rule: WeightRule) -> None:
        """See ``Session.weigh``."""
        self._tell("weigh", rule)

    def center(self, centering: Centering, intercepts: Array | None = None) -> None:
        """See ``Session.center``."""
        self._tell("center", centering, intercepts)

    def bound_features(self, bound: float, *, whole: bool = True) -> None:
        """See ``Session.bound_features``."""
        self._tell("bound_features", bound, whole=whole)

    def solve_users(
        self,
        items: Array,
        shared: Array,
        systems: UserSystems,
        bound: float | None,
        *,
        stretch: bool = False,
    ) -> None:
        """See ``Session.solve_users``. What LAPACK computes is computed here, once for all machines.

        Turned items travel as 32-bit numbers: the kernel makes such of them anyway.
        """
        turned = None
        if np.isfinite(items).all() and np.isfinite(shared).all() and shared.any():
            rows, eigenvalues, turn = turned_items(items, shared)
            with np.errstate(all="ignore"):
                turned = rows.astype(np.float32), eigenvalues, turn
        self._dimension = items.shape[1]
        self._tell("solve_users", items, shared, systems, bound, stretch=stretch, turned=turned)

    def expect(self, *asked: tuple[Query, tuple[float, ...]]) -> None:
        """See ``Session.expect``: those that are not too large for the driver become one job."""
        self._expected = tuple(
            Ask("sums", each) for each in asked if not is_large(self._size(self._columns(each[0])))
        )
        self._all_expected = len(self._expected) == len(asked)

    def sums(self, query: Query, grids: tuple[float, ...]) -> Iterator[Block]:
        """See ``Session.sums``."""
        yield from self._answer(Ask("sums", (query, grids)), self._columns(query))

    def exact_sums(self, query: Query) -> Iterator[Block]:
        """See ``Session.exact_sums``."""
        yield from self._answer(Ask("exact_sums", (query,)), self._columns(query))

    def _columns(self, query: Query) -> int:
        """The columns of its largest part, at most."""
        d = self._dimension
        return d * (d + 1) // 2 + d if type(query).__name__ == "Statistics" else max(d, 1)

    def _size(self, columns: int) -> int:
        """About how many bytes the sums of a shard have."""
        return 8 * self.tasks * columns

    def _tell(self, name: str, *arguments: Any, **named: Any) -> None:
        self._serial += 1
        call = Call(self._serial, name, Traveling(self._session, (arguments, named)))
        calls = (*self._calls, call)
        self._calls = needed(calls)
        for old in calls:
            if old not in self._calls:
                old.arguments.forget()
        self._sent[1:] = [each.arguments for each in self._calls]
        self._expected, self._answers = (), {}

    def _answer(self, ask: Ask, columns: int) -> Iterator[Block]:
        size = self._size(columns)
        if ask.name != "candidates":  # which are not released yet: how many they are is private
            check_shuffle(ask.name, size, self._public_shards, self._most_shuffled)
        if ask not in self._answers:
            expected = ask in self._expected
            asks = self._expected if expected else (ask,)
            traveling = Traveling(self._session, asks)
            work = Work(
                self._run,
                self._common,
                self._rows.labels,
                self._calls,
                traveling,
                expected and self._all_expected,
                self._here,
                tuple(self._over),
            )
            try:
                if is_large(size):
                    yield from Totals(self._rows.shards).stream(self._rows.frame, work)
                    return
                totals = self._asked(work)
            finally:
                traveling.forget()
            self._answers = {each: totals.taken(number) for number, each in enumerate(asks)}
        yield from self._answers.pop(ask)

    def _asked(self, work: Work) -> Totals:
        """Ask what executors keep of the shards; they are sent again where it is lost."""
        frame, shards = self._rows.frame, self._rows.shards
        totals = Totals(shards)
        if self._kept is not None:
            totals.add(self._kept, work)
            if totals.complete and not totals.lost:
                return totals
            unpersist(self._kept)
        if totals.lost and is_direct(shards):
            totals.add(frame.where(f"shard in ({', '.join(map(str, totals.lost))})"), work)
        else:
            # The first time. Or executors add, and a task that was repeated, elsewhere, has given a shard to
            # some of them alone.
            totals = Totals(shards)
            totals.add(frame, work)
        self._kept = kept_labels(frame)
        weakref.finalize(self, unpersist, self._kept).atexit = False
        return totals


def _end(over: list[str], run: str, sent: list[Traveling]) -> None:
    """After a training: files on the executors are removed by the next one's tasks."""
    over.append(run)
    for each in sent:
        each.forget()
