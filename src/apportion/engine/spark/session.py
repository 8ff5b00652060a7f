"""A session whose users are in shards: calls are noted, and told to the shards when a sum is asked for."""

import uuid
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.data.centering import Centering
from apportion.data.spark.sessions import Traveling
from apportion.data.spark.shards import SparkRows
from apportion.engine.base import Array, Block, Session, Units
from apportion.engine.queries import Query, UserSystems, WeightRule
from apportion.engine.spark.calls import Call, needed
from apportion.engine.spark.tree import check_shuffle, summed
from apportion.engine.spark.worker import Ask, Work, numbers_here
from apportion.twins.users import turned_items


class ShardedSession(Session):
    """See ``Session``. Nothing is computed before a sum is asked for; then every shard is one task."""

    def __init__(self, session: Any, rows: SparkRows, most_shuffled: int, over: list[str]) -> None:
        self._session, self._rows, self._most_shuffled = session, rows, most_shuffled
        self._tasks = rows.tasks
        self._dimension = rows.dimension
        self._calls: tuple[Call, ...] = ()
        self._serial = 0
        self._over = over
        self._run = uuid.uuid4().hex
        self._common = Traveling(session, (rows.task_ids, rows.task_key, rows.digests))
        self._here = numbers_here()
        weakref.finalize(self, over.append, self._run)

    @property
    def tasks(self) -> int:
        """See ``Session.tasks``."""
        return self._tasks

    def candidates(self, cap: int, key: int) -> tuple[NDArray[Any], Units]:
        """See ``Session.candidates``."""
        blocks = self._ask("candidates", 1, cap, key)
        counts = np.concatenate([counts[:, 0] for _, (counts,) in blocks])
        return self._rows.task_ids, counts

    def choose(self, task_ids: NDArray[Any]) -> None:
        """See ``Session.choose``."""
        self._tell("choose", task_ids)
        self._tasks = len(task_ids)

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
        """See ``Session.solve_users``. What LAPACK computes is computed here, once for all machines."""
        finite = np.isfinite(items).all() and np.isfinite(shared).all()
        turned = turned_items(items, shared) if finite else None
        self._dimension = items.shape[1]
        self._tell("solve_users", items, shared, systems, bound, stretch=stretch, turned=turned)

    def sums(self, query: Query, grids: tuple[float, ...]) -> Iterator[Block]:
        """See ``Session.sums``."""
        yield from self._ask("sums", self._columns(query), query, grids)

    def exact_sums(self, query: Query) -> Iterator[Block]:
        """See ``Session.exact_sums``."""
        yield from self._ask("exact_sums", self._columns(query), query)

    def _columns(self, query: Query) -> int:
        """The columns of its largest part, at most."""
        d = self._dimension
        return d * (d + 1) // 2 + d if type(query).__name__ == "Statistics" else max(d, 1)

    def _tell(self, name: str, *arguments: Any, **named: Any) -> None:
        self._serial += 1
        call = Call(self._serial, name, Traveling(self._session, (arguments, named)))
        calls = (*self._calls, call)
        self._calls = needed(calls)
        for old in calls:
            if old not in self._calls:
                old.arguments.forget()

    def _ask(self, name: str, columns: int, *arguments: Any) -> Iterator[Block]:
        size = 8 * self._tasks * columns
        check_shuffle(name, size, self._rows.shards, self._most_shuffled)
        ask = Ask(name, Traveling(self._session, arguments))
        work = Work(
            self._run,
            self._common,
            self._rows.labels,
            self._calls,
            ask,
            self._here,
            tuple(self._over),
        )
        try:
            yield from summed(self._rows.frame, work, self._rows.shards, size)
        finally:
            ask.arguments.forget()
