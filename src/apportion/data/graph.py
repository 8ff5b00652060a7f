"""The graph Omega: which users take part in which tasks. Private, like everything else about users."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from apportion.data.ids import Integers


@dataclass(frozen=True, eq=False)
class Graph:
    """Distinct (user, task) pairs, sorted by user, then task.

    Attributes
        user, task: one entry per pair, [pairs].
        user_key: a number for each user that does not depend on any other user, [users]. Sampling
            uses it, so that a user's sampled tasks stay the same when another user leaves.
        tasks: the size of the catalog.
        task_key: if the catalog is not public, likewise a number for each task, [tasks]; a task's
            position would depend on who else is in the data.
        confidence: how much each pair counts beside its user's others, above 0 and at most 1, [pairs]; None:
            all alike.
    """

    user: Integers
    task: Integers
    user_key: NDArray[np.uint64]
    tasks: int
    task_key: NDArray[np.uint64] | None = None
    confidence: NDArray[np.floating[Any]] | None = None

    @classmethod
    def from_rows(
        cls,
        user: Integers,
        task: Integers,
        user_key: NDArray[np.uint64],
        tasks: int,
        task_key: NDArray[np.uint64] | None = None,
    ) -> tuple[Self, Integers]:
        """Merge repeated pairs; also return the pair that each row belongs to, [rows]."""
        code = user.astype(np.int64) * max(tasks, 1) + task
        distinct, pair_of_row = np.unique(code, return_inverse=True)
        users, members = np.divmod(distinct, max(tasks, 1))
        return cls(users, members, user_key, tasks, task_key), pair_of_row

    @property
    def users(self) -> int:
        """Users in the data, with or without tasks. Not public."""
        return len(self.user_key)

    def task_sizes(self) -> NDArray[np.float64]:
        """n_i, the exact number of users in each task, [tasks]. Not public."""
        return np.bincount(self.task, minlength=self.tasks).astype(np.float64)

    def user_sizes(self) -> NDArray[np.float64]:
        """n^j, the exact number of tasks of each user, [users]. Not public."""
        return np.bincount(self.user, minlength=self.users).astype(np.float64)

    def sample(self, at_most: int, key: int) -> NDArray[np.bool_]:
        """Choose at most this many tasks of every user at random, each user by itself, [pairs]."""
        return self.rank_within_user(self.scores(key)) < at_most

    def scores(self, key: int) -> NDArray[np.uint64]:
        """A random number for every pair, from the key, the user's own key and the task, [pairs]."""
        secret = np.uint64(key % 2**64)
        task = self.task.astype(np.uint64) if self.task_key is None else self.task_key[self.task]
        return mix(mix(mix(self.user_key)[self.user] ^ secret) + task)

    def rank_within_user(self, *by: NDArray[Any]) -> Integers:
        """The rank of each pair among its user's pairs, by the first key, ties by the next."""
        order = np.lexsort((*reversed(by), self.user))
        first = np.searchsorted(self.user, np.arange(self.users))
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order)) - first[self.user[order]]
        return rank


def mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finalizer: a bijection of 64-bit numbers that scatters close ones."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
