"""The seam between algorithms and machines.

Rows are loaded once and stay where the engine keeps them. Users' vectors are solved, bounded and summed
there and never come back: whole numbers of grid units do, and go into a release.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.data.centering import Centering
from apportion.data.rows import Rows
from apportion.data.stored import StoredRows
from apportion.engine.queries import Query, UserSystems, WeightRule

Array = NDArray[np.float64]
Units = NDArray[np.int64]
Block = tuple[int, tuple[NDArray[Any], ...]]


class Session(ABC):
    """Loaded rows, and what was made of them so far: weights, labels, bounded feature vectors.

    Attributes
        tasks: the number of tasks that sums have.
    """

    tasks: int

    @abstractmethod
    def candidates(self, cap: int, key: int) -> tuple[NDArray[Any], Units]:
        """Ids of tasks found in the data, and users per id, each user counting for ``cap`` ids at most.

        The ids are private: both go into ``Curator.select`` and nowhere else.
        """

    @abstractmethod
    def choose(self, task_ids: NDArray[Any]) -> None:
        """Keep the rows of these tasks, in this order, as the catalog. An unknown id has no rows."""

    @abstractmethod
    def weigh(self, rule: WeightRule) -> None:
        """Give every pair of a user and a task its weight; a user's squares sum to at most one."""

    @abstractmethod
    def center(self, centering: Centering, intercepts: Array | None = None) -> None:
        """Make labels of ratings; ``intercepts`` [tasks] are subtracted first.

        A user's own mean is that of all its ratings, also of tasks that were not chosen.
        """

    @abstractmethod
    def bound_features(self, bound: float, *, whole: bool = True) -> None:
        """Bound the norms of the loaded feature vectors; ``whole``: as 16-bit whole numbers."""

    @abstractmethod
    def solve_users(
        self,
        items: Array,
        shared: Array,
        systems: UserSystems,
        bound: float | None,
        *,
        stretch: bool = False,
    ) -> None:
        """Solve every user's vector; bounded, as 16-bit whole numbers, it is the user's feature vector.

        ``stretch`` lengthens shorter vectors to the bound. Without a bound (not private) vectors stay as
        they are.
        """

    def expect(self, *asked: tuple[Query, tuple[float, ...]]) -> None:  # noqa: B027
        """Say which sums will be asked for next: where asking takes long, they are computed together."""

    @abstractmethod
    def sums(self, query: Query, grids: tuple[float, ...]) -> Iterator[Block]:
        """Blocks of tasks: the first one's number, and for every part whole numbers of its grid's units.

        They are exact: any order of users, any split into shards and any number of threads gives the same.
        """

    @abstractmethod
    def exact_sums(self, query: Query) -> Iterator[Block]:
        """The same in float64, for trainings that are not private: nothing is clipped or rounded."""


class Engine(ABC):
    """A kind of machine."""

    @abstractmethod
    def identity(self) -> dict[str, str]:
        """Whatever could change a bit of a result, by name; checkpoints compare it."""

    @abstractmethod
    def load(self, rows: Rows | StoredRows) -> Session:
        """Take rows to where sums are computed."""
